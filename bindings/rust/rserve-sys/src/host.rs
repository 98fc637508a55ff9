//! `include/rserve/host.h`, in its order.

use super::*;

/// `rserve_action_kind_t`.
pub type rserve_action_kind_t = i32;

c_constants! {
    pub const RSERVE_ACTION_NONE: rserve_action_kind_t = 0;
    pub const RSERVE_ACTION_PREPARE: rserve_action_kind_t = 1;
    pub const RSERVE_ACTION_ENCODE: rserve_action_kind_t = 2;
    pub const RSERVE_ACTION_STAGE: rserve_action_kind_t = 3;
    pub const RSERVE_ACTION_DROP_MICRO_BATCH: rserve_action_kind_t = 4;
    pub const RSERVE_ACTION_RELEASE_PIXELS: rserve_action_kind_t = 5;
    pub const RSERVE_ACTION_RELEASE_EMBEDDING: rserve_action_kind_t = 6;
    pub const RSERVE_ACTION_EVENT: rserve_action_kind_t = 7;
    pub const RSERVE_ACTION_FORGET: rserve_action_kind_t = 8;
    pub const RSERVE_KV_KEY_BYTES: u32 = 32;
    pub const RSERVE_SPAN_F_ATOMIC: u32 = 0x1;
    pub const RSERVE_WORKER_F_STAGE: u32 = 0x1;
    pub const RSERVE_WORKER_F_ENCODER: u32 = 0x2;
    pub const RSERVE_WORKER_F_ENCODER_FIRST: u32 = 0x4;
    pub const RSERVE_ENTRY_F_LAST_CHUNK: u32 = 0x1;
    pub const RSERVE_ENTRY_F_ENDED: u32 = 0x2;
    pub const RSERVE_EVENT_REFUSED: rserve_event_type_t = 8;
    pub const RSERVE_ACTION_F_LAST_STAGE: u32 = 0x1;
}

c_handles! {
    pub struct rserve_orchestrator;
}

c_structs! {
    pub struct rserve_unit {
        pub item: i32,
        pub reserved: u32,
        pub tokens: i64,
        pub embedding_bytes: i64,
        pub pixel_bytes: i64,
    }

    pub struct rserve_span {
        pub token_begin: i64,
        pub tokens: i64,
        pub row_begin: i64,
        pub item: i32,
        pub flags: u32,
    }

    pub struct rserve_host_request {
        pub struct_size: u32,
        pub num_items: i32,
        pub request_id: u64,
        pub user_data: u64,
        pub prompt_tokens: i64,
        pub max_new_tokens: i64,
        pub units: *const rserve_unit,
        pub num_units: usize,
        pub spans: *const rserve_span,
        pub num_spans: usize,
        pub deadline_ns: i64,
        pub input_bytes: i64,
        pub last_reader_stage: i32,
        pub flags: u32,
        pub kv_block_keys: *const u8,
        pub num_kv_block_keys: usize,
    }

    pub struct rserve_worker {
        pub flags: u32,
        pub stage: i32,
        pub depth: i32,
        pub max_passes: i32,
    }

    pub struct rserve_host_config {
        pub struct_size: u32,
        pub scheme: rserve_scheme_t,
        pub stages: i32,
        pub encoders: i32,
        pub workers: *const rserve_worker,
        pub num_workers: usize,
        pub encode_batch_tokens: i64,
        pub token_budget: i64,
        pub flags: u32,
        pub gate: rserve_gate_t,
        pub sharing: rserve_sharing_t,
        pub trigger: rserve_trigger_t,
        pub encode_flush_ns: i64,
        pub prepare_lanes: i32,
        pub max_micro_batches: i32,
        pub max_encode_attempts: i32,
        pub kv_block_tokens: i32,
        pub kv_blocks: i64,
        pub embedding_bytes: i64,
        pub pixel_bytes: i64,
        pub units_in_flight: i64,
        pub encoder_batch_tokens: i64,
        pub input_bytes: i64,
        pub queue_requests: i64,
    }

    pub struct rserve_unit_ref {
        pub request_id: u64,
        pub unit: i32,
        pub reserved: u32,
    }

    pub struct rserve_embedding_slice {
        pub token_begin: i64,
        pub tokens: i64,
        pub row_begin: i64,
        pub unit: i32,
        pub reserved: u32,
    }

    pub struct rserve_stage_entry {
        pub request_id: u64,
        pub token_begin: i64,
        pub tokens: i64,
        pub kv_blocks: *const i32,
        pub num_kv_blocks: usize,
        pub slices: *const rserve_embedding_slice,
        pub num_slices: usize,
        pub flags: u32,
        pub reserved: u32,
    }

    pub struct rserve_request_times {
        pub submitted_ns: i64,
        pub first_encode_ns: i64,
        pub last_encode_ns: i64,
        pub first_prefill_ns: i64,
        pub first_token_ns: i64,
    }

    pub struct rserve_action {
        pub struct_size: u32,
        pub kind: rserve_action_kind_t,
        pub token: u64,
        pub request_id: u64,
        pub user_data: u64,
        pub micro_batch: u64,
        pub tokens: i64,
        pub unit: i32,
        pub worker: i32,
        pub stage: i32,
        pub flags: u32,
        pub units: *const rserve_unit_ref,
        pub num_units: usize,
        pub entries: *const rserve_stage_entry,
        pub num_entries: usize,
        pub event_type: rserve_event_type_t,
        pub item: i32,
        pub status: rserve_status_t,
        pub reserved: u32,
        pub message: *const c_char,
        pub message_length: usize,
        pub times: *const rserve_request_times,
    }

    pub struct rserve_encode_job {
        pub struct_size: u32,
        pub worker: i32,
        pub units: *const rserve_unit_ref,
        pub num_units: usize,
        pub tokens: i64,
    }

    pub struct rserve_stage_job {
        pub struct_size: u32,
        pub worker: i32,
        pub stage: i32,
        pub flags: u32,
        pub micro_batch: u64,
        pub entries: *const rserve_stage_entry,
        pub num_entries: usize,
        pub tokens: i64,
    }

    pub struct rserve_executor {
        pub struct_size: u32,
        pub reserved: u32,
        pub ctx: *mut c_void,
        pub prepare: Option<
            unsafe extern "C" fn(ctx: *mut c_void, request_id: u64, unit: i32) -> rserve_status_t,
        >,
        pub encode: Option<
            unsafe extern "C" fn(ctx: *mut c_void, job: *const rserve_encode_job, token: u64) -> rserve_status_t,
        >,
        pub forward: Option<
            unsafe extern "C" fn(ctx: *mut c_void, job: *const rserve_stage_job, token: u64) -> rserve_status_t,
        >,
        pub take_first_token: Option<
            unsafe extern "C" fn(ctx: *mut c_void, request_id: u64, token: *mut i32, logprob: *mut f32) -> rserve_status_t,
        >,
        pub drop_micro_batch: Option<unsafe extern "C" fn(ctx: *mut c_void, micro_batch: u64)>,
        pub release_pixels: Option<
            unsafe extern "C" fn(ctx: *mut c_void, request_id: u64, unit: i32),
        >,
        pub release_embedding: Option<
            unsafe extern "C" fn(ctx: *mut c_void, request_id: u64, unit: i32),
        >,
        pub forget: Option<unsafe extern "C" fn(ctx: *mut c_void, request_id: u64)>,
        pub destroy: Option<unsafe extern "C" fn(ctx: *mut c_void)>,
    }
}

