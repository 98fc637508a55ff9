package rserve

// #include <rserve/rserve.h>
import "C"

import "errors"

// Code says what kind of failure an Error is. The numbers are those of gRPC and Abseil.
type Code int32

// The codes.
const (
	CodeOK                 Code = C.RSERVE_STATUS_OK
	CodeCancelled          Code = C.RSERVE_STATUS_CANCELLED
	CodeUnknown            Code = C.RSERVE_STATUS_UNKNOWN
	CodeInvalidArgument    Code = C.RSERVE_STATUS_INVALID_ARGUMENT
	CodeDeadlineExceeded   Code = C.RSERVE_STATUS_DEADLINE_EXCEEDED
	CodeNotFound           Code = C.RSERVE_STATUS_NOT_FOUND
	CodeAlreadyExists      Code = C.RSERVE_STATUS_ALREADY_EXISTS
	CodePermissionDenied   Code = C.RSERVE_STATUS_PERMISSION_DENIED
	CodeResourceExhausted  Code = C.RSERVE_STATUS_RESOURCE_EXHAUSTED
	CodeFailedPrecondition Code = C.RSERVE_STATUS_FAILED_PRECONDITION
	CodeAborted            Code = C.RSERVE_STATUS_ABORTED
	CodeOutOfRange         Code = C.RSERVE_STATUS_OUT_OF_RANGE
	CodeUnimplemented      Code = C.RSERVE_STATUS_UNIMPLEMENTED
	CodeInternal           Code = C.RSERVE_STATUS_INTERNAL
	CodeUnavailable        Code = C.RSERVE_STATUS_UNAVAILABLE
	CodeDataLoss           Code = C.RSERVE_STATUS_DATA_LOSS
	CodeUnauthenticated    Code = C.RSERVE_STATUS_UNAUTHENTICATED
)

// String returns "INVALID_ARGUMENT" and so on.
func (c Code) String() string {
	return C.GoString(C.rserve_status_name(C.rserve_status_t(c)))
}

// Error is why a call or a request failed.
type Error struct {
	Code    Code
	Message string // what was wrong, with its value and limit
	cause   error  // the context's error, when its end cancelled the request
}

// Error returns code and message.
func (e *Error) Error() string { return e.Code.String() + ": " + e.Message }

// Unwrap returns the context's error when its end cancelled the request.
func (e *Error) Unwrap() error { return e.cause }

// CodeOf returns the code of the Error in err, CodeOK for nil and CodeUnknown for other errors.
func CodeOf(err error) Code {
	if err == nil {
		return CodeOK
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeUnknown
}

// asError turns a status and the error that came with it into a Go error, and frees the latter.
func asError(status C.rserve_status_t, err *C.rserve_error) error {
	if status == C.RSERVE_STATUS_OK {
		return nil
	}
	defer C.rserve_error_destroy(err)
	var length C.size_t
	message := C.rserve_error_message(err, &length)
	return &Error{Code(status), C.GoStringN(message, C.int(length)), nil}
}

func errClosed() error {
	return &Error{CodeFailedPrecondition, "the engine was closed", nil}
}
