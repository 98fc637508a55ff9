package rserve

// #include <stdlib.h>
// #include <rserve/rserve.h>
// void rserve_go_log_init(rserve_log *log, uintptr_t handle);
import "C"

import (
	"fmt"
	"runtime/cgo"
	"time"
	"unsafe"
)

// Scheme says how encoding and prefill are coordinated. The zero value is SchemeAdaptive.
type Scheme int32

// The schemes.
const (
	SchemeAdaptive    Scheme = iota // as SchemeRserve, by measured rates
	SchemeRserve                    // what is encoded is prefilled; many requests
	SchemeRserveIntra               // the same, one request at a time
	SchemeEPD                       // prefilled once all is encoded
	SchemeColocated                 // the first stage's cores encode too
)

// The library's numbers, in the order of ours.
var schemes = [...]C.rserve_scheme_t{
	C.RSERVE_SCHEME_ADAPTIVE, C.RSERVE_SCHEME_RSERVE, C.RSERVE_SCHEME_RSERVE_INTRA, C.RSERVE_SCHEME_EPD,
	C.RSERVE_SCHEME_COLOCATED,
}

func (s Scheme) number() C.rserve_scheme_t {
	if s < 0 || int(s) >= len(schemes) {
		return C.rserve_scheme_t(s) // which the library refuses by name
	}
	return schemes[s]
}

// ParseScheme returns the scheme of a name: "rserve", "rserve_intra", "epd", "colocated",
// "adaptive".
func ParseScheme(name string) (Scheme, error) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var scheme C.rserve_scheme_t
	var err *C.rserve_error
	status := C.rserve_scheme_parse(text, C.size_t(len(name)), &scheme, &err)
	if status != C.RSERVE_STATUS_OK {
		return 0, asError(status, err)
	}
	for s, number := range schemes {
		if number == scheme {
			return Scheme(s), nil
		}
	}
	return 0, fmt.Errorf("scheme %q is newer than this package", name)
}

// EncodeAll, as Config.EncodeBatchTokens: all pictures of a request in one batch.
const EncodeAll int64 = C.RSERVE_ENCODE_ALL

// EncodersShared, as Config.Encoders of SchemeAdaptive: the first stage's cores encode too.
const EncodersShared int32 = C.RSERVE_ENCODERS_SHARED

// Order says which request goes first. Zero is the scheme's own choice.
type Order int32

// The orders.
const (
	OrderArrival       Order = C.RSERVE_ORDER_ARRIVAL        // first come, first served
	OrderShortestFirst Order = C.RSERVE_ORDER_SHORTEST_FIRST // the least work left
	OrderFeasibleFirst Order = C.RSERVE_ORDER_FEASIBLE_FIRST // those that can still meet the SLO
)

// Choice is yes, no or, as zero, the scheme's own.
type Choice int32

// The choices.
const (
	Yes Choice = C.RSERVE_CHOICE_YES
	No  Choice = C.RSERVE_CHOICE_NO
)

// Gate says what may be prefilled before all of a request is encoded.
type Gate int32

// Sharing says whose tokens share a micro-batch.
type Sharing int32

// Trigger says what starts the encoding of a request.
type Trigger int32

// Zero is the scheme's own choice.
const (
	GateStreaming       Gate    = C.RSERVE_GATE_STREAMING
	GateWholeRequest    Gate    = C.RSERVE_GATE_WHOLE_REQUEST
	SharingMany         Sharing = C.RSERVE_SHARING_MANY
	SharingOneRequest   Sharing = C.RSERVE_SHARING_ONE_REQUEST
	TriggerOnArrival    Trigger = C.RSERVE_TRIGGER_ON_ARRIVAL
	TriggerOnFirstChunk Trigger = C.RSERVE_TRIGGER_ON_FIRST_CHUNK
	TriggerOnChunk      Trigger = C.RSERVE_TRIGGER_ON_CHUNK
)

// Weights says how the matrices of the layers and of the vision blocks are held.
type Weights int32

const (
	WeightsStored Weights = C.RSERVE_WEIGHTS_STORED // as the checkpoint has them
	WeightsInt8   Weights = C.RSERVE_WEIGHTS_INT8   // 8 bits: less memory, faster, other logits
)

// Backend says what computes.
type Backend int32

// DeviceSharing says how an encoder and a stage on the same GPU share it.
type DeviceSharing int32

// StageHandover says how hidden states get from a stage's GPU to the next one's.
type StageHandover int32

// The backends, the ways to share a GPU, and those from one to the next.
const (
	BackendCPU           Backend       = C.RSERVE_BACKEND_CPU
	BackendCUDA          Backend       = C.RSERVE_BACKEND_CUDA           // librserve_cuda.so, opened at run time
	DeviceSharingStreams DeviceSharing = C.RSERVE_DEVICE_SHARING_STREAMS // side by side
	DeviceSharingTurns   DeviceSharing = C.RSERVE_DEVICE_SHARING_TURNS   // one batch after another
	DeviceSharingParts   DeviceSharing = C.RSERVE_DEVICE_SHARING_PARTS   // multiprocessors of their own
	StageHandoverPeer    StageHandover = C.RSERVE_STAGE_HANDOVER_PEER    // copies from GPU to GPU
	StageHandoverNCCL    StageHandover = C.RSERVE_STAGE_HANDOVER_NCCL    // NCCL's sends and receives
	StageHandoverHost    StageHandover = C.RSERVE_STAGE_HANDOVER_HOST    // through host memory
)

