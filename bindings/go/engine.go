package rserve

// #include <stdlib.h>
// #include <rserve/rserve.h>
import "C"

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// Engine is a model with its workers and its open requests. All its methods may be called from any
// goroutine.
type Engine struct {
	// Held for reading during calls into the library, for writing by Close around the destroy.
	gate    sync.RWMutex
	handle  *C.rserve_engine // NULL once it was destroyed
	closing bool

	// Held over a submit, so that no event of a request is handled before the request is in open.
	mu    sync.Mutex
	open  map[uint64]*Call
	empty *sync.Cond // open became empty

	wake     *os.File      // a duplicate of the wait fd, in the poller
	driver   chan struct{} // closed when the driver has ended
	watchers sync.WaitGroup
	close    sync.Once
}

// Open loads a model and starts its workers. It blocks while it reads the weights. The caller ends
// the engine with Close.
func Open(config Config) (*Engine, error) {
	if err := checkABI(); err != nil {
		return nil, err
	}
	handle, err := config.create()
	if err != nil {
		return nil, err
	}
	e := &Engine{handle: handle, open: make(map[uint64]*Call), driver: make(chan struct{})}
	e.empty = sync.NewCond(&e.mu)
	// The engine's fd is the engine's; the poller takes, and Close closes, a duplicate.
	fd, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(C.rserve_engine_wait_fd(handle)),
		syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		C.rserve_engine_destroy(handle)
		return nil, &Error{CodeInternal, fmt.Sprintf("the wait fd cannot be duplicated: %v", errno), nil}
	}
	e.wake = os.NewFile(fd, "rserve-wait-fd")
	go e.drive()
	return e, nil
}

// call runs a function of the library on the engine, unless it was closed.
func (e *Engine) call(f func(handle *C.rserve_engine, err **C.rserve_error) C.rserve_status_t) error {
	e.gate.RLock()
	defer e.gate.RUnlock()
	if e.handle == nil {
		return errClosed()
	}
	var err *C.rserve_error
	status := f(e.handle, &err)
	return asError(status, err)
}

// Submit queues a request. It never waits for other requests. When ctx ends before the request, the
// request is cancelled.
func (e *Engine) Submit(ctx context.Context, request *Request) (*Call, error) {
	if err := ctx.Err(); err != nil {
		return nil, &Error{CodeCancelled, "the context ended before the submit", err}
	}
	var memory arena
	defer memory.free()
	lowered, pictures, err := request.lower(&memory)
	if err != nil {
		return nil, err
	}
	c := newCall(e, ctx, request, pictures)

	e.gate.RLock()
	defer e.gate.RUnlock()
	if e.closing {
		pictures.release()
		return nil, errClosed()
	}
	var id C.uint64_t
	var cErr *C.rserve_error
	e.mu.Lock()
	status := C.rserve_engine_submit(e.handle, lowered, &id, &cErr)
	if status != C.RSERVE_STATUS_OK {
		e.mu.Unlock()
		pictures.release()
		return nil, asError(status, cErr)
	}
	c.id = uint64(id)
	e.open[c.id] = c
	e.mu.Unlock()

	if ctx.Done() != nil {
		e.watchers.Add(1) // under the gate: before Close waits for them
		go c.watch()
	}
	return c, nil
}

