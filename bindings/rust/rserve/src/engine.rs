//! An engine, as all threads see it.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::{null, null_mut, NonNull};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rserve_sys as sys;
use rserve_sys::host as c;

use crate::callbacks::{c_log, c_progress};
use crate::config::Config;
use crate::detail::Detail;
use crate::error::{call, Result};
use crate::event::{Event, EventKind};
use crate::events::Events;
use crate::future::Route;
use crate::orchestrator::HostRequest;
use crate::plan::Plan;
use crate::request::{Input, Request};

/// Counters of an engine or an orchestrator, as C has them.
pub type Stats = sys::rserve_stats;
/// The model's shape, as C has it.
pub type ModelInfo = sys::rserve_model_info;

/// What any thread may ask of an engine. Clones are the same engine.
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

/// The handle, and what is held for its open requests.
pub(crate) struct Shared {
    handle: NonNull<sys::rserve_engine>,
    /// The engine's, open as long as the handle.
    wait_fd: RawFd,
    /// By request id, from submit until its terminal event was polled. Locked over a submit, so that
    /// no event of a request is handled before the request is in here.
    open: Mutex<HashMap<u64, Open>>,
}

/// An open request.
struct Open {
    inputs: Vec<Input>,
    route: Option<Arc<Route>>,
}

// SAFETY: rserve_engine's [any-thread] functions may be called from any thread; the [driver] ones are
// called through Events only, of which there is one.
unsafe impl Send for Shared {}
// SAFETY: the same.
unsafe impl Sync for Shared {}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the last user is gone. Only then are the pictures of `open` dropped, as a field.
        unsafe { sys::rserve_engine_destroy(self.handle.as_ptr()) };
    }
}

impl Shared {
    pub(crate) fn handle(&self) -> *mut sys::rserve_engine {
        self.handle.as_ptr()
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
        // No panic leaves the map half changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.open().is_empty()
    }

    /// Whether borrowed memory of a request is still with the engine.
    pub(crate) fn holds_lent(&self, id: u64) -> bool {
        let open = self.open();
        let inputs = open.get(&id).map_or(&[][..], |request| &request.inputs);
        inputs.iter().any(|input| matches!(input, Input::Lent))
    }

    /// # Safety
    /// With `lend`: the borrowed pictures stay as they are until `holds_lent` is false.
    pub(crate) unsafe fn submit(
        &self,
        request: &Request<'_>,
        lend: bool,
        route: Option<Arc<Route>>,
    ) -> Result<u64> {
        let inputs = request.inputs(lend);
        let mut id = 0;
        let mut open = self.open();
        // Room first: after the submit nothing may fail.
        open.reserve(1);
        // SAFETY: the handle lives. Text is copied, shared pictures are kept alive by `inputs`, lent
        // ones by the caller, others are copied.
        request.lower(lend, |c_request| {
            call(|err| unsafe { sys::rserve_engine_submit(self.handle(), c_request, &mut id, err) })
        })?;
        open.insert(id, Open { inputs, route });
        Ok(id)
    }

    /// Queues a request of an engine with an executor.
    pub(crate) fn submit_plan(&self, request: &HostRequest) -> Result<()> {
        let mut open = self.open();
        open.reserve(1);
        // SAFETY: the handle lives; the request is copied.
        request.lower(|c_request| {
            call(|err| unsafe { c::rserve_engine_submit_plan(self.handle(), c_request, err) })
        })?;
        open.insert(request.request_id, Open { inputs: Vec::new(), route: None });
        Ok(())
    }

    /// Lets go of what an event frees, and says who waits for it.
    pub(crate) fn settle(&self, event: &Event) -> Option<Arc<Route>> {
        // Dropped after the lock: a picture's drop is the caller's code.
        let mut released = None;
        let mut ended = None;
        let route;
        {
            let mut open = self.open();
            let request = open.get_mut(&event.request_id)?;
            route = request.route.clone();
            if let EventKind::InputReleased { item } = event.kind {
                let input = request.inputs.get_mut(item);
                released = input.map(|input| std::mem::replace(input, Input::Free));
            }
            if !event.more {
                ended = open.remove(&event.request_id);
            }
        }
        // A panic of a picture's drop stops here: the events that follow must be settled too.
        let _ = catch_unwind(AssertUnwindSafe(|| drop((released, ended))));
        route
    }