// LogRecord is one message of the engine's log.
type LogRecord struct {
	Level   int   // 0 debug, 1 info, 2 warning, 3 error
	TimeNs  int64 // on CLOCK_MONOTONIC
	Message string
}

// Config is an engine's model, placement and limits. Zero is the default of every field, as
// rserve_engine_config in rserve.h states it.
type Config struct {
	ModelPath string // a folder with config.json, tokenizer.json and *.safetensors
	Scheme    Scheme
	Stages    int32 // pipeline stages
	Encoders  int32 // encoder workers

	EncodeBatchTokens    int64 // C: picture tokens of an encode batch, at least
	TokenBudget          int64 // B: tokens of a micro-batch, at most
	VanillaPP            bool  // one chunk of a request in the pipeline
	EncodeAcrossRequests bool  // an encode batch may mix requests
	NoPinning            bool  // do not pin worker threads to cores
	KVReuse              bool  // prompts that begin alike, with the same CacheSalt, reuse their KV
	Gate                 Gate
	Sharing              Sharing
	Trigger              Trigger
	EncodeFlush          time.Duration // a batch below C waits at most so long for the next picture
	MaxMicroBatches      int32
	MediaThreads         int32 // decode and resize pictures

	Threads       int32 // of all workers together
	KVBlockTokens int32
	StageLayers   []int32   // layers of each stage
	WorkerThreads []int32   // of each worker, stages then encoders
	WorkerCores   [][]int32 // in the same order

	KVTokens           int64
	EmbeddingBytes     int64 // encoded, not yet prefilled
	PixelBytes         int64 // prepared, not yet encoded
	EncoderBatchTokens int64 // of one encode batch, at most
	UnitsInFlight      int64
	InputBytes         int64 // pictures and text of open requests
	QueueRequests      int64 // open requests
	MaxPromptTokens    int64
	MaxImagePixels     int64
	MaxUnacknowledged  int64 // ended requests whose detail is kept; then Submit is refused

	// Embeddings kept for requests that bring the same pictures again; 0: none.
	EmbeddingCacheBytes int64
	Weights             Weights

	Backend        Backend
	TensorParallel int32   // ranks of each stage
	Devices        []int32 // GPU numbers, one a rank of each stage, then one an encoder; or one for all
	CUDALibrary    string  // empty: librserve_cuda.so beside this library
	DeviceSharing  DeviceSharing
	EncoderPercent int32 // of the multiprocessors, with DeviceSharingParts
	StageHandover  StageHandover
	GraphRows      int32 // work on at most so many rows is recorded as CUDA graphs; 0: 1024; -1: none

	NotDeterministic bool // a row's bits may depend on its batch; a little faster
	CuDNNAttention   bool // the vision tower's, with NotDeterministic
	HostEmbeddings   bool // pictures' embeddings go through host memory

	Order               Order
	OrderStretch        int32         // how many times its own work a request may be passed
	OrderGuard          time.Duration // but by none that came so long after it
	SLO                 time.Duration // of the time to first token, for OrderFeasibleFirst
	MinTokenBudget      int64         // B at least, where it follows the load
	SquareRootBudget    Choice        // B follows the load, up to TokenBudget
	AdaptiveEncodeBatch Choice        // C follows the load

	// Log receives the engine's log, from any thread and several at once. It must not call the
	// engine. A panic in it ends the program.
	Log func(LogRecord)
}

// arena is C memory that is freed at once.
type arena []unsafe.Pointer

func (a *arena) alloc(bytes int) unsafe.Pointer {
	data := C.malloc(C.size_t(bytes + 1)) // never NULL: cgo ends the program; never 0 bytes
	*a = append(*a, data)
	return data
}

func (a *arena) ints(values []int32) *C.int32_t {
	if len(values) == 0 {
		return nil
	}
	data := a.alloc(len(values) * 4)
	copy(unsafe.Slice((*int32)(data), len(values)), values)
	return (*C.int32_t)(data)
}

func (a *arena) doubles(values []float64) *C.double {
	if len(values) == 0 {
		return nil
	}
	data := a.alloc(len(values) * 8)
	copy(unsafe.Slice((*float64)(data), len(values)), values)
	return (*C.double)(data)
}

func (a *arena) text(text string) unsafe.Pointer {
	data := a.alloc(len(text))
	copy(unsafe.Slice((*byte)(data), len(text)), text)
	return data
}

func (a *arena) free() {
	for _, data := range *a {
		C.free(data)
	}
	*a = nil
}

