package rserve

// #include <rserve/rserve.h>
import "C"

import (
	"context"
	"time"
	"unsafe"
)

// Call is a request under way.
type Call struct {
	engine  *Engine
	ctx     context.Context
	id      uint64
	request *Request
	inputs  inputs // the driver's
	events  chan Event
	done    chan struct{}

	// Written by the driver before done is closed.
	answer Answer
	err    error
}

// Answer is what became of a request.
type Answer struct {
	Token   int32
	Logprob float32       // natural logarithm, before temperature and top_p
	TTFT    time.Duration // time to first token
	Times   Times

	PromptTokens int64
	ReusedTokens int64   // of them, whose KV was there (KVReuse)
	Tokens       []int32   // with KeepTokens: the prompt's, placeholders expanded
	Logits       []float32 // with KeepLogits: the last prompt token's
	Embeddings   []float32 // with KeepEmbeddings: the pictures', rows of the model's hidden size
}

// Times says when a request passed which point, in ns on CLOCK_MONOTONIC; 0: not reached.
type Times struct {
	SubmittedNs    int64
	FirstEncodeNs  int64 // first batch with a picture of it issued
	LastEncodeNs   int64 // last picture encoded
	FirstPrefillNs int64 // first chunk issued to the first stage
	FirstTokenNs   int64
	EndedNs        int64
	FirstPrepareNs int64 // first picture given to a media thread
	LastPrepareNs  int64 // last picture prepared
}

func newCall(e *Engine, ctx context.Context, request *Request, pictures inputs) *Call {
	copied := *request
	copied.Parts = nil
	// Accepted, two a picture, first token, terminal: room for all, so that the driver never waits
	// for a reader.
	events := make(chan Event, 2*len(pictures)+3)
	return &Call{engine: e, ctx: ctx, request: &copied, inputs: pictures, events: events,
		done: make(chan struct{})}
}

// ID is the request's number.
func (c *Call) ID() uint64 { return c.id }

// Events gives the request's events; it is closed after the terminal one. It need not be read.
func (c *Call) Events() <-chan Event { return c.events }

// Done is closed when the request has ended.
func (c *Call) Done() <-chan struct{} { return c.done }

// Wait waits for the request's end and returns its answer, or why there is none. When its context
// ended it, the error also is (errors.Is) the context's. Times are there in both cases.
func (c *Call) Wait() (Answer, error) {
	<-c.done
	return c.answer, c.err
}

// Cancel asks for the request's end. Best effort: it may still finish. It never waits.
func (c *Call) Cancel() {
	// NOT_FOUND when it has ended, FAILED_PRECONDITION when the engine was closed: both are ends.
	_ = c.engine.call(func(handle *C.rserve_engine, err **C.rserve_error) C.rserve_status_t {
		return C.rserve_engine_cancel(handle, C.uint64_t(c.id), err)
	})
}

// watch cancels the request when its context ends.
func (c *Call) watch() {
	defer c.engine.watchers.Done()
	select {
	case <-c.ctx.Done():
		c.Cancel()
	case <-c.done:
	}
}

// deliver passes an event on. On the driver's goroutine.
func (c *Call) deliver(event Event) {
	if event.Type == EventFirstToken {
		c.answer.Token, c.answer.Logprob, c.answer.TTFT = event.Token, event.Logprob, event.Elapsed
	}
	if _, known := eventNames[event.Type]; known {
		c.events <- event // there is room
	}
}

// end handles the terminal event. On the driver's goroutine, which ends before the engine's handle.
func (c *Call) end(event Event) {
	c.inputs.release()
	message := c.readDetail()
	C.rserve_engine_acknowledge(c.engine.handle, C.uint64_t(c.id), nil)
	if event.Type != EventFinished {
		err := &Error{Code: event.Status, Message: message}
		if event.Type == EventCancelled {
			err.cause = c.ctx.Err()
		}
		c.err = err
	}
	c.deliver(event)
	close(c.events)
	close(c.done)
}

// readDetail fills in the answer and returns the error text.
func (c *Call) readDetail() string {
	var detail *C.rserve_detail
	if C.rserve_request_detail(c.engine.handle, C.uint64_t(c.id), &detail, nil) != C.RSERVE_STATUS_OK {
		return ""
	}
	defer C.rserve_detail_destroy(detail)
	info := C.rserve_detail_info{struct_size: C.sizeof_rserve_detail_info}
	C.rserve_detail_get_info(detail, &info, nil)
	c.answer.PromptTokens = int64(info.prompt_tokens)
	c.answer.ReusedTokens = int64(info.reused_tokens)
	c.answer.Times = Times{
		SubmittedNs:    int64(info.submitted_ns),
		FirstEncodeNs:  int64(info.first_encode_ns),
		LastEncodeNs:   int64(info.last_encode_ns),
		FirstPrefillNs: int64(info.first_prefill_ns),
		FirstTokenNs:   int64(info.first_token_ns),
		EndedNs:        int64(info.ended_ns),
		FirstPrepareNs: int64(info.first_prepare_ns),
		LastPrepareNs:  int64(info.last_prepare_ns),
	}
	var count C.size_t
	if c.request.KeepTokens {
		c.answer.Tokens = copyOf[int32](unsafe.Pointer(C.rserve_detail_tokens(detail, &count)), &count)
	}
	c.answer.Logits = copyOf[float32](unsafe.Pointer(C.rserve_detail_logits(detail, &count)), &count)
	c.answer.Embeddings =
		copyOf[float32](unsafe.Pointer(C.rserve_detail_embeddings(detail, &count)), &count)
	message := C.rserve_detail_message(detail, &count)
	return C.GoStringN(message, C.int(count))
}

// copyOf copies a C array, whose count was written by the call that returned it.
func copyOf[T any](data unsafe.Pointer, count *C.size_t) []T {
	if data == nil || *count == 0 {
		return nil
	}
	return append([]T(nil), unsafe.Slice((*T)(data), int(*count))...)
}
