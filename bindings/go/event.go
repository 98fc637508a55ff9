package rserve

// #include <rserve/rserve.h>
import "C"

import (
	"fmt"
	"time"
	"unsafe"
)

// EventType says what happened.
type EventType int32

// What happens to a request. EventAccepted is the first, one of the last three the last.
const (
	EventAccepted      EventType = C.RSERVE_EVENT_ACCEPTED
	EventItemEncoded   EventType = C.RSERVE_EVENT_ITEM_ENCODED   // Item, Tokens
	EventInputReleased EventType = C.RSERVE_EVENT_INPUT_RELEASED // Item: its Buffer may be reused
	EventFirstToken    EventType = C.RSERVE_EVENT_FIRST_TOKEN    // Token, Logprob, Elapsed
	EventFinished      EventType = C.RSERVE_EVENT_FINISHED       // Elapsed
	EventFailed        EventType = C.RSERVE_EVENT_FAILED         // Status, Elapsed
	EventCancelled     EventType = C.RSERVE_EVENT_CANCELLED      // Status, Elapsed
)

var eventNames = map[EventType]string{
	EventAccepted: "accepted", EventItemEncoded: "encoded", EventInputReleased: "released",
	EventFirstToken: "first token", EventFinished: "finished", EventFailed: "failed", EventCancelled: "cancelled",
}

// String returns a word for it.
func (t EventType) String() string {
	if name, ok := eventNames[t]; ok {
		return name
	}
	return fmt.Sprintf("event %d", int32(t))
}

// Event is something that happened to a request. What its type does not name is 0.
type Event struct {
	Type      EventType
	RequestID uint64
	TimeNs    int64 // on CLOCK_MONOTONIC
	Item      int   // number of the picture in the request, from 0
	Tokens    int64 // rows of the picture's embedding
	Token     int32
	Logprob   float32       // natural logarithm, before temperature and top_p
	Elapsed   time.Duration // since the submit; of EventFirstToken: the time to first token
	Status    Code          // of the request
}

// Terminal says whether it is the request's last event.
func (e Event) Terminal() bool { return e.Type >= EventFinished && e.Type <= EventCancelled }

func makeEvent(from *C.rserve_event) (event Event, more bool) {
	event = Event{
		Type:      EventType(from._type),
		RequestID: uint64(from.request_id),
		TimeNs:    int64(from.t_mono_ns),
		Status:    Code(from.status),
	}
	// The union: 24 bytes that are aligned to 8.
	u := unsafe.Pointer(&from.u)
	half := (*[6]int32)(u)
	whole := (*[3]int64)(u)
	switch event.Type {
	case EventItemEncoded, EventInputReleased:
		event.Item, event.Tokens = int(half[0]), whole[1]
	case EventFirstToken:
		event.Token, event.Logprob = half[0], *(*float32)(unsafe.Pointer(&half[1]))
		event.Elapsed = time.Duration(whole[1])
	case EventFinished, EventFailed, EventCancelled:
		event.Elapsed = time.Duration(whole[0])
	}
	return event, from.flags&C.RSERVE_EVENT_F_MORE != 0
}
