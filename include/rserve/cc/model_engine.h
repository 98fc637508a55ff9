// ModelEngine: an Engine for a Qwen2.5-VL checkpoint folder. Requests are text and pictures; what
// comes back is the first token, with the times of the phases before it.
//
//   ModelEngineOptions options;
//   options.model_path = "models/digits";
//   auto engine = ModelEngine::Create(options);
//   ModelRequest request;
//   request.parts =
//       *(*engine)->RenderChat({{"user", {EncodedImage{png_bytes}, UserText{"Which digit?"}}}});
//   auto id = (*engine)->Submit(request);
//   // poll(2) on wait_fd(), Poll(), look at the events, Acknowledge(*id) after the terminal one
//
// Everything about a request is planned from headers and sizes at Submit, so a request that can
// never run is refused there: a prompt longer than the KV cache, a picture over the encoder's
// batch, an image bomb. Pixels are decoded later, on media threads.

#ifndef RSERVE_CC_MODEL_ENGINE_H_
#define RSERVE_CC_MODEL_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rserve/cc/engine.h"
#include "rserve/cc/policy.h"

namespace rserve {

// ---- Options
// -------------------------------------------------------------------------------------

// How the matrices of the layers and of the vision blocks are held.
enum class Weights : int32_t {
  kStored = 0,  // as the checkpoint has them
  kInt8 = 1     // 8 bits, a scale a column; the numbers that meet them are quantised as they come
};

// What computes.
enum class Backend : int32_t {
  kCpu = 0,
  kCuda = 1,  // NVIDIA GPUs: librserve_cuda.so, opened at run time
};
std::string_view BackendName(Backend backend);  // "cpu", "cuda"
absl::StatusOr<Backend> ParseBackend(std::string_view name);

// How an encoder and a stage that are on the same GPU share it.
enum class DeviceSharing : int32_t {
  kStreams = 0,  // side by side, as the GPU puts their kernels
  kTurns = 1,    // one batch after another
  kParts = 2,    // each has multiprocessors of its own
};
std::string_view DeviceSharingName(DeviceSharing sharing);  // "streams", "turns", "parts"
absl::StatusOr<DeviceSharing> ParseDeviceSharing(std::string_view name);

// How hidden states get from a stage's GPU to the next one's.
enum class StageHandover : int32_t {
  kPeer = 0,  // copies from GPU to GPU
  kNccl = 1,  // NCCL's sends and receives
  kHost = 2,  // through host memory
};
std::string_view StageHandoverName(StageHandover handover);  // "peer", "nccl", "host"
absl::StatusOr<StageHandover> ParseStageHandover(std::string_view name);

// Where a number says "0: ...", 0 asks for that default. Limits are refused with their field's
// name.
struct ModelEngineOptions {
  std::string model_path;  // folder with config.json, tokenizer.json, *.safetensors, ...

  // How encode and prefill are coordinated, and what of the scheme's policy to change.
  Scheme scheme = Scheme::kAdaptive;
  std::optional<Gate> gate;
  std::optional<Sharing> sharing;
  std::optional<EncodeTrigger> trigger;
  int64_t encode_batch_tokens = 0;      // C; 0: 1024; kEncodeAll: all of a request at once
  int64_t token_budget = 0;             // B, or the most it may grow to; 0: 2048, kAdaptive: 4096
  bool encode_across_requests = false;  // kAdaptive: always
  // A batch below C waits at most so long for the next picture of its request to be prepared; 0:
  // not at all.
  TimeNs encode_flush_ns = kNever;
  bool one_chunk_in_flight = false;  // vanilla PP instead of chunked PP
  int32_t max_micro_batches = 0;     // 0: as many as the stages take, kAdaptive: twice as many
  int32_t max_encode_attempts = 1;

  // Order, and what follows measured rates: fields of Policy. 0 and nothing: the scheme's.
  std::optional<Order> order;
  int64_t order_stretch = 0;
  TimeNs order_guard_ns = 0;
  TimeNs slo_ns = 0;
  int64_t min_token_budget = 0;
  std::optional<bool> square_root_budget;
  std::optional<bool> adaptive_encode_batch;  // nothing: not when encode_batch_tokens is given

