//! The scheduler alone, for an engine that has a loop, workers and a clock of its own.
//!
//! Push what happened ([`Orchestrator::submit`], [`Orchestrator::finish`]), [`Orchestrator::step`],
//! carry out what [`Orchestrator::actions`] says. No threads, no clock: the same inputs give the same
//! actions. `rserve/host.h` explains the words.
//!
//! ```
//! use rserve::orchestrator::{Action, HostConfig, HostRequest, Orchestrator};
//!
//! let mut orchestrator = Orchestrator::create(&HostConfig::default())?;
//! orchestrator.submit(&HostRequest { request_id: 1, prompt_tokens: 8, ..Default::default() })?;
//! orchestrator.step(1)?;
//! let mut running = Vec::new();
//! for action in orchestrator.actions() {
//!     match action? {
//!         Action::Stage(stage) => running.push(stage.work), // start it
//!         Action::Event(event) => println!("{event:?}"),
//!         _ => {}
//!     }
//! }
//! for work in running {
//!     orchestrator.finish(work, Ok(()))?; // once it is over
//! }
//! orchestrator.step(2)?;
//! # Ok::<(), rserve::Error>(())
//! ```

use std::ptr::{null, null_mut, NonNull};

use rserve_sys as sys;
use rserve_sys::host as c;

use crate::config::{Gate, Scheme, Sharing, Trigger};
use crate::engine::Stats;
use crate::error::{call, slice, Error, Result};

mod action;
mod plan;

pub use action::{Action, Encode, HostEvent, HostEventKind, Stage, StageEntry, Times, Work};
pub use action::{EmbeddingSlice, UnitRef};
pub use plan::{HostRequest, Span, Unit};

/// One timeline that takes one action at a time: a device, a process, a group of ranks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Worker {
    /// The pipeline stage that it hosts.
    pub stage: Option<i32>,
    /// Whether it hosts an encoder.
    pub encoder: bool,
    /// With both: encoding goes first, not the stage.
    pub encoder_first: bool,
    /// Actions issued and not finished, at most; 0: 1.
    pub depth: i32,
    /// With both: the other role runs after so many actions; 0: 8.
    pub max_passes: i32,
}

impl Worker {
    fn to_c(self) -> c::rserve_worker {
        let mut flags = 0;
        if self.stage.is_some() {
            flags |= c::RSERVE_WORKER_F_STAGE;
        }
        if self.encoder {
            flags |= c::RSERVE_WORKER_F_ENCODER;
        }
        if self.encoder_first {
            flags |= c::RSERVE_WORKER_F_ENCODER_FIRST;
        }
        let (depth, max_passes) = (self.depth, self.max_passes);
        c::rserve_worker { flags, stage: self.stage.unwrap_or(0), depth, max_passes }
    }
}

/// Placement and limits. Zero and empty are the defaults that `host.h` states; budgets default to no
/// limit.
#[derive(Clone, Debug, Default)]
pub struct HostConfig {
    /// Gives gate, sharing, trigger and, without `workers`, the placement.
    pub scheme: Scheme,
    /// Without `workers`; 0: 1.
    pub stages: i32,
    /// Without `workers`; 0: 1.
    pub encoders: i32,
    /// The placement, stages 0 to n - 1 each once; empty: the scheme's.
    pub workers: Vec<Worker>,
    /// C: tokens of an encode batch, at least.
    pub encode_batch_tokens: i64,
    /// B: tokens of a micro-batch, at most.
    pub token_budget: i64,
    /// One chunk of a request in the pipeline.
    pub vanilla_pp: bool,
    /// An encode batch may mix requests.
    pub encode_across_requests: bool,
    /// What may be prefilled before all of a request is encoded.
    pub gate: Gate,
    /// Whose tokens share a micro-batch.
    pub sharing: Sharing,
    /// What starts the encoding of a request.
    pub trigger: Trigger,
    /// How long a batch below C waits for the request's next unit; 0: no limit; 1: not at all.
    pub encode_flush_ns: i64,
    /// Units prepared at the same time; 0: units need no preparation.
    pub prepare_lanes: i32,
    /// In the pipeline, at most.
    pub max_micro_batches: i32,
    /// Of a unit whose encode failed with `Unavailable`.
    pub max_encode_attempts: i32,
    /// Tokens of a KV block.
    pub kv_block_tokens: i32,
    /// KV blocks that the host has.
    pub kv_blocks: i64,
    /// Reserved and not yet released, at most.
    pub embedding_bytes: i64,
    /// Prepared and not yet encoded, at most.
    pub pixel_bytes: i64,
    /// Units with a reserved embedding, at most.
    pub units_in_flight: i64,
    /// Tokens of one encode batch, at most.
    pub encoder_batch_tokens: i64,
    /// Of open requests, at most.
    pub input_bytes: i64,
    /// Open requests, at most.
    pub queue_requests: i64,
}

