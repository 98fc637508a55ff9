//! What an engine is made from.

use std::path::PathBuf;

use rserve_sys as sys;

use crate::callbacks::{LogRecord, LogSink, ProgressSink};
use crate::error::{call, Result};

/// How encoding and prefill are coordinated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(i32)]
pub enum Scheme {
    /// Own encoder; what is encoded is prefilled; many requests.
    Rserve = sys::RSERVE_SCHEME_RSERVE,
    /// The same, one request in the pipeline at a time.
    RserveIntra = sys::RSERVE_SCHEME_RSERVE_INTRA,
    /// Own encoder; a request is prefilled once all of it is encoded.
    Epd = sys::RSERVE_SCHEME_EPD,
    /// The first stage's cores encode too, then prefill.
    Colocated = sys::RSERVE_SCHEME_COLOCATED,
    /// As `Rserve`; order, C, B and placement follow measured rates.
    #[default]
    Adaptive = sys::RSERVE_SCHEME_ADAPTIVE,
}

impl std::str::FromStr for Scheme {
    type Err = crate::Error;

    /// By its name: "rserve", "rserve_intra", "epd", "colocated", "adaptive".
    fn from_str(name: &str) -> Result<Scheme> {
        let mut scheme = 0;
        // SAFETY: the name is borrowed for the call, `scheme` is ours.
        call(|err| unsafe {
            sys::rserve_scheme_parse(name.as_ptr().cast(), name.len(), &mut scheme, err)
        })?;
        Ok(match scheme {
            sys::RSERVE_SCHEME_RSERVE_INTRA => Scheme::RserveIntra,
            sys::RSERVE_SCHEME_EPD => Scheme::Epd,
            sys::RSERVE_SCHEME_COLOCATED => Scheme::Colocated,
            sys::RSERVE_SCHEME_ADAPTIVE => Scheme::Adaptive,
            _ => Scheme::Rserve,
        })
    }
}

/// What may be prefilled before all of a request is encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Gate {
    /// The scheme's.
    #[default]
    Default = sys::RSERVE_GATE_DEFAULT,
    Streaming = sys::RSERVE_GATE_STREAMING,
    WholeRequest = sys::RSERVE_GATE_WHOLE_REQUEST,
}

/// Whose tokens share a micro-batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Sharing {
    /// The scheme's.
    #[default]
    Default = sys::RSERVE_SHARING_DEFAULT,
    Many = sys::RSERVE_SHARING_MANY,
    OneRequest = sys::RSERVE_SHARING_ONE_REQUEST,
}

/// What starts the encoding of a request. The last two need the encoder on stage 0's worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Trigger {
    /// The scheme's.
    #[default]
    Default = sys::RSERVE_TRIGGER_DEFAULT,
    OnArrival = sys::RSERVE_TRIGGER_ON_ARRIVAL,
    OnFirstChunk = sys::RSERVE_TRIGGER_ON_FIRST_CHUNK,
    OnChunk = sys::RSERVE_TRIGGER_ON_CHUNK,
}

/// How the matrices of the layers and of the vision blocks are held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(i32)]
pub enum Weights {
    /// As the checkpoint has them.
    #[default]
    Stored = sys::RSERVE_WEIGHTS_STORED,
    /// 8 bits, a scale a column: less memory, faster, other logits.
    Int8 = sys::RSERVE_WEIGHTS_INT8,
}

/// What computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(i32)]
pub enum Backend {
    /// The machine's cores.
    #[default]
    Cpu = sys::RSERVE_BACKEND_CPU,
    /// NVIDIA GPUs: librserve_cuda.so, opened when an engine asks for it.
    Cuda = sys::RSERVE_BACKEND_CUDA,
}

/// How an encoder and a stage on the same GPU share it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(i32)]
pub enum DeviceSharing {
    /// Side by side, as the GPU puts their kernels.
    #[default]
    Streams = sys::RSERVE_DEVICE_SHARING_STREAMS,
    /// One batch after another.
    Turns = sys::RSERVE_DEVICE_SHARING_TURNS,
    /// Each has multiprocessors of its own.
    Parts = sys::RSERVE_DEVICE_SHARING_PARTS,
}

