//! Closures behind the C callbacks.

use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};

use rserve_sys as sys;

use crate::error::slice;

/// How much a log message matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum LogLevel {
    Debug,
    Info,
    Warning,
    Error,
}

/// One log message.
#[derive(Debug)]
#[non_exhaustive]
pub struct LogRecord<'a> {
    /// How much it matters.
    pub level: LogLevel,
    /// When, on CLOCK_MONOTONIC.
    pub time_ns: i64,
    /// The text.
    pub message: &'a str,
}

/// Receives log messages.
pub type LogSink = Box<dyn Fn(&LogRecord<'_>) + Send + Sync>;
/// Receives the progress of loading.
pub type ProgressSink = Box<dyn FnMut(i64, i64) + Send>;

/// The C form of a log. The library destroys it exactly once, whether or not creation succeeds, so it
/// must be handed to a create.
pub(crate) fn c_log(sink: LogSink) -> sys::rserve_log {
    sys::rserve_log {
        ctx: Box::into_raw(Box::new(sink)).cast(),
        write: Some(write_log),
        destroy: Some(destroy::<LogSink>),
        ..sys::rserve_log::init()
    }
}

/// The C form of a progress report; as `c_log`.
pub(crate) fn c_progress(sink: ProgressSink) -> sys::rserve_load_progress {
    sys::rserve_load_progress {
        ctx: Box::into_raw(Box::new(sink)).cast(),
        report: Some(report_progress),
        destroy: Some(destroy::<ProgressSink>),
        ..sys::rserve_load_progress::init()
    }
}

unsafe extern "C" fn write_log(ctx: *mut c_void, record: *const sys::rserve_log_record) {
    // SAFETY: `ctx` is c_log's until destroy, shared between threads; the record lives for the call.
    let (sink, record) = unsafe { (&*ctx.cast::<LogSink>(), &*record) };
    // SAFETY: as said in the record.
    let message = unsafe { slice(record.message.cast::<u8>(), record.message_length) };
    let level = match record.level {
        i32::MIN..=0 => LogLevel::Debug,
        1 => LogLevel::Info,
        2 => LogLevel::Warning,
        _ => LogLevel::Error,
    };
    let message = String::from_utf8_lossy(message);
    let record = LogRecord { level, time_ns: record.t_mono_ns, message: &message };
    // A panic must not unwind into C, and has nobody to go to.
    let _ = catch_unwind(AssertUnwindSafe(|| sink(&record)));
}

unsafe extern "C" fn report_progress(ctx: *mut c_void, done_bytes: i64, total_bytes: i64) {
    // SAFETY: `ctx` is c_progress's until destroy, used by one thread at a time.
    let sink = unsafe { &mut *ctx.cast::<ProgressSink>() };
    let _ = catch_unwind(AssertUnwindSafe(|| sink(done_bytes, total_bytes)));
}

unsafe extern "C" fn destroy<T>(ctx: *mut c_void) {
    // SAFETY: the box of c_log or c_progress, given back once.
    let sink = unsafe { Box::from_raw(ctx.cast::<T>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(sink)));
}
