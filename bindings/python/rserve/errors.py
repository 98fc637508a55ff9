"""Failures of calls, with the numbers and names of rserve's statuses."""

from __future__ import annotations

import ctypes
import enum

from . import _ffi


class Status(enum.IntEnum):
    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class Error(Exception):
    """A call failed. `status` is a Status, `message` says what was wrong with which value."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(f"{status.name}: {message}")
        self.status = status
        self.message = message


def check(call, *arguments):
    """Calls a function of the C ABI that takes a last `rserve_error **`; raises what it reports."""
    err = ctypes.c_void_p()
    status = call(*arguments, ctypes.byref(err))
    if status == 0:
        return
    library = _ffi.load()
    message = library.rserve_error_message(err, None).decode("utf-8", "replace")
    library.rserve_error_destroy(err)
    raise Error(Status(status), message)