  // Placement. Workers are numbered as SchemePlacement does: stages first, then encoders.
  int32_t stages = 1;  // PP
  // E; ignored by kColocated. 0: 1. kAdaptive also takes kSharedEncoder, and with 0 and one stage
  // measures, once the weights are there, what splitting the cores between the two does against
  // both using all of them, and takes what can lose less (src/runtime/model/placement_choice.h).
  int32_t encoders = 0;
  std::vector<int32_t> stage_layers;  // layers a stage, all at least 1; empty: even, the first
                                      // stages one more

  // Cores. By default the cores that this process may use are dealt out to the workers in equal
  // contiguous parts (the first workers one more), and each worker's threads are pinned to its
  // part; with fewer cores than workers every worker has one thread and none is pinned.
  int32_t threads = 0;                         // threads of all workers together; 0: all cores
  std::vector<int32_t> worker_threads;         // by worker; empty: by its cores
  std::vector<std::vector<int>> worker_cores;  // by worker, an empty list: not pinned; empty: deal
  bool pin_threads = true;
  int32_t media_threads = 1;  // decode and resize pictures

  // Budgets. Memory is set aside by plan, before the work that fills it.
  int64_t kv_tokens = 0;         // KV cache; 0: four full contexts, at most 2 GiB of cache
  int32_t kv_block_tokens = 16;  // tokens a block; kv_tokens is rounded up to blocks
  int64_t embedding_bytes = 0;   // 0: 256 MiB, and room for one largest picture
  // Prepared patches; 0: 512 MiB, and room for one largest picture. While a media thread prepares a
  // picture it also holds its decoded pixels: 3 to 9 bytes for each of max_image_pixels at most.
  int64_t pixel_bytes = 0;
  int64_t encoder_batch_tokens = 0;  // one encode batch; 0: 16384, and one largest picture
  int64_t units_in_flight = 0;       // 0: no limit but the bytes
  // Pictures (borrowed too), text, and kept logits and embeddings of open requests; 0: 1 GiB.
  int64_t input_bytes = 0;
  // Embeddings kept for requests that bring the same pictures again; equal pictures of open
  // requests are then encoded once. 0: no cache, every picture is encoded.
  int64_t embedding_cache_bytes = 0;
  // Prompts that begin as earlier ones did (same tokens, pictures, positions and salt) reuse their
  // KV: whole blocks that every stage has written, kept until their room is needed. What is covered
  // is not prefilled, pictures in it are neither decoded nor encoded. Submit then hashes all of a
  // request's pictures. False: nothing is kept.
  bool kv_reuse = false;
  int64_t queue_requests = 0;      // open requests; 0: 1024
  int64_t max_prompt_tokens = 0;   // 0: the model's max_position_embeddings
  int64_t max_image_pixels = 0;    // width * height of a source picture; 0: 2^27
  int64_t max_unacknowledged = 0;  // ended requests with a kept detail; 0: 65536

  Weights weights = Weights::kStored;

  Backend backend = Backend::kCpu;
  // TP: ranks that each stage's layers are split over, threads on the CPU, GPUs with kCuda. Partial
  // sums are added in the order of the ranks, so bits depend on this number (docs/cuda.md).
  int32_t tensor_parallel = 1;

  // Of Backend::kCuda. GPU numbers: one for each rank of each stage, then one for each encoder
  // worker; a single number: everything is there; empty: GPU 0. Ranks of a stage need GPUs of their
  // own.
  std::vector<int32_t> devices;
  // The file; empty: librserve_cuda.so beside this library or in ../lib, else where the system
  // looks.
  std::string cuda_library;
  DeviceSharing device_sharing = DeviceSharing::kStreams;
  int32_t encoder_percent = 0;  // of the multiprocessors, with kParts; 0: 25
  bool deterministic = true;    // a row's bits do not depend on its batch; a little slower
  StageHandover stage_handover = StageHandover::kPeer;
  // Work on at most so many rows (patches, tokens) that comes again with the same sizes is recorded
  // as a CUDA graph; 0: 1024; -1: none is.
  int32_t graph_rows = 0;
  // The vision tower's attention by cuDNN where it covers the sizes; not with `deterministic`.
  // False: by rserve's own kernel.
  bool cudnn_attention = false;
  // Pictures' embeddings stay on the GPUs: each of the first stage's sets embedding_bytes / 2 aside
  // for them. Supplied ones, and those that the cache has, come from host memory all the same.
  // False: all go through host memory.
  bool device_embeddings = true;