c_functions! {
    pub fn rserve_orchestrator_create(
        config: *const rserve_host_config,
        orchestrator: *mut *mut rserve_orchestrator,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_orchestrator_destroy(orchestrator: *mut rserve_orchestrator);
    pub fn rserve_orchestrator_check(
        orchestrator: *const rserve_orchestrator,
        request: *const rserve_host_request,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_orchestrator_submit(
        orchestrator: *mut rserve_orchestrator,
        request: *const rserve_host_request,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_orchestrator_cancel(
        orchestrator: *mut rserve_orchestrator,
        request_id: u64,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_orchestrator_finish(
        orchestrator: *mut rserve_orchestrator,
        kind: rserve_action_kind_t,
        token: u64,
        status: rserve_status_t,
        message: *const c_char,
        message_length: usize,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_orchestrator_finish_units(
        orchestrator: *mut rserve_orchestrator,
        token: u64,
        unit_status: *const rserve_status_t,
        num_units: usize,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_orchestrator_started(
        orchestrator: *mut rserve_orchestrator,
        token: u64,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_orchestrator_lose_worker(
        orchestrator: *mut rserve_orchestrator,
        worker: i32,
        message: *const c_char,
        message_length: usize,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_orchestrator_drain(
        orchestrator: *mut rserve_orchestrator,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_orchestrator_abort(
        orchestrator: *mut rserve_orchestrator,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_orchestrator_step(
        orchestrator: *mut rserve_orchestrator,
        now_ns: i64,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_orchestrator_next_action(
        orchestrator: *mut rserve_orchestrator,
        action: *mut rserve_action,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_orchestrator_next_wake_ns(orchestrator: *const rserve_orchestrator) -> i64;
    pub fn rserve_orchestrator_get_stats(
        orchestrator: *const rserve_orchestrator,
        stats: *mut rserve_stats,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_engine_create_with_executor(
        config: *const rserve_host_config,
        executor: *const rserve_executor,
        log: *const rserve_log,
        engine: *mut *mut rserve_engine,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_engine_submit_plan(
        engine: *mut rserve_engine,
        request: *const rserve_host_request,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_engine_complete(
        engine: *mut rserve_engine,
        token: u64,
        status: rserve_status_t,
        message: *const c_char,
        message_length: usize,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
}

c_init! {
    rserve_host_request,
    rserve_host_config { scheme: RSERVE_SCHEME_ADAPTIVE },
    rserve_action,
    rserve_encode_job,
    rserve_stage_job,
    rserve_executor,
}
