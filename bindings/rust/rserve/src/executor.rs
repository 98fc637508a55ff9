//! A model of the host's own behind the engine's threads, queues and events.
//!
//! Implement [`Executor`], make the engine with [`Engine::with_executor`], submit with
//! [`Engine::submit_plan`]; events, cancel, drain and details are those of every engine.

use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::{null, null_mut, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use rserve_sys as sys;
use rserve_sys::host as c;

use crate::callbacks::{c_log, LogSink};
use crate::engine::Engine;
use crate::error::{call, slice, Code, Error, Result};
use crate::events::Events;
use crate::orchestrator::{HostConfig, HostRequest, StageEntry, UnitRef};

/// A batch to encode.
#[derive(Debug)]
#[non_exhaustive]
pub struct EncodeJob<'a> {
    /// Where.
    pub worker: i32,
    /// What.
    pub units: &'a [UnitRef],
    /// Of all units.
    pub tokens: i64,
}

/// A micro-batch to forward through one stage.
#[derive(Debug)]
#[non_exhaustive]
pub struct StageJob<'a> {
    /// Where.
    pub worker: i32,
    /// Which.
    pub stage: i32,
    /// Whether it is the pipeline's last.
    pub last: bool,
    /// The same number on every stage: keys the hand-over.
    pub micro_batch: u64,
    /// A chunk each.
    pub entries: &'a [StageEntry],
    /// Of all entries.
    pub tokens: i64,
}