  // Weights read and all weights, while Create runs, on its thread or a helper's.
  std::function<void(int64_t done_bytes, int64_t total_bytes)> load_progress;
  std::function<void(const TraceSpan&)> trace;                      // as EngineOptions::trace
  std::function<void(int32_t level, const std::string& text)> log;  // as EngineOptions::log
};

// ---- Requests
// ------------------------------------------------------------------------------------

// A prompt is a list of parts, in order.

struct TokenIds {  // control tokens allowed, image placeholders not
  std::vector<int32_t> ids;
};
struct UserText {  // UTF-8; plain text whatever it says: "<|image_pad|>" is 13 characters
  std::string text;
};
struct TemplateText {  // UTF-8 that a template wrote: names of special tokens become the tokens
  std::string text;
};
// A PNG, JPEG, WebP, GIF or BMP file (of an animation the first frame); transparent pixels are
// shown on white, the EXIF orientation is applied. `borrow`: the bytes stay valid until the item's
// kInputReleased or the request's terminal event, whichever is first; otherwise Submit copies them.
struct EncodedImage {
  absl::Span<const uint8_t> bytes;
  bool borrow = false;
};
// One byte a sample, interleaved. Alpha is shown on white.
enum class PixelLayout : int32_t { kRgb8 = 0, kRgba8 = 1, kGray8 = 2 };
// Decoded pixels, top row first. Row y begins at pixels[y * row_stride_bytes].
struct PixelImage {
  PixelLayout layout = PixelLayout::kRgb8;
  absl::Span<const uint8_t> pixels;  // at least (height - 1) * row_stride_bytes + a row
  int32_t width = 0;
  int32_t height = 0;
  int64_t row_stride_bytes = 0;  // 0: width * bytes of a pixel
  bool borrow = false;           // as EncodedImage
};
// GCC 12 sees uninitialised members in moves of a variant of these two.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
// Frames of one video, chosen by the host (model::SampleFrames tells which the reference would
// take). Frame i begins at pixels[i * frame_stride_bytes]. Each temporal patch (2 frames of
// Qwen2.5-VL) is encoded, and its embedding released, by itself.
struct VideoFrames {
  PixelLayout layout = PixelLayout::kRgb8;
  absl::Span<const uint8_t> pixels;
  int32_t width = 0;
  int32_t height = 0;
  int32_t frames = 0;
  int64_t row_stride_bytes = 0;    // 0: width * bytes of a pixel
  int64_t frame_stride_bytes = 0;  // 0: height * row_stride_bytes
  // When the frames are: exactly one of the two. Never guessed.
  double fps = 0;                    // these frames a second
  std::vector<double> timestamps_s;  // seconds, one a frame, ascending
  bool borrow = false;               // as EncodedImage
};
// An animated GIF as a video; its delays say when the frames are. The frames that are taken are
// those that the reference's sampling takes.
struct VideoFile {
  absl::Span<const uint8_t> bytes;
  double fps = 0;          // frames to take a second; 0: 2
  int32_t num_frames = 0;  // or so many in all; 0: by fps
  bool borrow = false;     // as EncodedImage
};
// Embeddings made elsewhere by the same encoder, in the order of its rows: one a merge of patches,
// time, row, column. They are checked: two dimensions, as many rows as the grid has places, the
// model's width, and (while they are prepared) finite numbers.
enum class EmbeddingType : int32_t { kFloat32 = 0, kBfloat16 = 1, kFloat16 = 2 };
struct EmbeddingInput {
  EmbeddingType type = EmbeddingType::kFloat32;
  absl::Span<const uint8_t> data;  // little-endian, without padding
  std::vector<int64_t> shape;      // [rows, hidden_size]
  int32_t grid_t = 1;              // temporal patches; above 1 of a video only
  int32_t grid_h = 0, grid_w = 0;  // rows and columns of embedding rows
  double seconds_per_grid = 0;     // a video's: seconds between temporal patches; 0: a picture
  bool borrow = false;             // as EncodedImage
};
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
using RequestPart = std::variant<TokenIds, UserText, TemplateText, EncodedImage, PixelImage,
                                 VideoFrames, VideoFile, EmbeddingInput>;

// One chat message. In `content` UserText is what was said; use no TokenIds or TemplateText.
struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::vector<RequestPart> content;
};
// Writes the Qwen2-VL chat template around the messages (ModelEngine::RenderChat a checkpoint's
// own), which ends with the assistant's turn. A system message is added when the first message is
// none. What users wrote stays user text. With `number_images` "Picture 1: " stands before the
// first picture, and so on, as models that are asked about one of several were trained.
// INVALID_ARGUMENT names the message: none at all, another role, a part that is no text or picture.
absl::StatusOr<std::vector<RequestPart>> RenderChat(std::vector<ChatMessage> messages,
                                                    bool number_images = false);