impl HostConfig {
    /// Calls `f` with the C form, which lives for the call.
    pub(crate) fn lower<R>(&self, f: impl FnOnce(*const c::rserve_host_config) -> R) -> R {
        let workers: Vec<c::rserve_worker> = self.workers.iter().map(|w| w.to_c()).collect();
        let mut flags = 0;
        if self.vanilla_pp {
            flags |= sys::RSERVE_ENGINE_F_VANILLA_PP;
        }
        if self.encode_across_requests {
            flags |= sys::RSERVE_ENGINE_F_ENCODE_ACROSS_REQUESTS;
        }
        let c_config = c::rserve_host_config {
            scheme: self.scheme as i32,
            stages: self.stages,
            encoders: self.encoders,
            workers: if workers.is_empty() { null() } else { workers.as_ptr() },
            num_workers: workers.len(),
            encode_batch_tokens: self.encode_batch_tokens,
            token_budget: self.token_budget,
            flags,
            gate: self.gate as i32,
            sharing: self.sharing as i32,
            trigger: self.trigger as i32,
            encode_flush_ns: self.encode_flush_ns,
            prepare_lanes: self.prepare_lanes,
            max_micro_batches: self.max_micro_batches,
            max_encode_attempts: self.max_encode_attempts,
            kv_block_tokens: self.kv_block_tokens,
            kv_blocks: self.kv_blocks,
            embedding_bytes: self.embedding_bytes,
            pixel_bytes: self.pixel_bytes,
            units_in_flight: self.units_in_flight,
            encoder_batch_tokens: self.encoder_batch_tokens,
            input_bytes: self.input_bytes,
            queue_requests: self.queue_requests,
            ..c::rserve_host_config::init()
        };
        f(&c_config)
    }
}

/// The scheduler. One thread at a time: `Send`, not `Sync`.
pub struct Orchestrator(NonNull<c::rserve_orchestrator>);

// SAFETY: all its functions are [driver]: calls must not overlap, any thread may make them.
unsafe impl Send for Orchestrator {}

impl Drop for Orchestrator {
    fn drop(&mut self) {
        // SAFETY: ours, once.
        unsafe { c::rserve_orchestrator_destroy(self.0.as_ptr()) };
    }
}

impl Orchestrator {
    /// `InvalidArgument` names the option.
    pub fn create(config: &HostConfig) -> Result<Orchestrator> {
        crate::check_abi()?;
        let mut handle = null_mut();
        // SAFETY: the C form lives for the call.
        config.lower(|config| {
            call(|err| unsafe { c::rserve_orchestrator_create(config, &mut handle, err) })
        })?;
        Ok(Orchestrator(NonNull::new(handle).expect("an orchestrator after OK")))
    }

    /// Whether the request could ever run.
    pub fn check(&self, request: &HostRequest) -> Result<()> {
        // SAFETY: the handle lives, the request for the call.
        request.lower(|request| {
            call(|err| unsafe { c::rserve_orchestrator_check(self.0.as_ptr(), request, err) })
        })
    }

    /// Brings a request. Whether it is accepted shows in an event of the next step.
    pub fn submit(&self, request: &HostRequest) -> Result<()> {
        // SAFETY: as in `check`; it is copied.
        request.lower(|request| {
            call(|err| unsafe { c::rserve_orchestrator_submit(self.0.as_ptr(), request, err) })
        })
    }

    /// Ends a request if it is open; otherwise without effect.
    pub fn cancel(&self, request_id: u64) -> Result<()> {
        // SAFETY: the handle lives; so below.
        call(|err| unsafe { c::rserve_orchestrator_cancel(self.0.as_ptr(), request_id, err) })
    }

    /// An action has ended, well or not: what it was given is not touched any more.
    pub fn finish(&self, work: Work, result: std::result::Result<(), Error>) -> Result<()> {
        let (status, message) = match &result {
            Ok(()) => (sys::RSERVE_STATUS_OK, ""),
            Err(err) => (err.code() as i32, err.message()),
        };
        let (text, length) = (message.as_ptr().cast(), message.len());
        let (kind, token) = (work.kind, work.token);
        // SAFETY: the message is copied.
        call(|err| unsafe {
            let handle = self.0.as_ptr();
            c::rserve_orchestrator_finish(handle, kind, token, status, text, length, err)
        })
    }