/// The host's model. `prepare` runs on the engine's media threads, several at a time; `encode` and
/// `forward` on the worker's own thread, one at a time a worker; the others on the engine's driver
/// thread. None may poll or end its engine. A panic fails the action that it was for.
pub trait Executor: Send + Sync + 'static {
    /// Makes a unit's input ready; asked for with `prepare_lanes` above 0 only. May block.
    fn prepare(&self, request_id: u64, unit: i32) -> Result<()> {
        let _ = (request_id, unit);
        Ok(())
    }

    /// Encodes, or starts to: the end is told with `done`, here or later, from any thread.
    fn encode(&self, job: EncodeJob<'_>, done: Completion);

    /// Forwards, or starts to. Stages of one micro-batch come in order, each after the one before has
    /// completed.
    fn forward(&self, job: StageJob<'_>, done: Completion);

    /// The first token of a request whose last stage is through, and the natural logarithm of its
    /// probability.
    fn take_first_token(&self, request_id: u64) -> Result<(i32, f32)>;

    /// The micro-batch goes no further: its hand-over can go.
    fn drop_micro_batch(&self, micro_batch: u64) {
        let _ = micro_batch;
    }

    /// The unit's prepared input is free.
    fn release_pixels(&self, request_id: u64, unit: i32) {
        let _ = (request_id, unit);
    }

    /// The unit's embedding is free.
    fn release_embedding(&self, request_id: u64, unit: i32) {
        let _ = (request_id, unit);
    }

    /// Nothing refers to the request any more.
    fn forget(&self, request_id: u64) {
        let _ = request_id;
    }
}

/// The end of an encode or forward, to be told exactly once: dropped, it tells a failure. The engine
/// cannot end before.
#[must_use = "the work ends when this is told"]
pub struct Completion {
    engine: NonNull<sys::rserve_engine>,
    token: u64,
}

// SAFETY: rserve_engine_complete is [any-thread].
unsafe impl Send for Completion {}
// SAFETY: without functions on a shared reference.
unsafe impl Sync for Completion {}

impl Completion {
    /// Tells the end, well or not. What the job was given is not touched any more.
    pub fn complete(self, result: std::result::Result<(), Error>) {
        self.tell(&result);
        std::mem::forget(self);
    }

    fn tell(&self, result: &std::result::Result<(), Error>) {
        let (status, message) = match result {
            Ok(()) => (sys::RSERVE_STATUS_OK, ""),
            Err(err) => (err.code() as i32, err.message()),
        };
        let (text, length) = (message.as_ptr().cast(), message.len());
        // SAFETY: destroy waits for the token, so the engine lives; the message is copied.
        let told = call(|err| unsafe {
            c::rserve_engine_complete(self.engine.as_ptr(), self.token, status, text, length, err)
        });
        debug_assert!(told.is_ok(), "{told:?}"); // a token is told once
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        let dropped = "the executor dropped its work without completing it";
        self.tell(&Err(Error::new(Code::Internal, dropped)));
    }
}

/// What the callbacks are given.
struct Context {
    executor: Box<dyn Executor>,
    /// Written before the first request can come.
    engine: AtomicPtr<sys::rserve_engine>,
}

impl Context {
    fn completion(&self, token: u64) -> Completion {
        let engine = self.engine.load(Ordering::Acquire);
        Completion { engine: NonNull::new(engine).expect("work comes after the creation"), token }
    }
}

impl Engine {
    /// An engine over the host's model. Blocks on nothing. The executor is dropped when the engine has
    /// ended, or when this fails. [`Engine::submit`] and what else needs a checkpoint fail with
    /// `FailedPrecondition`.
    pub fn with_executor(
        config: &HostConfig,
        executor: impl Executor,
        log: Option<LogSink>,
    ) -> Result<(Engine, Events)> {
        crate::check_abi()?;
        let context =
            Box::new(Context { executor: Box::new(executor), engine: AtomicPtr::default() });
        let context = Box::into_raw(context);
        let c_executor = c::rserve_executor {
            ctx: context.cast(),
            prepare: Some(prepare),
            encode: Some(encode),
            forward: Some(forward),
            take_first_token: Some(take_first_token),
            drop_micro_batch: Some(drop_micro_batch),
            release_pixels: Some(release_pixels),
            release_embedding: Some(release_embedding),
            forget: Some(forget),
            destroy: Some(destroy),
            ..c::rserve_executor::init()
        };
        let log = log.map(c_log);
        let log = log.as_ref().map_or(null(), |log| log);
        let mut handle = null_mut();
        // SAFETY: the structs live for the call; the contexts are the library's from here on.
        config.lower(|config| {
            call(|err| unsafe {
                c::rserve_engine_create_with_executor(config, &c_executor, log, &mut handle, err)
            })
        })?;
        // SAFETY: the engine has not ended, so its executor's context lives.
        unsafe { (*context).engine.store(handle, Ordering::Release) };
        let handle = NonNull::new(handle).expect("an engine after OK");
        // SAFETY: a new handle.
        Ok(unsafe { Engine::own(handle) })
    }

    /// Queues a request of an engine with an executor, under the host's id. Its deadline is on
    /// CLOCK_MONOTONIC. `AlreadyExists` for an id in use; one may be used again once its terminal event
    /// was taken and acknowledged.
    pub fn submit_plan(&self, request: &HostRequest) -> Result<()> {
        self.shared().submit_plan(request)
    }
}

/// Runs `f` with the executor; a panic becomes None.
///
/// # Safety
/// `ctx` is a Context that has not been destroyed.
unsafe fn with<R>(ctx: *mut c_void, f: impl FnOnce(&Context) -> R) -> Option<R> {
    // SAFETY: the caller's promise. Shared between threads, which Context is made for.
    let context = unsafe { &*ctx.cast::<Context>() };
    catch_unwind(AssertUnwindSafe(|| f(context))).ok()
}

fn status(result: Option<Result<()>>) -> sys::rserve_status_t {
    match result {
        Some(Ok(())) => sys::RSERVE_STATUS_OK,
        Some(Err(err)) => err.code() as i32,
        None => sys::RSERVE_STATUS_INTERNAL,
    }
}

unsafe extern "C" fn prepare(ctx: *mut c_void, request_id: u64, unit: i32) -> i32 {
    // SAFETY: `ctx` is with_executor's until destroy; so below.
    status(unsafe { with(ctx, |context| context.executor.prepare(request_id, unit)) })
}

unsafe extern "C" fn encode(ctx: *mut c_void, job: *const c::rserve_encode_job, token: u64) -> i32 {
    let run = |context: &Context| {
        let done = context.completion(token);
        // SAFETY: the job lives for the call.
        let (job, units) = unsafe { (&*job, slice((*job).units, (*job).num_units)) };
        context.executor.encode(EncodeJob { worker: job.worker, units, tokens: job.tokens }, done);
    };
    // SAFETY: as above. After a panic the completion was dropped, which told the failure.
    let _ = unsafe { with(ctx, run) };
    sys::RSERVE_STATUS_OK
}

unsafe extern "C" fn forward(ctx: *mut c_void, job: *const c::rserve_stage_job, token: u64) -> i32 {
    let run = |context: &Context| {
        let done = context.completion(token);
        // SAFETY: the job lives for the call; StageEntry is a transparent rserve_stage_entry.
        let (job, entries) =
            unsafe { (&*job, slice((*job).entries.cast::<StageEntry>(), (*job).num_entries)) };
        let job = StageJob {
            worker: job.worker,
            stage: job.stage,
            last: job.flags & c::RSERVE_ACTION_F_LAST_STAGE != 0,
            micro_batch: job.micro_batch,
            entries,
            tokens: job.tokens,
        };
        context.executor.forward(job, done);
    };
    // SAFETY: as encode.
    let _ = unsafe { with(ctx, run) };
    sys::RSERVE_STATUS_OK
}

unsafe extern "C" fn take_first_token(
    ctx: *mut c_void,
    request_id: u64,
    token: *mut i32,
    logprob: *mut f32,
) -> i32 {
    // SAFETY: as above.
    let taken = unsafe { with(ctx, |context| context.executor.take_first_token(request_id)) };
    status(taken.map(|taken| {
        // SAFETY: outputs of the call.
        taken.map(|first| unsafe { (*token, *logprob) = first })
    }))
}

unsafe extern "C" fn drop_micro_batch(ctx: *mut c_void, micro_batch: u64) {
    // SAFETY: as above; so below.
    unsafe { with(ctx, |context| context.executor.drop_micro_batch(micro_batch)) };
}

unsafe extern "C" fn release_pixels(ctx: *mut c_void, request_id: u64, unit: i32) {
    // SAFETY: as above.
    unsafe { with(ctx, |context| context.executor.release_pixels(request_id, unit)) };
}

unsafe extern "C" fn release_embedding(ctx: *mut c_void, request_id: u64, unit: i32) {
    // SAFETY: as above.
    unsafe { with(ctx, |context| context.executor.release_embedding(request_id, unit)) };
}

unsafe extern "C" fn forget(ctx: *mut c_void, request_id: u64) {
    // SAFETY: as above.
    unsafe { with(ctx, |context| context.executor.forget(request_id)) };
}

unsafe extern "C" fn destroy(ctx: *mut c_void) {
    // SAFETY: the box of with_executor, given back once.
    let context = unsafe { Box::from_raw(ctx.cast::<Context>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(context)));
}
