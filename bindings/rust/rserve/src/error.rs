//! Why a call failed, or a request.

use std::fmt;

use rserve_sys as sys;

/// What kind of failure. The numbers are those of gRPC and Abseil.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(i32)]
#[non_exhaustive]
#[allow(missing_docs)] // the names are the documentation
pub enum Code {
    Cancelled = sys::RSERVE_STATUS_CANCELLED,
    Unknown = sys::RSERVE_STATUS_UNKNOWN,
    InvalidArgument = sys::RSERVE_STATUS_INVALID_ARGUMENT,
    DeadlineExceeded = sys::RSERVE_STATUS_DEADLINE_EXCEEDED,
    NotFound = sys::RSERVE_STATUS_NOT_FOUND,
    AlreadyExists = sys::RSERVE_STATUS_ALREADY_EXISTS,
    PermissionDenied = sys::RSERVE_STATUS_PERMISSION_DENIED,
    ResourceExhausted = sys::RSERVE_STATUS_RESOURCE_EXHAUSTED,
    FailedPrecondition = sys::RSERVE_STATUS_FAILED_PRECONDITION,
    Aborted = sys::RSERVE_STATUS_ABORTED,
    OutOfRange = sys::RSERVE_STATUS_OUT_OF_RANGE,
    Unimplemented = sys::RSERVE_STATUS_UNIMPLEMENTED,
    Internal = sys::RSERVE_STATUS_INTERNAL,
    Unavailable = sys::RSERVE_STATUS_UNAVAILABLE,
    DataLoss = sys::RSERVE_STATUS_DATA_LOSS,
    Unauthenticated = sys::RSERVE_STATUS_UNAUTHENTICATED,
}

impl Code {
    /// The code of a status that is not OK; a number that is none is `Unknown`.
    pub(crate) fn of(status: sys::rserve_status_t) -> Code {
        const ALL: [Code; 16] = [
            Code::Cancelled,
            Code::Unknown,
            Code::InvalidArgument,
            Code::DeadlineExceeded,
            Code::NotFound,
            Code::AlreadyExists,
            Code::PermissionDenied,
            Code::ResourceExhausted,
            Code::FailedPrecondition,
            Code::Aborted,
            Code::OutOfRange,
            Code::Unimplemented,
            Code::Internal,
            Code::Unavailable,
            Code::DataLoss,
            Code::Unauthenticated,
        ];
        ALL.into_iter().find(|code| *code as i32 == status).unwrap_or(Code::Unknown)
    }

    /// "INVALID_ARGUMENT" and so on.
    pub fn name(self) -> &'static str {
        // SAFETY: a static string with a NUL.
        let name = unsafe { std::ffi::CStr::from_ptr(sys::rserve_status_name(self as i32)) };
        name.to_str().unwrap_or("UNKNOWN")
    }
}

/// A failure: its kind and what was wrong, with its value and limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    code: Code,
    message: String,
}

/// What calls return.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of the program's own, for example to finish an action of an orchestrator with.
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error { code, message: message.into() }
    }

    /// What kind of failure.
    pub fn code(&self) -> Code {
        self.code
    }

    /// What was wrong.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.message)
    }
}

impl std::error::Error for Error {}

/// Makes a call that takes `rserve_error **` and turns its status into a result.
pub(crate) fn call(
    function: impl FnOnce(*mut *mut sys::rserve_error) -> sys::rserve_status_t,
) -> Result<()> {
    let mut err = std::ptr::null_mut();
    let status = function(&mut err);
    if status == sys::RSERVE_STATUS_OK {
        return Ok(());
    }
    let mut length = 0;
    // SAFETY: `err` is NULL or an error that is ours, and its message lives until the destroy.
    let message = unsafe {
        let text = sys::rserve_error_message(err, &mut length);
        String::from_utf8_lossy(slice(text.cast::<u8>(), length)).into_owned()
    };
    // SAFETY: ours, and not used any more.
    unsafe { sys::rserve_error_destroy(err) };
    Err(Error::new(Code::of(status), message))
}

/// A C array, which may be NULL with length 0.
///
/// # Safety
/// `data` points to `length` values that live and do not change for `'a`.
pub(crate) unsafe fn slice<'a, T>(data: *const T, length: usize) -> &'a [T] {
    if data.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data, length) }
}