/// How hidden states get from a stage's GPU to the next one's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(i32)]
pub enum StageHandover {
    /// Copies from GPU to GPU.
    #[default]
    Peer = sys::RSERVE_STAGE_HANDOVER_PEER,
    /// NCCL's sends and receives.
    Nccl = sys::RSERVE_STAGE_HANDOVER_NCCL,
    /// Through host memory.
    Host = sys::RSERVE_STAGE_HANDOVER_HOST,
}

/// Which request goes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(i32)]
pub enum Order {
    /// The scheme's.
    #[default]
    Default = sys::RSERVE_ORDER_DEFAULT,
    /// First come, first served.
    Arrival = sys::RSERVE_ORDER_ARRIVAL,
    /// The least work left, and those that have waited long.
    ShortestFirst = sys::RSERVE_ORDER_SHORTEST_FIRST,
    /// The same among those that can still meet [`Config::slo_ns`].
    FeasibleFirst = sys::RSERVE_ORDER_FEASIBLE_FIRST,
}

/// [`Config::encoders`] of [`Scheme::Adaptive`]: the first stage's cores encode too.
pub const ENCODERS_SHARED: i32 = sys::RSERVE_ENCODERS_SHARED;

/// [`Config::encode_batch_tokens`]: all pictures of a request in one batch.
pub const ENCODE_ALL: i64 = sys::RSERVE_ENCODE_ALL;

/// An engine's model, placement and limits. Zero and empty are the defaults that `rserve.h` states:
///
/// ```
/// let config = rserve::Config { stages: 2, token_budget: 512, ..rserve::Config::new("model") };
/// ```
#[derive(Default)]
pub struct Config {
    /// A folder with config.json, tokenizer.json and *.safetensors.
    pub model_path: PathBuf,
    /// How encoding and prefill are coordinated.
    pub scheme: Scheme,
    /// Pipeline stages.
    pub stages: i32,
    /// Encoder workers; ignored by [`Scheme::Colocated`].
    pub encoders: i32,
    /// C: picture tokens of an encode batch, at least.
    pub encode_batch_tokens: i64,
    /// B: tokens of a micro-batch, at most.
    pub token_budget: i64,
    /// One chunk of a request in the pipeline.
    pub vanilla_pp: bool,
    /// An encode batch may mix requests.
    pub encode_across_requests: bool,
    /// Do not pin worker threads to cores.
    pub no_pinning: bool,
    /// Prompts that begin as earlier ones of the same `cache_salt` did reuse their KV.
    pub kv_reuse: bool,
    /// [`Backend::Cuda`]: a row's bits may depend on its batch; a little faster.
    pub not_deterministic: bool,
    /// [`Backend::Cuda`], with `not_deterministic`: cuDNN's attention in the vision tower.
    pub cudnn_attention: bool,
    /// [`Backend::Cuda`]: pictures' embeddings go through host memory instead of staying on the GPUs.
    pub host_embeddings: bool,
    /// What may be prefilled before all of a request is encoded.
    pub gate: Gate,
    /// Whose tokens share a micro-batch.
    pub sharing: Sharing,
    /// What starts the encoding of a request.
    pub trigger: Trigger,
    /// How long a batch below C waits for the request's next picture; 0: no limit; 1: not at all.
    pub encode_flush_ns: i64,
    /// In the pipeline, at most.
    pub max_micro_batches: i32,
    /// Threads that decode and resize pictures.
    pub media_threads: i32,
    /// Threads of all workers together.
    pub threads: i32,
    /// Tokens of a KV block.
    pub kv_block_tokens: i32,
    /// Layers of each stage; empty: even.
    pub stage_layers: Vec<i32>,
    /// Threads of each worker, stages then encoders; empty: by their cores.
    pub worker_threads: Vec<i32>,
    /// Cores of each worker, in the same order; empty: dealt out.
    pub worker_cores: Vec<Vec<i32>>,
    /// Tokens of the KV cache.
    pub kv_tokens: i64,
    /// Encoded and not yet prefilled, at most.
    pub embedding_bytes: i64,
    /// Prepared and not yet encoded, at most.
    pub pixel_bytes: i64,
    /// Tokens of one encode batch, at most.
    pub encoder_batch_tokens: i64,
    /// Pictures with an embedding, at most.
    pub units_in_flight: i64,
    /// Pictures and text of open requests, at most.
    pub input_bytes: i64,
    /// Open requests, at most.
    pub queue_requests: i64,
    /// Tokens of a prompt, at most.
    pub max_prompt_tokens: i64,
    /// Width times height of a source picture, at most.
    pub max_image_pixels: i64,
    /// Ended requests that were not acknowledged, at most.
    pub max_unacknowledged: i64,
    /// Embeddings kept for requests that bring the same pictures again; 0: none.
    pub embedding_cache_bytes: i64,
    /// How the matrices are held.
    pub weights: Weights,
    /// What computes.
    pub backend: Backend,
    /// Ranks of each stage: threads on the CPU, GPUs with [`Backend::Cuda`].
    pub tensor_parallel: i32,
    /// GPU numbers, one a rank of each stage, then one an encoder; a single one: everything is there.
    pub devices: Vec<i32>,
    /// The file of the CUDA backend; empty: librserve_cuda.so beside this library.
    pub cuda_library: PathBuf,
    /// How an encoder and a stage on the same GPU share it.
    pub device_sharing: DeviceSharing,
    /// Of the multiprocessors, with [`DeviceSharing::Parts`].
    pub encoder_percent: i32,
    /// Which request goes first.
    pub order: Order,
    /// How many times its own work a request may be passed.
    pub order_stretch: i32,
    /// But by none that came so long after it.
    pub order_guard_ns: i64,
    /// Of the time to first token; [`Order::FeasibleFirst`] needs it.
    pub slo_ns: i64,
    /// B at least, where it follows the load.
    pub min_token_budget: i64,
    /// B follows the load, up to `token_budget`; `None`: the scheme's choice.
    pub square_root_budget: Option<bool>,
    /// C follows the load; `None`: the scheme's choice, and not if C is given.
    pub adaptive_encode_batch: Option<bool>,
    /// How hidden states get from a stage's GPU to the next one's.
    pub stage_handover: StageHandover,
    /// Work on at most so many rows that comes again is recorded as a CUDA graph; 0: 1024; -1: none.
    pub graph_rows: i32,
    /// See [`Config::log`].
    pub log: Option<LogSink>,
    /// See [`Config::load_progress`].
    pub load_progress: Option<ProgressSink>,
}