// Drain refuses new requests from now on and waits until the open ones have ended, or ctx has.
func (e *Engine) Drain(ctx context.Context) error {
	err := e.call(func(handle *C.rserve_engine, err **C.rserve_error) C.rserve_status_t {
		return C.rserve_engine_drain(handle, err)
	})
	if err != nil {
		return err
	}
	e.mu.Lock()
	open := make([]*Call, 0, len(e.open))
	for _, c := range e.open {
		open = append(open, c)
	}
	e.mu.Unlock()
	for _, c := range open {
		select {
		case <-c.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Close cancels what is open, waits until it has ended and computations under way are over, and
// frees the engine. Nothing of it runs afterwards. Calls that come later get an error.
func (e *Engine) Close() {
	e.close.Do(func() {
		e.gate.Lock()
		e.closing = true
		e.gate.Unlock()
		// Fails only in a forked child, which Go does not have.
		_ = e.call(func(handle *C.rserve_engine, err **C.rserve_error) C.rserve_status_t {
			return C.rserve_engine_abort(handle, err)
		})
		e.mu.Lock()
		for len(e.open) > 0 {
			e.empty.Wait()
		}
		e.mu.Unlock()
		e.watchers.Wait()
		e.wake.Close() // ends the driver
		<-e.driver
		e.gate.Lock()
		C.rserve_engine_destroy(e.handle)
		e.handle = nil
		e.gate.Unlock()
	})
}

// drive takes events until the engine closes.
func (e *Engine) drive() {
	defer close(e.driver)
	events := make([]C.rserve_event, 64)
	conn, err := e.wake.SyscallConn()
	if err == nil {
		// Called again each time the fd becomes readable. The poller's readiness is an edge: whatever
		// comes after a poll that found nothing is a new one.
		err = conn.Read(func(uintptr) bool {
			e.poll(events)
			return false
		})
	}
	// Closed, and nothing is open. Or the poller cannot wait for the fd: then nobody would ever be
	// told of anything, so say it loudly.
	if !e.isClosing() {
		panic(fmt.Sprintf("rserve: waiting for events failed: %v", err))
	}
}

func (e *Engine) isClosing() bool {
	e.gate.RLock()
	defer e.gate.RUnlock()
	return e.closing
}

// poll takes the events that are there. Only the driver calls it.
func (e *Engine) poll(events []C.rserve_event) {
	for {
		var count C.size_t
		// The driver ends before the handle, so the gate is not needed; and must not be taken, as Close
		// may wait for it while it waits for us.
		status := C.rserve_engine_poll(e.handle, &events[0], C.size_t(len(events)),
			C.sizeof_rserve_event, &count, nil)
		if status != C.RSERVE_STATUS_OK {
			return // only in a forked child
		}
		for i := range events[:count] {
			event, more := makeEvent(&events[i])
			e.settle(event, more)
		}
		if int(count) < len(events) {
			return
		}
	}
}

func (e *Engine) settle(event Event, more bool) {
	e.mu.Lock()
	c := e.open[event.RequestID]
	e.mu.Unlock()
	if c == nil {
		return
	}
	if event.Type == EventInputReleased && event.Item < len(c.inputs) {
		c.inputs[event.Item].release()
	}
	if more {
		c.deliver(event)
		return
	}
	c.end(event)
	e.mu.Lock()
	delete(e.open, event.RequestID)
	if len(e.open) == 0 {
		e.empty.Broadcast()
	}
	e.mu.Unlock()
}

// Stats are an engine's counters.
type Stats struct {
	Idle                                  bool  // nothing open and nothing lingering
	OpenRequests                          int64 // accepted, not ended
	LingeringRequests                     int64 // ended, a computation still holds buffers of theirs
	EmbeddingBytes, PeakEmbeddingBytes    int64
	PixelBytes, PeakPixelBytes            int64
	UnitsInFlight                         int64
	KVBlocksUsed, PeakKVBlocksUsed        int64
	InputBytes                            int64
	EncodeBatches, EncodedUnits           int64
	EncodedTokens                         int64
	MicroBatches, PrefilledTokens         int64
	Accepted, Finished, Failed, Cancelled int64
	Refused                               int64 // submits that were not accepted

	// Of the embedding cache. A unit is a picture or a temporal patch.
	CacheHits                  int64 // units whose embedding was there: neither decoded nor encoded
	CacheShared                int64 // units that another open request was preparing or encoding
	CacheMisses                int64 // units that were encoded
	CacheEvictions             int64 // embeddings dropped for room
	CacheBytes, PeakCacheBytes int64

	// Of KV reuse.
	ReusedTokens   int64 // prompt tokens that were not prefilled
	KVBlocksCached int64 // in use by nobody and kept
	KVEvictions    int64 // kept blocks whose room was needed
}

// Stats returns a recent copy of the counters.
func (e *Engine) Stats() (Stats, error) {
	s := C.rserve_stats{struct_size: C.sizeof_rserve_stats}
	err := e.call(func(handle *C.rserve_engine, err **C.rserve_error) C.rserve_status_t {
		return C.rserve_engine_get_stats(handle, &s, err)
	})
	if err != nil {
		return Stats{}, err
	}
	return Stats{
		Idle:              s.idle != 0,
		OpenRequests:      int64(s.open_requests),
		LingeringRequests: int64(s.lingering_requests),
		EmbeddingBytes:    int64(s.embedding_bytes), PeakEmbeddingBytes: int64(s.peak_embedding_bytes),
		PixelBytes: int64(s.pixel_bytes), PeakPixelBytes: int64(s.peak_pixel_bytes),
		UnitsInFlight: int64(s.units_in_flight),
		KVBlocksUsed:  int64(s.kv_blocks_used), PeakKVBlocksUsed: int64(s.peak_kv_blocks_used),
		InputBytes:    int64(s.input_bytes),
		EncodeBatches: int64(s.encode_batches), EncodedUnits: int64(s.encoded_units),
		EncodedTokens: int64(s.encoded_tokens),
		MicroBatches:  int64(s.micro_batches), PrefilledTokens: int64(s.prefilled_tokens),
		Accepted: int64(s.accepted), Finished: int64(s.finished),
		Failed: int64(s.failed), Cancelled: int64(s.cancelled),
		Refused:   int64(s.refused),
		CacheHits: int64(s.cache_hits), CacheShared: int64(s.cache_shared),
		CacheMisses: int64(s.cache_misses), CacheEvictions: int64(s.cache_evictions),
		CacheBytes: int64(s.cache_bytes), PeakCacheBytes: int64(s.peak_cache_bytes),
		ReusedTokens: int64(s.reused_tokens), KVBlocksCached: int64(s.kv_blocks_cached),
		KVEvictions: int64(s.kv_evictions),
	}, nil
}

// ModelInfo is the model's shape.
type ModelInfo struct {
	VocabSize, HiddenSize, Layers int
	Heads, KVHeads, HeadDim       int
	MaxPositions                  int
	VisionDepth, VisionHidden     int
	PatchSize                     int // pixels a side
	MergeSize                     int // patches a side that make one token
	Workers                       int
	MinPixels, MaxPixels          int64 // of a resized picture
	WeightBytes, KVBytesPerToken  int64
	KVBlocks                      int64
}

// ModelInfo returns the model's shape.
func (e *Engine) ModelInfo() (ModelInfo, error) {
	m := C.rserve_model_info{struct_size: C.sizeof_rserve_model_info}
	err := e.call(func(handle *C.rserve_engine, err **C.rserve_error) C.rserve_status_t {
		return C.rserve_engine_get_model_info(handle, &m, err)
	})
	if err != nil {
		return ModelInfo{}, err
	}
	return ModelInfo{
		VocabSize: int(m.vocab_size), HiddenSize: int(m.hidden_size), Layers: int(m.num_layers),
		Heads: int(m.num_heads), KVHeads: int(m.num_kv_heads), HeadDim: int(m.head_dim),
		MaxPositions: int(m.max_position_embeddings),
		VisionDepth:  int(m.vision_depth), VisionHidden: int(m.vision_hidden_size),
		PatchSize: int(m.patch_size), MergeSize: int(m.merge_size), Workers: int(m.num_workers),
		MinPixels: int64(m.min_pixels), MaxPixels: int64(m.max_pixels),
		WeightBytes: int64(m.weight_bytes), KVBytesPerToken: int64(m.kv_bytes_per_token),
		KVBlocks: int64(m.kv_blocks),
	}, nil
}

// Decode returns the text of tokens; it may begin or end inside a UTF-8 character.
func (e *Engine) Decode(tokens ...int32) (string, error) {
	var text []byte
	var from *C.int32_t
	if len(tokens) > 0 {
		from = (*C.int32_t)(unsafe.Pointer(&tokens[0]))
	}
	for {
		var to *C.char
		if len(text) > 0 {
			to = (*C.char)(unsafe.Pointer(&text[0]))
		}
		var length C.size_t
		err := e.call(func(handle *C.rserve_engine, err **C.rserve_error) C.rserve_status_t {
			return C.rserve_engine_decode(handle, from, C.size_t(len(tokens)), to,
				C.size_t(len(text)), &length, err)
		})
		if err != nil {
			return "", err
		}
		if int(length) <= len(text) {
			return string(text[:length]), nil
		}
		text = make([]byte, length)
	}
}