    /// The routes of all open requests, taken away.
    pub(crate) fn take_routes(&self) -> Vec<Arc<Route>> {
        self.open().values_mut().filter_map(|request| request.route.take()).collect()
    }

    pub(crate) fn cancel(&self, id: u64) -> Result<()> {
        // SAFETY: the handle lives.
        call(|err| unsafe { sys::rserve_engine_cancel(self.handle(), id, err) })
    }

    pub(crate) fn acknowledge(&self, id: u64) -> Result<()> {
        // SAFETY: the handle lives.
        call(|err| unsafe { sys::rserve_engine_acknowledge(self.handle(), id, err) })
    }

    pub(crate) fn wait_fd(&self) -> RawFd {
        self.wait_fd
    }
}

impl Engine {
    /// Loads a model and starts its workers. Blocks while it reads the weights.
    pub fn create(config: Config) -> Result<(Engine, Events)> {
        crate::check_abi()?;
        let flags = config.flags();
        let path = config.model_path.as_os_str().as_bytes();
        let cores: Vec<sys::rserve_core_list> = config
            .worker_cores
            .iter()
            .map(|cores| sys::rserve_core_list { cores: cores.as_ptr(), num_cores: cores.len() })
            .collect();
        let library = config.cuda_library.as_os_str().as_bytes();
        let log = config.log.map(c_log);
        let progress = config.load_progress.map(c_progress);
        let c_config = sys::rserve_engine_config {
            scheme: config.scheme as i32,
            model_path: path.as_ptr().cast(),
            model_path_length: path.len(),
            stages: config.stages,
            encoders: config.encoders,
            encode_batch_tokens: config.encode_batch_tokens,
            token_budget: config.token_budget,
            flags,
            gate: config.gate as i32,
            sharing: config.sharing as i32,
            trigger: config.trigger as i32,
            encode_flush_ns: config.encode_flush_ns,
            max_micro_batches: config.max_micro_batches,
            media_threads: config.media_threads,
            threads: config.threads,
            kv_block_tokens: config.kv_block_tokens,
            stage_layers: array(&config.stage_layers),
            num_stage_layers: config.stage_layers.len(),
            worker_threads: array(&config.worker_threads),
            num_worker_threads: config.worker_threads.len(),
            worker_cores: array(&cores),
            num_worker_cores: cores.len(),
            kv_tokens: config.kv_tokens,
            embedding_bytes: config.embedding_bytes,
            pixel_bytes: config.pixel_bytes,
            encoder_batch_tokens: config.encoder_batch_tokens,
            units_in_flight: config.units_in_flight,
            input_bytes: config.input_bytes,
            queue_requests: config.queue_requests,
            max_prompt_tokens: config.max_prompt_tokens,
            max_image_pixels: config.max_image_pixels,
            max_unacknowledged: config.max_unacknowledged,
            embedding_cache_bytes: config.embedding_cache_bytes,
            log: log.as_ref().map_or(null(), |log| log),
            load_progress: progress.as_ref().map_or(null(), |progress| progress),
            weights: config.weights as i32,
            backend: config.backend as i32,
            tensor_parallel: config.tensor_parallel,
            devices: array(&config.devices),
            num_devices: config.devices.len(),
            cuda_library: library.as_ptr().cast(),
            cuda_library_length: library.len(),
            device_sharing: config.device_sharing as i32,
            encoder_percent: config.encoder_percent,
            order: config.order as i32,
            order_stretch: config.order_stretch,
            order_guard_ns: config.order_guard_ns,
            slo_ns: config.slo_ns,
            min_token_budget: config.min_token_budget,
            square_root_budget: Config::choice(config.square_root_budget),
            adaptive_encode_batch: Config::choice(config.adaptive_encode_batch),
            stage_handover: config.stage_handover as i32,
            graph_rows: config.graph_rows,
            ..sys::rserve_engine_config::init()
        };
        let mut handle = null_mut();
        // SAFETY: everything that the config points to lives until the end of this function; the
        // callbacks are the library's from here on.
        call(|err| unsafe { sys::rserve_engine_create(&c_config, &mut handle, err) })?;
        let handle = NonNull::new(handle).expect("an engine after OK");
        // SAFETY: a new handle.
        Ok(unsafe { Engine::own(handle) })
    }

