//! `include/rserve/rserve.h`, in its order.

use super::*;

c_constants! {
    pub const RSERVE_STATUS_OK: rserve_status_t = 0;
    pub const RSERVE_STATUS_CANCELLED: rserve_status_t = 1;
    pub const RSERVE_STATUS_UNKNOWN: rserve_status_t = 2;
    pub const RSERVE_STATUS_INVALID_ARGUMENT: rserve_status_t = 3;
    pub const RSERVE_STATUS_DEADLINE_EXCEEDED: rserve_status_t = 4;
    pub const RSERVE_STATUS_NOT_FOUND: rserve_status_t = 5;
    pub const RSERVE_STATUS_ALREADY_EXISTS: rserve_status_t = 6;
    pub const RSERVE_STATUS_PERMISSION_DENIED: rserve_status_t = 7;
    pub const RSERVE_STATUS_RESOURCE_EXHAUSTED: rserve_status_t = 8;
    pub const RSERVE_STATUS_FAILED_PRECONDITION: rserve_status_t = 9;
    pub const RSERVE_STATUS_ABORTED: rserve_status_t = 10;
    pub const RSERVE_STATUS_OUT_OF_RANGE: rserve_status_t = 11;
    pub const RSERVE_STATUS_UNIMPLEMENTED: rserve_status_t = 12;
    pub const RSERVE_STATUS_INTERNAL: rserve_status_t = 13;
    pub const RSERVE_STATUS_UNAVAILABLE: rserve_status_t = 14;
    pub const RSERVE_STATUS_DATA_LOSS: rserve_status_t = 15;
    pub const RSERVE_STATUS_UNAUTHENTICATED: rserve_status_t = 16;
    pub const RSERVE_SCHEME_RSERVE: rserve_scheme_t = 0;
    pub const RSERVE_SCHEME_RSERVE_INTRA: rserve_scheme_t = 1;
    pub const RSERVE_SCHEME_EPD: rserve_scheme_t = 2;
    pub const RSERVE_SCHEME_COLOCATED: rserve_scheme_t = 3;
    pub const RSERVE_SCHEME_ADAPTIVE: rserve_scheme_t = 4;
    pub const RSERVE_ORDER_DEFAULT: rserve_order_t = 0;
    pub const RSERVE_ORDER_ARRIVAL: rserve_order_t = 1;
    pub const RSERVE_ORDER_SHORTEST_FIRST: rserve_order_t = 2;
    pub const RSERVE_ORDER_FEASIBLE_FIRST: rserve_order_t = 3;
    pub const RSERVE_CHOICE_DEFAULT: rserve_choice_t = 0;
    pub const RSERVE_CHOICE_YES: rserve_choice_t = 1;
    pub const RSERVE_CHOICE_NO: rserve_choice_t = 2;
    pub const RSERVE_ENCODERS_SHARED: i32 = -1;
    pub const RSERVE_GATE_DEFAULT: rserve_gate_t = 0;
    pub const RSERVE_GATE_STREAMING: rserve_gate_t = 1;
    pub const RSERVE_GATE_WHOLE_REQUEST: rserve_gate_t = 2;
    pub const RSERVE_SHARING_DEFAULT: rserve_sharing_t = 0;
    pub const RSERVE_SHARING_MANY: rserve_sharing_t = 1;
    pub const RSERVE_SHARING_ONE_REQUEST: rserve_sharing_t = 2;
    pub const RSERVE_TRIGGER_DEFAULT: rserve_trigger_t = 0;
    pub const RSERVE_TRIGGER_ON_ARRIVAL: rserve_trigger_t = 1;
    pub const RSERVE_TRIGGER_ON_FIRST_CHUNK: rserve_trigger_t = 2;
    pub const RSERVE_TRIGGER_ON_CHUNK: rserve_trigger_t = 3;
    pub const RSERVE_WEIGHTS_STORED: rserve_weights_t = 0;
    pub const RSERVE_WEIGHTS_INT8: rserve_weights_t = 1;
    pub const RSERVE_BACKEND_CPU: rserve_backend_t = 0;
    pub const RSERVE_BACKEND_CUDA: rserve_backend_t = 1;
    pub const RSERVE_DEVICE_SHARING_STREAMS: rserve_device_sharing_t = 0;
    pub const RSERVE_DEVICE_SHARING_TURNS: rserve_device_sharing_t = 1;
    pub const RSERVE_DEVICE_SHARING_PARTS: rserve_device_sharing_t = 2;
    pub const RSERVE_STAGE_HANDOVER_PEER: rserve_stage_handover_t = 0;
    pub const RSERVE_STAGE_HANDOVER_NCCL: rserve_stage_handover_t = 1;
    pub const RSERVE_STAGE_HANDOVER_HOST: rserve_stage_handover_t = 2;
    pub const RSERVE_PART_TOKENS: rserve_part_type_t = 1;
    pub const RSERVE_PART_TEXT: rserve_part_type_t = 2;
    pub const RSERVE_PART_TEMPLATE: rserve_part_type_t = 3;
    pub const RSERVE_PART_IMAGE: rserve_part_type_t = 4;
    pub const RSERVE_PART_PIXELS: rserve_part_type_t = 5;
    pub const RSERVE_PART_ROLE: rserve_part_type_t = 6;
    pub const RSERVE_PART_FRAMES: rserve_part_type_t = 7;
    pub const RSERVE_PART_EMBEDDINGS: rserve_part_type_t = 8;
    pub const RSERVE_PART_VIDEO: rserve_part_type_t = 9;
    pub const RSERVE_DTYPE_F32: rserve_dtype_t = 0;
    pub const RSERVE_DTYPE_BF16: rserve_dtype_t = 1;
    pub const RSERVE_DTYPE_F16: rserve_dtype_t = 2;
    pub const RSERVE_LAYOUT_RGB8: rserve_layout_t = 0;
    pub const RSERVE_LAYOUT_RGBA8: rserve_layout_t = 1;
    pub const RSERVE_LAYOUT_GRAY8: rserve_layout_t = 2;
    pub const RSERVE_EVENT_ACCEPTED: rserve_event_type_t = 1;
    pub const RSERVE_EVENT_ITEM_ENCODED: rserve_event_type_t = 2;
    pub const RSERVE_EVENT_INPUT_RELEASED: rserve_event_type_t = 3;
    pub const RSERVE_EVENT_FIRST_TOKEN: rserve_event_type_t = 4;
    pub const RSERVE_EVENT_FINISHED: rserve_event_type_t = 5;
    pub const RSERVE_EVENT_FAILED: rserve_event_type_t = 6;
    pub const RSERVE_EVENT_CANCELLED: rserve_event_type_t = 7;
    pub const RSERVE_VERSION_MAJOR: u32 = 0;
    pub const RSERVE_VERSION_MINOR: u32 = 2;
    pub const RSERVE_VERSION_PATCH: u32 = 0;
    pub const RSERVE_ABI_MAJOR: u32 = 0;
    pub const RSERVE_ABI_MINOR: u32 = 2;
    pub const RSERVE_ENCODE_ALL: i64 = i64::MAX;
    pub const RSERVE_ENGINE_F_VANILLA_PP: u32 = 0x1;
    pub const RSERVE_ENGINE_F_ENCODE_ACROSS_REQUESTS: u32 = 0x2;
    pub const RSERVE_ENGINE_F_NO_PINNING: u32 = 0x4;
    pub const RSERVE_ENGINE_F_KV_REUSE: u32 = 0x8;
    pub const RSERVE_ENGINE_F_NOT_DETERMINISTIC: u32 = 0x10;
    pub const RSERVE_ENGINE_F_CUDNN_ATTENTION: u32 = 0x20;
    pub const RSERVE_ENGINE_F_HOST_EMBEDDINGS: u32 = 0x40;
    pub const RSERVE_PART_F_BORROW: u32 = 0x1;
    pub const RSERVE_REQUEST_F_KEEP_LOGITS: u32 = 0x1;
    pub const RSERVE_REQUEST_F_KEEP_EMBEDDINGS: u32 = 0x2;
    pub const RSERVE_REQUEST_F_NO_IMAGE_MARKERS: u32 = 0x4;
    pub const RSERVE_REQUEST_F_CHAT: u32 = 0x8;
    pub const RSERVE_REQUEST_F_NO_DETAIL: u32 = 0x10;
    pub const RSERVE_REQUEST_F_NUMBER_IMAGES: u32 = 0x20;
    pub const RSERVE_EVENT_F_MORE: u32 = 0x1;
}