// How the first token is chosen. The same numbers and logits give the same token, always.
struct Sampling {
  float temperature = 0;  // 0: the largest logit, ties to the lowest id
  float top_p = 1;        // the smallest set of tokens with at least this probability; (0, 1]
  uint64_t seed = 0;
};

struct ModelRequest {
  std::vector<RequestPart> parts;
  // Put <|vision_start|> and <|vision_end|> around pictures; false: the other parts hold them
  // (RenderChat's do not).
  bool image_markers = true;
  // Requests share cached embeddings and KV with those of the same salt only: a tenant's name, for
  // example.
  std::string cache_salt;
  Sampling sampling;
  TimeNs deadline_ns = kNever;  // on Engine::now_ns()'s clock
  uint64_t user_data = 0;       // comes back in every event
  bool keep_logits = false;     // keep the logits of the prompt's last token in the detail
  // Keep the pictures' embeddings in the detail; all are made, so no KV is reused for it.
  bool keep_embeddings = false;
  bool discard_detail = false;  // acknowledged by the Poll that returns its terminal event
};

// ---- Results
// -------------------------------------------------------------------------------------

// A picture, video or supplied embedding of a request. They are numbered in the order of their
// parts; the number is Event::item.
struct ItemDetail {
  int64_t token_begin = 0;
  int64_t tokens = 0;
  int32_t resized_width = 0, resized_height = 0;  // pixels
  int32_t grid_t = 0, grid_h = 0, grid_w = 0;     // patches
};

// What Submit would do with a request, without doing it.
struct RequestPreview {
  std::vector<int32_t> token_ids;  // placeholders expanded
  std::vector<int32_t> positions;  // M-RoPE: [3][token_ids.size()], temporal, height, width
  int64_t mrope_delta = 0;
  std::vector<ItemDetail> items;
  int64_t kv_blocks = 0;
  int64_t embedding_bytes = 0, pixel_bytes = 0, input_bytes = 0;  // all of the request
  absl::Status fits;  // why this engine could never run it, or OK
};

// What is known of a request, from its Submit to its Acknowledge.
struct RequestDetail {
  RequestId request = 0;
  uint64_t user_data = 0;
  EventType last_event = EventType::kAccepted;  // as polled; a terminal one is final
  absl::Status status;                          // of the terminal event
  std::vector<int32_t> token_ids;
  std::vector<ItemDetail> items;
  int64_t kv_blocks = 0;
  FirstToken first_token;         // token -1: none yet
  RequestTimes times;             // as of the last event that carried them
  TimeNs ended_ns = 0;            // terminal event
  std::vector<float> logits;      // [vocab_size] if kept
  std::vector<float> embeddings;  // [tokens of all items][hidden_size] if kept; complete at the
                                  // first token
  int64_t reused_tokens = 0;      // of the prompt, whose KV an earlier request wrote
};

// Of the embedding cache, since the engine was created. A unit is a picture or a temporal patch.
struct EmbeddingCacheStats {
  int64_t hits = 0;       // units whose embedding was there: neither decoded nor encoded
  int64_t shared = 0;     // units that another open request was preparing or encoding
  int64_t misses = 0;     // units that were encoded
  int64_t evictions = 0;  // embeddings dropped for room
  int64_t bytes = 0, peak_bytes = 0, capacity_bytes = 0;
};

// Embedding rows that lie on GPUs between encoder and first stage; all 0 where none do.
struct DeviceEmbeddingStats {
  int64_t rows = 0, peak_rows = 0, capacity_rows = 0;
};