    /// # Safety
    /// The handle is nobody else's.
    pub(crate) unsafe fn own(handle: NonNull<sys::rserve_engine>) -> (Engine, Events) {
        // SAFETY: the handle lives.
        let wait_fd = unsafe { sys::rserve_engine_wait_fd(handle.as_ptr()) };
        let shared = Arc::new(Shared { handle, wait_fd, open: Mutex::default() });
        (Engine(shared.clone()), Events::new(shared))
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    /// Queues a request and returns its id. Never waits for other requests. Pictures that the request
    /// borrows are copied, those that it shares are held until they are released.
    pub fn submit(&self, request: &Request<'_>) -> Result<u64> {
        // SAFETY: nothing is lent.
        unsafe { self.0.submit(request, false, None) }
    }

    /// Plans a request without running it. One that is too large is planned, and says so in
    /// [`Plan::fits`].
    pub fn plan(&self, request: &Request<'_>) -> Result<Plan> {
        // SAFETY: the handle lives; a plan keeps nothing of the request.
        request.lower(false, |c_request| unsafe { Plan::make(self.0.handle(), c_request) })
    }

    /// Asks for a request's end. Best effort: it may still finish, and its terminal event still comes.
    /// `NotFound` for a request that is not open.
    pub fn cancel(&self, id: u64) -> Result<()> {
        self.0.cancel(id)
    }

    /// Refuses new requests from now on and lets the open ones finish. Returns at once.
    pub fn drain(&self) -> Result<()> {
        // SAFETY: the handle lives.
        call(|err| unsafe { sys::rserve_engine_drain(self.0.handle(), err) })
    }

    /// Refuses new requests from now on and ends the open ones as cancelled. Returns at once.
    pub fn abort(&self) -> Result<()> {
        // SAFETY: the handle lives.
        call(|err| unsafe { sys::rserve_engine_abort(self.0.handle(), err) })
    }

    /// A snapshot of a request, from its submit until it is acknowledged.
    pub fn detail(&self, id: u64) -> Result<Detail> {
        // SAFETY: the handle lives.
        unsafe { Detail::take(self.0.handle(), id) }
    }

    /// Lets go of an ended request's detail.
    pub fn acknowledge(&self, id: u64) -> Result<()> {
        self.0.acknowledge(id)
    }

    /// A recent copy of the counters.
    pub fn stats(&self) -> Result<Stats> {
        let mut stats = Stats::init();
        // SAFETY: the handle lives; `stats` says its size.
        call(|err| unsafe { sys::rserve_engine_get_stats(self.0.handle(), &mut stats, err) })?;
        Ok(stats)
    }

    /// The model's shape.
    pub fn model_info(&self) -> Result<ModelInfo> {
        let mut info = ModelInfo::init();
        // SAFETY: the handle lives; `info` says its size.
        call(|err| unsafe { sys::rserve_engine_get_model_info(self.0.handle(), &mut info, err) })?;
        Ok(info)
    }

    /// The bytes of tokens, which may begin or end inside a UTF-8 character.
    pub fn decode_bytes(&self, tokens: &[i32]) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        let mut length = 0;
        loop {
            // SAFETY: the handle lives; tokens and text are borrowed for the call.
            call(|err| unsafe {
                let data: *mut u8 = text.as_mut_ptr();
                let (from, count) = (tokens.as_ptr(), tokens.len());
                let handle = self.0.handle();
                let capacity = text.len();
                sys::rserve_engine_decode(
                    handle,
                    from,
                    count,
                    data.cast(),
                    capacity,
                    &mut length,
                    err,
                )
            })?;
            if length <= text.len() {
                text.truncate(length);
                return Ok(text);
            }
            text.resize(length, 0);
        }
    }

    /// The text of tokens, incomplete characters replaced.
    pub fn decode(&self, tokens: &[i32]) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.decode_bytes(tokens)?).into_owned())
    }
}

/// NULL for an empty slice: there it means the default.
fn array<T>(of: &[T]) -> *const T {
    if of.is_empty() {
        null()
    } else {
        of.as_ptr()
    }
}