c_handles! {
    pub struct rserve_error;
    pub struct rserve_engine;
    pub struct rserve_detail;
    pub struct rserve_plan;
}

c_structs! {
    pub struct rserve_log_record {
        pub struct_size: u32,
        pub level: i32,
        pub t_mono_ns: i64,
        pub message: *const c_char,
        pub message_length: usize,
    }

    pub struct rserve_log {
        pub struct_size: u32,
        pub reserved: u32,
        pub ctx: *mut c_void,
        pub write: Option<unsafe extern "C" fn(ctx: *mut c_void, record: *const rserve_log_record)>,
        pub destroy: Option<unsafe extern "C" fn(ctx: *mut c_void)>,
    }

    pub struct rserve_load_progress {
        pub struct_size: u32,
        pub reserved: u32,
        pub ctx: *mut c_void,
        pub report: Option<
            unsafe extern "C" fn(ctx: *mut c_void, done_bytes: i64, total_bytes: i64),
        >,
        pub destroy: Option<unsafe extern "C" fn(ctx: *mut c_void)>,
    }

    pub struct rserve_core_list {
        pub cores: *const i32,
        pub num_cores: usize,
    }

    pub struct rserve_engine_config {
        pub struct_size: u32,
        pub scheme: rserve_scheme_t,
        pub model_path: *const c_char,
        pub model_path_length: usize,
        pub stages: i32,
        pub encoders: i32,
        pub encode_batch_tokens: i64,
        pub token_budget: i64,
        pub flags: u32,
        pub gate: rserve_gate_t,
        pub sharing: rserve_sharing_t,
        pub trigger: rserve_trigger_t,
        pub encode_flush_ns: i64,
        pub max_micro_batches: i32,
        pub media_threads: i32,
        pub threads: i32,
        pub kv_block_tokens: i32,
        pub stage_layers: *const i32,
        pub num_stage_layers: usize,
        pub worker_threads: *const i32,
        pub num_worker_threads: usize,
        pub worker_cores: *const rserve_core_list,
        pub num_worker_cores: usize,
        pub kv_tokens: i64,
        pub embedding_bytes: i64,
        pub pixel_bytes: i64,
        pub encoder_batch_tokens: i64,
        pub units_in_flight: i64,
        pub input_bytes: i64,
        pub queue_requests: i64,
        pub max_prompt_tokens: i64,
        pub max_image_pixels: i64,
        pub max_unacknowledged: i64,
        pub log: *const rserve_log,
        pub load_progress: *const rserve_load_progress,
        pub embedding_cache_bytes: i64,
        pub weights: rserve_weights_t,
        pub reserved: u32,
        pub backend: rserve_backend_t,
        pub tensor_parallel: i32,
        pub devices: *const i32,
        pub num_devices: usize,
        pub cuda_library: *const c_char,
        pub cuda_library_length: usize,
        pub device_sharing: rserve_device_sharing_t,
        pub encoder_percent: i32,
        pub order: rserve_order_t,
        pub order_stretch: i32,
        pub order_guard_ns: i64,
        pub slo_ns: i64,
        pub min_token_budget: i64,
        pub square_root_budget: rserve_choice_t,
        pub adaptive_encode_batch: rserve_choice_t,
        pub stage_handover: rserve_stage_handover_t,
        pub graph_rows: i32,
    }

    pub struct rserve_frames {
        pub struct_size: u32,
        pub num_frames: i32,
        pub frame_stride_bytes: i64,
        pub fps: f64,
        pub timestamps_s: *const f64,
        pub num_timestamps: usize,
    }

    pub struct rserve_embeddings {
        pub struct_size: u32,
        pub dtype: rserve_dtype_t,
        pub rows: i64,
        pub width: i64,
        pub grid_t: i32,
        pub grid_h: i32,
        pub grid_w: i32,
        pub reserved: u32,
        pub seconds_per_grid: f64,
    }

    pub struct rserve_part {
        pub r#type: rserve_part_type_t,
        pub flags: u32,
        pub data: *const c_void,
        pub count: usize,
        pub width: i32,
        pub height: i32,
        pub row_stride_bytes: i64,
        pub layout: rserve_layout_t,
        pub reserved: u32,
        pub frames: *const rserve_frames,
        pub embeddings: *const rserve_embeddings,
    }

    pub struct rserve_request {
        pub struct_size: u32,
        pub part_size: u32,
        pub parts: *const rserve_part,
        pub num_parts: usize,
        pub user_data: u64,
        pub timeout_ns: i64,
        pub flags: u32,
        pub temperature: f32,
        pub top_p: f32,
        pub reserved: u32,
        pub seed: u64,
        pub cache_salt: *const c_char,
        pub cache_salt_length: usize,
    }

    pub struct rserve_event_first_token {
        pub token: i32,
        pub logprob: f32,
        pub ttft_ns: i64,
        pub reserved: i64,
    }

    pub struct rserve_event_item {
        pub item: i32,
        pub reserved: i32,
        pub tokens: i64,
        pub reserved2: i64,
    }

    pub struct rserve_event_terminal {
        pub elapsed_ns: i64,
        pub reserved: [i64; 2],
    }

    pub struct rserve_event {
        pub request_id: u64,
        pub user_data: u64,
        pub r#type: rserve_event_type_t,
        pub flags: u32,
        pub status: rserve_status_t,
        pub reserved: u32,
        pub t_mono_ns: i64,
        pub u: rserve_event_u,
    }

    pub struct rserve_item {
        pub struct_size: u32,
        pub reserved: u32,
        pub token_begin: i64,
        pub tokens: i64,
        pub resized_width: i32,
        pub resized_height: i32,
        pub grid_t: i32,
        pub grid_h: i32,
        pub grid_w: i32,
        pub reserved2: u32,
    }

    pub struct rserve_detail_info {
        pub struct_size: u32,
        pub last_event: rserve_event_type_t,
        pub request_id: u64,
        pub user_data: u64,
        pub status: rserve_status_t,
        pub token: i32,
        pub logprob: f32,
        pub num_items: i32,
        pub prompt_tokens: i64,
        pub kv_blocks: i64,
        pub submitted_ns: i64,
        pub first_encode_ns: i64,
        pub last_encode_ns: i64,
        pub first_prefill_ns: i64,
        pub first_token_ns: i64,
        pub ended_ns: i64,
        pub first_prepare_ns: i64,
        pub last_prepare_ns: i64,
        pub reused_tokens: i64,
    }

    pub struct rserve_plan_info {
        pub struct_size: u32,
        pub fits: rserve_status_t,
        pub prompt_tokens: i64,
        pub mrope_delta: i64,
        pub kv_blocks: i64,
        pub embedding_bytes: i64,
        pub pixel_bytes: i64,
        pub input_bytes: i64,
        pub num_items: i32,
        pub reserved: u32,
    }

    pub struct rserve_model_info {
        pub struct_size: u32,
        pub vocab_size: i32,
        pub hidden_size: i32,
        pub num_layers: i32,
        pub num_heads: i32,
        pub num_kv_heads: i32,
        pub head_dim: i32,
        pub max_position_embeddings: i32,
        pub vision_depth: i32,
        pub vision_hidden_size: i32,
        pub vision_heads: i32,
        pub patch_size: i32,
        pub merge_size: i32,
        pub num_workers: i32,
        pub min_pixels: i64,
        pub max_pixels: i64,
        pub weight_bytes: i64,
        pub kv_bytes_per_token: i64,
        pub kv_blocks: i64,
        pub load_ns: i64,
    }

    pub struct rserve_stats {
        pub struct_size: u32,
        pub idle: u32,
        pub open_requests: i64,
        pub lingering_requests: i64,
        pub embedding_bytes: i64,
        pub peak_embedding_bytes: i64,
        pub pixel_bytes: i64,
        pub peak_pixel_bytes: i64,
        pub units_in_flight: i64,
        pub kv_blocks_used: i64,
        pub peak_kv_blocks_used: i64,
        pub input_bytes: i64,
        pub encode_batches: i64,
        pub encoded_units: i64,
        pub encoded_tokens: i64,
        pub micro_batches: i64,
        pub prefilled_tokens: i64,
        pub accepted: i64,
        pub finished: i64,
        pub failed: i64,
        pub cancelled: i64,
        pub refused: i64,
        pub stale_tokens: i64,
        pub cache_hits: i64,
        pub cache_shared: i64,
        pub cache_misses: i64,
        pub cache_evictions: i64,
        pub cache_bytes: i64,
        pub peak_cache_bytes: i64,
        pub reused_tokens: i64,
        pub kv_blocks_cached: i64,
        pub kv_evictions: i64,
    }
}