    /// The end of an encode whose units fared differently: one result a unit, in batch order. The
    /// requests of failed units fail, the others go on.
    pub fn finish_units(
        &self,
        work: Work,
        results: &[std::result::Result<(), crate::Code>],
    ) -> Result<()> {
        let statuses: Vec<i32> =
            results.iter().map(|r| r.map_or_else(|code| code as i32, |()| 0)).collect();
        // SAFETY: the statuses are copied.
        call(|err| unsafe {
            let (handle, from) = (self.0.as_ptr(), statuses.as_ptr());
            c::rserve_orchestrator_finish_units(handle, work.token, from, statuses.len(), err)
        })
    }

    /// The worker began with the action; optional.
    pub fn started(&self, work: &Work) -> Result<()> {
        // SAFETY: the handle lives.
        call(|err| unsafe { c::rserve_orchestrator_started(self.0.as_ptr(), work.token, err) })
    }

    /// The worker is gone, with all its actions.
    pub fn lose_worker(&self, worker: i32, message: &str) -> Result<()> {
        let (text, length) = (message.as_ptr().cast(), message.len());
        // SAFETY: the message is copied.
        call(|err| unsafe {
            c::rserve_orchestrator_lose_worker(self.0.as_ptr(), worker, text, length, err)
        })
    }

    /// Refuses new requests; the open ones finish.
    pub fn drain(&self) -> Result<()> {
        // SAFETY: the handle lives.
        call(|err| unsafe { c::rserve_orchestrator_drain(self.0.as_ptr(), err) })
    }

    /// Refuses new requests and ends the open ones as cancelled.
    pub fn abort(&self) -> Result<()> {
        // SAFETY: the handle lives.
        call(|err| unsafe { c::rserve_orchestrator_abort(self.0.as_ptr(), err) })
    }

    /// Applies the inputs, expires deadlines and works out the actions, which replace those of the
    /// step before.
    pub fn step(&mut self, now_ns: i64) -> Result<()> {
        // SAFETY: the handle lives; `&mut` says that no action of the step before is looked at.
        call(|err| unsafe { c::rserve_orchestrator_step(self.0.as_ptr(), now_ns, err) })
    }

    /// The actions of the last step that were not taken yet, to be carried out in this order. Inputs
    /// may be pushed meanwhile, a step only once they are let go of:
    ///
    /// ```compile_fail,E0502
    /// # use rserve::orchestrator::{HostConfig, Orchestrator};
    /// # let mut orchestrator = Orchestrator::create(&HostConfig::default())?;
    /// let first = orchestrator.actions().next();
    /// orchestrator.step(2)?;
    /// drop(first);
    /// # Ok::<(), rserve::Error>(())
    /// ```
    pub fn actions(&self) -> Actions<'_> {
        Actions { orchestrator: self }
    }

    /// When to step even without inputs; None: never.
    pub fn next_wake_ns(&self) -> Option<i64> {
        // SAFETY: the handle lives.
        let at = unsafe { c::rserve_orchestrator_next_wake_ns(self.0.as_ptr()) };
        (at != i64::MAX).then_some(at)
    }

    /// Counters.
    pub fn stats(&self) -> Result<Stats> {
        let mut stats = Stats::init();
        // SAFETY: the handle lives; `stats` says its size.
        call(|err| unsafe { c::rserve_orchestrator_get_stats(self.0.as_ptr(), &mut stats, err) })?;
        Ok(stats)
    }
}

/// See [`Orchestrator::actions`].
pub struct Actions<'a> {
    orchestrator: &'a Orchestrator,
}

impl<'a> Iterator for Actions<'a> {
    type Item = Result<Action<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut action = c::rserve_action::init();
        let handle = self.orchestrator.0.as_ptr();
        // SAFETY: the handle lives; `action` says its size.
        let taken =
            call(|err| unsafe { c::rserve_orchestrator_next_action(handle, &mut action, err) });
        match taken {
            // SAFETY: its pointers hold until the next step, which needs `&mut` of what `'a` borrows.
            Ok(()) => unsafe { Action::from_c(&action) }.map(Ok),
            Err(err) => Some(Err(err)),
        }
    }
}

/// A C text.
///
/// # Safety
/// As `slice`.
unsafe fn text<'a>(data: *const std::ffi::c_char, length: usize) -> &'a str {
    // SAFETY: the caller's promise. rserve's texts are UTF-8.
    std::str::from_utf8(unsafe { slice(data.cast::<u8>(), length) }).unwrap_or("")
}
