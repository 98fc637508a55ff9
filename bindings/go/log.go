package rserve

// #include <stddef.h>
// #include <stdint.h>
import "C"

import "runtime/cgo"

//export rserveGoLog
func rserveGoLog(handle C.uintptr_t, level C.int32_t, timeNs C.int64_t, message *C.char, length C.size_t) {
	log := cgo.Handle(handle).Value().(func(LogRecord))
	log(LogRecord{int(level), int64(timeNs), C.GoStringN(message, C.int(length))})
}

//export rserveGoLogEnd
func rserveGoLogEnd(handle C.uintptr_t) {
	cgo.Handle(handle).Delete()
}