c_functions! {
    pub fn rserve_version() -> *const c_char;
    pub fn rserve_abi_version() -> u32;
    pub fn rserve_status_name(status: rserve_status_t) -> *const c_char;
    pub fn rserve_error_code(err: *const rserve_error) -> rserve_status_t;
    pub fn rserve_error_message(err: *const rserve_error, length: *mut usize) -> *const c_char;
    pub fn rserve_error_destroy(err: *mut rserve_error);
    pub fn rserve_scheme_parse(
        name: *const c_char,
        name_length: usize,
        scheme: *mut rserve_scheme_t,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_engine_create(
        config: *const rserve_engine_config,
        engine: *mut *mut rserve_engine,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_engine_destroy(engine: *mut rserve_engine);
    pub fn rserve_engine_submit(
        engine: *mut rserve_engine,
        request: *const rserve_request,
        request_id: *mut u64,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_engine_cancel(
        engine: *mut rserve_engine,
        request_id: u64,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_engine_drain(
        engine: *mut rserve_engine,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_engine_abort(
        engine: *mut rserve_engine,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_engine_poll(
        engine: *mut rserve_engine,
        events: *mut rserve_event,
        capacity: usize,
        event_size: usize,
        count: *mut usize,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_engine_wait_fd(engine: *const rserve_engine) -> c_int;
    pub fn rserve_engine_next_deadline_ns(engine: *const rserve_engine) -> i64;
    pub fn rserve_engine_acknowledge(
        engine: *mut rserve_engine,
        request_id: u64,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_request_detail(
        engine: *const rserve_engine,
        request_id: u64,
        detail: *mut *mut rserve_detail,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_detail_get_info(
        detail: *const rserve_detail,
        info: *mut rserve_detail_info,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_detail_get_item(
        detail: *const rserve_detail,
        index: usize,
        item: *mut rserve_item,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_detail_message(detail: *const rserve_detail, count: *mut usize) -> *const c_char;
    pub fn rserve_detail_tokens(detail: *const rserve_detail, count: *mut usize) -> *const i32;
    pub fn rserve_detail_logits(detail: *const rserve_detail, count: *mut usize) -> *const f32;
    pub fn rserve_detail_embeddings(detail: *const rserve_detail, count: *mut usize) -> *const f32;
    pub fn rserve_detail_destroy(detail: *mut rserve_detail);
    pub fn rserve_engine_plan(
        engine: *const rserve_engine,
        request: *const rserve_request,
        plan: *mut *mut rserve_plan,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_plan_get_info(
        plan: *const rserve_plan,
        info: *mut rserve_plan_info,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_plan_get_item(
        plan: *const rserve_plan,
        index: usize,
        item: *mut rserve_item,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_plan_message(plan: *const rserve_plan, count: *mut usize) -> *const c_char;
    pub fn rserve_plan_tokens(plan: *const rserve_plan, count: *mut usize) -> *const i32;
    pub fn rserve_plan_positions(plan: *const rserve_plan, count: *mut usize) -> *const i32;
    pub fn rserve_plan_destroy(plan: *mut rserve_plan);
    pub fn rserve_engine_get_model_info(
        engine: *const rserve_engine,
        info: *mut rserve_model_info,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_engine_get_stats(
        engine: *const rserve_engine,
        stats: *mut rserve_stats,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
    pub fn rserve_engine_decode(
        engine: *const rserve_engine,
        tokens: *const i32,
        num_tokens: usize,
        text: *mut c_char,
        capacity: usize,
        length: *mut usize,
        err: *mut *mut rserve_error,
    ) -> rserve_status_t;
}

c_init! {
    rserve_log,
    rserve_load_progress,
    rserve_engine_config { scheme: RSERVE_SCHEME_ADAPTIVE },
    rserve_frames,
    rserve_embeddings,
    rserve_item,
    rserve_detail_info,
    rserve_plan_info,
    rserve_model_info,
    rserve_stats,
}

impl rserve_request {
    /// What `RSERVE_REQUEST_INIT` gives.
    pub fn init() -> Self {
        Self {
            struct_size: std::mem::size_of::<Self>() as u32,
            part_size: std::mem::size_of::<rserve_part>() as u32,
            parts: std::ptr::null(),
            num_parts: 0,
            user_data: 0,
            timeout_ns: 0,
            flags: 0,
            temperature: 0.0,
            top_p: 0.0,
            reserved: 0,
            seed: 0,
            cache_salt: std::ptr::null(),
            cache_salt_length: 0,
        }
    }
}