impl Config {
    /// The defaults for a model.
    pub fn new(model_path: impl Into<PathBuf>) -> Config {
        Config { model_path: model_path.into(), ..Config::default() }
    }

    /// Receives the engine's log, on any thread and several at once. It must not call the engine; a
    /// panic in it is swallowed.
    pub fn log(mut self, write: impl Fn(&LogRecord<'_>) + Send + Sync + 'static) -> Config {
        self.log = Some(Box::new(write));
        self
    }

    /// Receives the progress of loading, as bytes done and bytes in all. A panic in it is swallowed.
    pub fn load_progress(mut self, report: impl FnMut(i64, i64) + Send + 'static) -> Config {
        self.load_progress = Some(Box::new(report));
        self
    }

    pub(crate) fn choice(value: Option<bool>) -> sys::rserve_choice_t {
        match value {
            None => sys::RSERVE_CHOICE_DEFAULT,
            Some(true) => sys::RSERVE_CHOICE_YES,
            Some(false) => sys::RSERVE_CHOICE_NO,
        }
    }

    pub(crate) fn flags(&self) -> u32 {
        let mut flags = 0;
        if self.vanilla_pp {
            flags |= sys::RSERVE_ENGINE_F_VANILLA_PP;
        }
        if self.encode_across_requests {
            flags |= sys::RSERVE_ENGINE_F_ENCODE_ACROSS_REQUESTS;
        }
        if self.no_pinning {
            flags |= sys::RSERVE_ENGINE_F_NO_PINNING;
        }
        if self.kv_reuse {
            flags |= sys::RSERVE_ENGINE_F_KV_REUSE;
        }
        if self.not_deterministic {
            flags |= sys::RSERVE_ENGINE_F_NOT_DETERMINISTIC;
        }
        if self.cudnn_attention {
            flags |= sys::RSERVE_ENGINE_F_CUDNN_ATTENTION;
        }
        if self.host_embeddings {
            flags |= sys::RSERVE_ENGINE_F_HOST_EMBEDDINGS;
        }
        flags
    }
}