struct WorkerInfo {
  WorkerSpec spec;
  int32_t first_layer = 0, num_layers = 0;  // of its stage
  int32_t threads = 1;
  std::vector<int> cores;        // empty: not pinned
  std::vector<int32_t> devices;  // GPU numbers, by rank; empty on the CPU
};

struct ModelInfo {
  std::string model_type;
  int32_t vocab_size = 0, hidden_size = 0, num_layers = 0, num_heads = 0, num_kv_heads = 0;
  int32_t head_dim = 0, max_position_embeddings = 0;
  int32_t vision_depth = 0, vision_hidden_size = 0, vision_heads = 0, patch_size = 0;
  int32_t merge_size = 0;                  // patches a side that make one token
  int64_t min_pixels = 0, max_pixels = 0;  // of a resized picture
  int64_t weight_bytes = 0;                // in memory
  int64_t kv_bytes_per_token = 0;          // over all stages
  double load_seconds = 0;
  std::string topology;  // "PP2+E1", "TP2xPP2+E1"
  std::vector<WorkerInfo> workers;
  OrchestratorConfig core;  // as filled in
};

// ---- The engine
// ----------------------------------------------------------------------------------

class ModelEngine {
 public:
  // Reads the folder and the weights; may take long. NOT_FOUND for a missing folder or file,
  // INVALID_ARGUMENT for a damaged one or an option out of range, with its name, UNAVAILABLE for a
  // backend that is not there, with the reason.
  static absl::StatusOr<std::unique_ptr<ModelEngine>> Create(ModelEngineOptions options);
  // As ~Engine: aborts, waits for actions under way.
  ~ModelEngine();
  ModelEngine(const ModelEngine&) = delete;
  ModelEngine& operator=(const ModelEngine&) = delete;

  // Plans and queues a request; never blocks on other requests and decodes nothing. OK: exactly one
  // terminal event will come. Otherwise nothing comes and borrowed memory is not kept:
  // INVALID_ARGUMENT names the part and the fault; RESOURCE_EXHAUSTED names size, limit and option;
  // FAILED_PRECONDITION after Drain or Abort. [any-thread]
  absl::StatusOr<RequestId> Submit(const ModelRequest& request);
  // The same as rserve::RenderChat with the checkpoint's own chat template (chat_template.jinja,
  // chat_template.json or tokenizer_config.json), where it brings one. Control tokens come from the
  // template only. Also: UNIMPLEMENTED, with the construct and its line, where it cannot be
  // rendered. [any-thread]
  absl::StatusOr<std::vector<RequestPart>> RenderChat(std::vector<ChatMessage> messages,
                                                      bool number_images = false) const;

  // The plan alone. A malformed request gives INVALID_ARGUMENT, one that is too large even to be
  // planned (max_image_pixels, input_bytes, max_prompt_tokens) RESOURCE_EXHAUSTED; for any other
  // limit of the engine see `fits`. [any-thread]
  absl::StatusOr<RequestPreview> PlanRequest(const ModelRequest& request) const;

  // As Engine's. Poll also brings the requests' details up to date. Poll: [one thread], the others
  // [any-thread].
  int64_t Poll(int64_t capacity, std::vector<Event>* events);
  absl::Status Cancel(RequestId request);
  void Drain();
  void Abort();
  int wait_fd() const;
  TimeNs next_deadline_ns() const;
  OrchestratorStats stats() const;
  EmbeddingCacheStats embedding_cache_stats() const;    // [any-thread]
  DeviceEmbeddingStats device_embedding_stats() const;  // [any-thread]
  bool idle() const;

  // A snapshot, valid on its own. NOT_FOUND for a request that was never accepted or is
  // acknowledged. Complete once Poll has returned the terminal event. [any-thread]
  absl::StatusOr<std::shared_ptr<const RequestDetail>> Detail(RequestId request) const;
  // Forgets the detail of an ended request. FAILED_PRECONDITION before its terminal event was
  // polled, NOT_FOUND as Detail. [any-thread]
  absl::Status Acknowledge(RequestId request);

  const ModelInfo& info() const;
  // The bytes of the tokens; may begin or end inside a UTF-8 character. [any-thread]
  std::string Decode(absl::Span<const int32_t> ids) const;

 private:
  class Impl;
  explicit ModelEngine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rserve

#endif  // RSERVE_CC_MODEL_ENGINE_H_