// create makes the engine.
func (c *Config) create() (*C.rserve_engine, error) {
	var memory arena
	defer memory.free()
	config := (*C.rserve_engine_config)(memory.alloc(C.sizeof_rserve_engine_config))
	*config = C.rserve_engine_config{
		struct_size:          C.sizeof_rserve_engine_config,
		scheme:               c.Scheme.number(),
		model_path:           (*C.char)(memory.text(c.ModelPath)),
		model_path_length:    C.size_t(len(c.ModelPath)),
		stages:               C.int32_t(c.Stages),
		encoders:             C.int32_t(c.Encoders),
		encode_batch_tokens:  C.int64_t(c.EncodeBatchTokens),
		token_budget:         C.int64_t(c.TokenBudget),
		gate:                 C.rserve_gate_t(c.Gate),
		sharing:              C.rserve_sharing_t(c.Sharing),
		trigger:              C.rserve_trigger_t(c.Trigger),
		encode_flush_ns:      C.int64_t(c.EncodeFlush),
		max_micro_batches:    C.int32_t(c.MaxMicroBatches),
		media_threads:        C.int32_t(c.MediaThreads),
		threads:              C.int32_t(c.Threads),
		kv_block_tokens:      C.int32_t(c.KVBlockTokens),
		stage_layers:         memory.ints(c.StageLayers),
		num_stage_layers:     C.size_t(len(c.StageLayers)),
		worker_threads:       memory.ints(c.WorkerThreads),
		num_worker_threads:   C.size_t(len(c.WorkerThreads)),
		num_worker_cores:     C.size_t(len(c.WorkerCores)),
		kv_tokens:            C.int64_t(c.KVTokens),
		embedding_bytes:      C.int64_t(c.EmbeddingBytes),
		pixel_bytes:          C.int64_t(c.PixelBytes),
		encoder_batch_tokens: C.int64_t(c.EncoderBatchTokens),
		units_in_flight:      C.int64_t(c.UnitsInFlight),
		input_bytes:          C.int64_t(c.InputBytes),
		queue_requests:       C.int64_t(c.QueueRequests),
		max_prompt_tokens:    C.int64_t(c.MaxPromptTokens),
		max_image_pixels:     C.int64_t(c.MaxImagePixels),
		max_unacknowledged:   C.int64_t(c.MaxUnacknowledged),
		backend:              C.rserve_backend_t(c.Backend),
		tensor_parallel:      C.int32_t(c.TensorParallel),
		devices:              memory.ints(c.Devices),
		num_devices:          C.size_t(len(c.Devices)),
		cuda_library:         (*C.char)(memory.text(c.CUDALibrary)),
		cuda_library_length:  C.size_t(len(c.CUDALibrary)),
		device_sharing:       C.rserve_device_sharing_t(c.DeviceSharing),
		encoder_percent:      C.int32_t(c.EncoderPercent),
		stage_handover:       C.rserve_stage_handover_t(c.StageHandover),
		graph_rows:           C.int32_t(c.GraphRows),

		embedding_cache_bytes: C.int64_t(c.EmbeddingCacheBytes),
		weights:               C.rserve_weights_t(c.Weights),
		order:                 C.rserve_order_t(c.Order),
		order_stretch:         C.int32_t(c.OrderStretch),
		order_guard_ns:        C.int64_t(c.OrderGuard),
		slo_ns:                C.int64_t(c.SLO),
		min_token_budget:      C.int64_t(c.MinTokenBudget),
		square_root_budget:    C.rserve_choice_t(c.SquareRootBudget),
		adaptive_encode_batch: C.rserve_choice_t(c.AdaptiveEncodeBatch),
	}
	for _, flag := range []struct {
		set bool
		bit C.uint32_t
	}{
		{c.VanillaPP, C.RSERVE_ENGINE_F_VANILLA_PP},
		{c.EncodeAcrossRequests, C.RSERVE_ENGINE_F_ENCODE_ACROSS_REQUESTS},
		{c.NoPinning, C.RSERVE_ENGINE_F_NO_PINNING},
		{c.KVReuse, C.RSERVE_ENGINE_F_KV_REUSE},
		{c.NotDeterministic, C.RSERVE_ENGINE_F_NOT_DETERMINISTIC},
		{c.CuDNNAttention, C.RSERVE_ENGINE_F_CUDNN_ATTENTION},
		{c.HostEmbeddings, C.RSERVE_ENGINE_F_HOST_EMBEDDINGS},
	} {
		if flag.set {
			config.flags |= flag.bit
		}
	}
	if n := len(c.WorkerCores); n > 0 {
		lists := memory.alloc(n * C.sizeof_rserve_core_list)
		config.worker_cores = (*C.rserve_core_list)(lists)
		for i, cores := range c.WorkerCores {
			unsafe.Slice((*C.rserve_core_list)(lists), n)[i] = C.rserve_core_list{
				cores: memory.ints(cores), num_cores: C.size_t(len(cores)),
			}
		}
	}
	if c.Log != nil {
		// The library ends the handle, whether or not the creation succeeds.
		log := (*C.rserve_log)(memory.alloc(C.sizeof_rserve_log))
		C.rserve_go_log_init(log, C.uintptr_t(cgo.NewHandle(c.Log)))
		config.log = log
	}
	var handle *C.rserve_engine
	var err *C.rserve_error
	status := C.rserve_engine_create(config, &handle, &err)
	return handle, asError(status, err)
}
