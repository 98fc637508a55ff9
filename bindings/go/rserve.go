// Package rserve answers requests of text and pictures with their first token, encoding overlapped
// with prefill. It is the cgo binding of librserve's C ABI (rserve/rserve.h).
//
//	engine, err := rserve.Open(rserve.Config{ModelPath: "models/digits"})
//	...
//	defer engine.Close()
//	call, err := engine.Submit(ctx, &rserve.Request{
//		Chat:  true,
//		Parts: []rserve.Part{rserve.Image(file), rserve.Text("Which digit is it?")},
//	})
//	...
//	for event := range call.Events() { // optional
//		fmt.Println(event.Type)
//	}
//	answer, err := call.Wait()
//
// # Goroutines
//
// Everything is safe to call from any goroutine. One goroutine an engine takes its events; it waits
// in Go's network poller, so it holds no thread while nothing happens. One more watches the context
// of each open request that has one that can end. All are gone when Close returns.
//
// # Memory
//
// C may not keep pointers to Go memory, so pictures given as slices are copied once, into C memory
// that is freed as soon as the engine has read it. A Buffer is C memory from the start and is not
// copied.
package rserve

// #cgo LDFLAGS: -lrserve
// #include <rserve/rserve.h>
import "C"

import "fmt"

// Version returns the library's version, "major.minor.patch".
func Version() string {
	return C.GoString(C.rserve_version())
}

// checkABI refuses a library that is older than the header the package was compiled with.
func checkABI() error {
	abi := uint32(C.rserve_abi_version())
	if abi>>16 == C.RSERVE_ABI_MAJOR && abi&0xffff >= C.RSERVE_ABI_MINOR {
		return nil
	}
	return &Error{CodeFailedPrecondition, fmt.Sprintf("librserve has ABI %d.%d, the program needs %d.%d",
		abi>>16, abi&0xffff, C.RSERVE_ABI_MAJOR, C.RSERVE_ABI_MINOR), nil}
}
