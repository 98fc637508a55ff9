package rserve

// #include <stdlib.h>
import "C"

import (
	"sync/atomic"
	"unsafe"
)

// Buffer is C memory for a picture: written in place and read by the engine without a copy. It is
// reused or freed by its owner; requests that still read it keep it alive.
type Buffer struct {
	data unsafe.Pointer
	size int
	refs atomic.Int64 // the owner's and one for each picture under way
}

// NewBuffer returns zeroed memory. The caller ends it with Free.
func NewBuffer(bytes int) *Buffer {
	if bytes < 0 {
		panic("rserve: a Buffer of a negative size")
	}
	b := &Buffer{data: C.calloc(1, C.size_t(bytes)+1), size: bytes}
	if b.data == nil {
		panic("rserve: out of memory")
	}
	b.refs.Store(1)
	return b
}

// Bytes is the memory. It must not be used after Free, nor written while a request reads it: until
// the request's EventInputReleased for it, or the request's end.
func (b *Buffer) Bytes() []byte {
	return unsafe.Slice((*byte)(b.data), b.size)
}

// Free gives up the memory. Requests under way finish with it. Call it once.
func (b *Buffer) Free() {
	switch left := b.refs.Add(-1); {
	case left == 0:
		C.free(b.data)
		b.data = nil
	case left < 0:
		panic("rserve: Buffer freed twice")
	}
}

// retain adds a user; false when the memory is gone.
func (b *Buffer) retain() bool {
	for {
		refs := b.refs.Load()
		if refs <= 0 {
			return false
		}
		if b.refs.CompareAndSwap(refs, refs+1) {
			return true
		}
	}
}
