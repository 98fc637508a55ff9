// One pipeline stage of the language model on a device, over a micro-batch.

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "kernels/activation/activation_cuda.h"
#include "kernels/argmax/argmax_cuda.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/convert/convert_cuda.h"
#include "kernels/embedding/embedding_cuda.h"
#include "kernels/kv_write/kv_write_cuda.h"
#include "kernels/rmsnorm/rmsnorm_cuda.h"
#include "kernels/rotary/rotary_cuda.h"
#include "src/backend/cuda/carver.h"
#include "src/backend/cuda/graphs.h"
#include "src/backend/cuda/in_flight.h"
#include "src/backend/cuda/loaded_model.h"
#include "src/backend/cuda/queue.h"
#include "src/backend/cuda/self_check.h"
#include "src/backend/cuda/stage_tables.h"
#include "src/backend/cuda/staging.h"
#include "src/backend/plan/stage_check.h"

namespace rserve::cuda {

namespace {

namespace kc = kernels::cuda;
using backend::StageEntry;
using backend::StageWork;

// Rows of the SwiGLU's inner activations held at a time: enough for products to run at full speed.
constexpr int64_t kMlpRows = 4096;

class CudaStage final : public backend::StageBackend {
 public:
  CudaStage(std::shared_ptr<const LoadedModel> model, LayerRange layers, const KvGeometry& kv,
            const StageLimits& limits, const RoleOptions& options, StageLinks links)
      : model_(std::move(model)),
        config_(model_->config().text),
        shard_(model_->shard()),
        links_(std::move(links)),
        layers_(layers),
        kv_(kv),
        limits_(limits),
        options_(options),
        role_{
            layers.begin == 0, layers.end == config_.num_layers,
            layers.begin == 0 && options.embeddings != nullptr ? options.embeddings->capacity() : 0,
            layers.end == config_.num_layers && model_->loaded().ranks == 1},
        hidden_(Padded(config_.hidden_size)),
        head_(Padded(config_.head_dim)),
        inter_(Padded(shard_.inter.count)),
        vocab_(Padded(shard_.vocab.count)),
        qkv_width_((shard_.heads.count + 2 * shard_.kv_heads.count) * head_),
        attention_width_(shard_.heads.count * head_),
        pairs_(config_.head_dim / 2),
        tables_(config_, kv, role_, shard_.heads.count / shard_.kv_heads.count) {}

  absl::Status Init() {
    if (absl::Status s = CheckSizes(); !s.ok()) return s;
    Device* device = model_->device();
    if (absl::Status s = timeline_.Init(device, options_.deterministic, options_.part); !s.ok())
      return s;
    if (options_.deterministic) {
      const Block& b = model_->layer(layers_.begin);
      const bool residual = !Parallel();
      std::vector<CheckedProduct> products = {
          {&b.qkv}, {&b.proj, residual}, {&b.gate_up}, {&b.down, residual}};
      if (role_.last) products.push_back({&model_->text.head, false, true});
      if (absl::Status s = CheckRowExact(&timeline_, products); !s.ok()) return s;
    }
    Carver count(nullptr);
    LayOut(&count);
    auto memory = Memory::Make(device, Memory::Kind::kDevice, count.bytes());
    if (!memory.ok()) return memory.status();
    memory_ = *std::move(memory);
    Carver carve(memory_.data());
    LayOut(&carve);
    auto cache = Memory::Make(device, Memory::Kind::kDevice,
                              (layers_.end - layers_.begin) * layer_cache_ * int64_t{sizeof(Bf16)});
    if (!cache.ok()) return cache.status();
    cache_ = *std::move(cache);
    const int64_t last_rows = role_.last ? limits_.max_logit_rows : 0;
    pinned_floats_ =
        std::max(limits_.max_tokens * config_.hidden_size, last_rows * shard_.vocab.count);
    const int64_t pinned_bytes =
        pinned_floats_ * int64_t{sizeof(float)} + last_rows * int64_t{sizeof(kc::Likeliest)};
    const int64_t bytes = tables_.StagingBytes(limits_.max_tokens, limits_.max_entries);
    pieces_.resize(static_cast<size_t>(options_.depth));
    for (Piece& piece : pieces_) {
      auto pinned = Memory::Make(device, Memory::Kind::kPinned, pinned_bytes);
      if (!pinned.ok()) return pinned.status();
      piece.pinned = *std::move(pinned);
      if (absl::Status s = piece.staging.Init(device, bytes); !s.ok()) return s;
    }
    const bool graphs = !Parallel() && options_.part.percent == 100;
    graphs_.Init(&timeline_, graphs ? options_.graph_rows : 0, options_.depth);
    return in_flight_.Init(&timeline_, options_.depth);
  }

  absl::Status Forward(const StageWork& work) override {
    absl::Status result;
    Run(
        work, [&](absl::Status status) { result = std::move(status); }, /*wait=*/true);
    return result;
  }

  void Start(const StageWork& work, backend::Done done) override {
    Run(work, std::move(done), /*wait=*/false);
  }

  bool FindsLikeliest() const override { return role_.finds_likeliest; }

  void Forget(uint64_t micro_batch) override {
    if (links_.before != nullptr) links_.before->Forget(micro_batch);
  }

 private:
  // Where the results of a prompt's last row go; what is null is not wanted.
  struct LastRow {
    float* logits = nullptr;
    backend::Likeliest* likeliest = nullptr;
  };

  // A micro-batch, and what is kept for it until it is over.
  struct Piece {
    Memory pinned;  // rows in, rows or logits out: `pinned_floats_`; behind them the chosen tokens
    Staging staging;
    float* hidden_out = nullptr;  // where the rows go: [rows][hidden]; null: nowhere on the host
    int64_t rows = 0;
    std::vector<LastRow> last_rows;  // whose results lie in `pinned`
    backend::Done done;
  };

  absl::Status Check(const StageWork& work) const {
    if (absl::Status s = backend::CheckStageWork(work, config_, kv_, role_); !s.ok()) return s;
    const auto entries = static_cast<int64_t>(work.entries.size());
    if (work.total_tokens <= limits_.max_tokens && entries <= limits_.max_entries) {
      return absl::OkStatus();
    }
    return absl::ResourceExhaustedError(
        absl::StrCat("a micro-batch of ", work.total_tokens, " tokens in ", entries,
                     " entries; the stage has room for ", limits_.max_tokens, " (max_tokens) in ",
                     limits_.max_entries, " (max_entries)"));
  }

  void Run(const StageWork& work, backend::Done done, bool wait) {
    const absl::Status refused = Check(work);
    if (!refused.ok() || work.total_tokens == 0) {
      std::move(done)(refused);
      return;
    }
    const size_t place = in_flight_.Claim();
    Piece& piece = pieces_[place];
    piece.done = std::move(done);
    piece.hidden_out = role_.last || links_.after != nullptr ? nullptr : work.hidden_out;
    piece.rows = work.total_tokens;
    piece.last_rows.clear();
    // Also when memory runs out on the way: what is queued uses the place.
    absl::Cleanup settle = [this] { timeline_.Finish().IgnoreError(); };
    absl::Status queued = QueuePiece(work, &piece);
    std::move(settle).Cancel();
    InFlight::Finish finish = [this, place](absl::Status status) { End(place, std::move(status)); };
    if (wait) {
      in_flight_.EndAndWait(std::move(queued), std::move(finish));
    } else {
      in_flight_.End(std::move(queued), std::move(finish));
    }
  }

  absl::Status QueuePiece(const StageWork& work, Piece* piece) {
    const Turn turn(options_.turns.get(), timeline_);
    Queue queue(&timeline_);
    // What is in flight may still read the tables that this piece would write.
    if (!queue.status().ok()) return queue.status();
    if (absl::Status s = SendInputs(work, piece, &queue); !s.ok()) return s;
    const LayerInputs& inputs = tables_.layers();
    graphs_.Run(inputs, inputs.rows, &queue, [this, &inputs](Queue* to) { RunLayers(inputs, to); });
    return role_.last ? Logits(work, piece, &queue) : HiddenOut(work, piece, &queue);
  }

  // Depends on the inputs alone, and what does not change.
  void RunLayers(const LayerInputs& inputs, Queue* queue) {
    for (int32_t i = layers_.begin; i < layers_.end; ++i) {
      RunLayer(model_->layer(i), i - layers_.begin, inputs, queue);
    }
    if (Parallel()) {
      // The last sum; its norm is nobody's.
      Norm(x_, partial_, model_->layer(layers_.end - 1).norm2, inputs.rows, queue);
    }
  }

  absl::Status HiddenOut(const StageWork& work, Piece* piece, Queue* queue) {
    const int64_t rows = work.total_tokens, width = config_.hidden_size;
    if (links_.after != nullptr) {
      if (!queue->status().ok()) return queue->status();
      return links_.after->Send(work.micro_batch, work.first_row, rows, x_, timeline_.stream());
    }
    queue->Launch(kc::RowsToF32, {x_, hidden_, nullptr, raw_, width, rows, width});
    queue->Copy(piece->pinned.data(), raw_, rows * width * int64_t{sizeof(float)});
    return queue->status();
  }

  // The piece is over: its results lie in pinned memory, or not.
  void End(size_t place, absl::Status status) {
    Piece& piece = pieces_[place];
    if (status.ok()) TakeResults(&piece);
    backend::Done done = std::move(piece.done);
    std::move(done)(std::move(status));
  }

  void TakeResults(Piece* piece) const {
    const auto* from = static_cast<const float*>(piece->pinned.data());
    if (piece->hidden_out != nullptr) {
      std::copy_n(from, piece->rows * config_.hidden_size, piece->hidden_out);
    }
    const kc::Likeliest* chosen = Chosen(*piece);
    for (const LastRow& last : piece->last_rows) {
      if (last.likeliest != nullptr) *last.likeliest = {chosen->index, chosen->log_probability};
      ++chosen;
      if (last.logits == nullptr) continue;
      std::copy_n(from, shard_.vocab.count, last.logits + shard_.vocab.begin);
      from += shard_.vocab.count;
    }
  }

  // A place for each row that the head takes at once.
  kc::Likeliest* Chosen(const Piece& piece) const {
    return reinterpret_cast<kc::Likeliest*>(static_cast<float*>(piece.pinned.data()) +
                                            pinned_floats_);
  }

  int64_t Group() const { return shard_.heads.count / shard_.kv_heads.count; }
  bool Parallel() const { return model_->loaded().ranks > 1; }
  size_t Rank() const { return static_cast<size_t>(model_->loaded().rank); }

  absl::Status CheckSizes() {
    const LoadOptions& loaded = model_->loaded();
    if (layers_.end <= layers_.begin || layers_.begin < loaded.layers.begin ||
        layers_.end > loaded.layers.end) {
      return absl::InvalidArgumentError(
          absl::StrCat("layers ", layers_.begin, " .. ", layers_.end, " are not a part of the ",
                       loaded.layers.begin, " .. ", loaded.layers.end, " that were loaded"));
    }
    if (Parallel() != (links_.collective != nullptr)) {
      return absl::InvalidArgumentError(absl::StrCat("a stage of ", loaded.ranks, " ranks ",
                                                     Parallel() ? "needs a" : "has no",
                                                     " collective"));
    }
    if (absl::Status s = CheckStore(); !s.ok()) return s;
    if (kv_.num_blocks < 1 || kv_.block_tokens < 1 || limits_.max_tokens < 1 ||
        limits_.max_entries < 1 || limits_.max_logit_rows < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("num_blocks ", kv_.num_blocks, ", block_tokens ", kv_.block_tokens,
                       ", max_tokens ", limits_.max_tokens, ", max_entries ", limits_.max_entries,
                       " and max_logit_rows ", limits_.max_logit_rows, " must be at least 1"));
    }
    bool overflow = __builtin_mul_overflow(2 * head_ * shard_.kv_heads.count,
                                           int64_t{kv_.block_tokens}, &layer_cache_);
    overflow |= __builtin_mul_overflow(layer_cache_, int64_t{kv_.num_blocks}, &layer_cache_);
    int64_t bytes = 0;
    overflow |= __builtin_mul_overflow(
        layer_cache_, (layers_.end - layers_.begin) * int64_t{sizeof(Bf16)}, &bytes);
    if (overflow) {
      return absl::ResourceExhaustedError(absl::StrCat("no memory for a KV cache of ",
                                                       kv_.num_blocks, " blocks (num_blocks) of ",
                                                       kv_.block_tokens, " tokens (block_tokens)"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckStore() const {
    const EmbeddingStore* store = options_.embeddings.get();
    if (role_.stored_rows == 0) return absl::OkStatus();
    if (store->hidden_size() == config_.hidden_size && Rank() < store->copies() &&
        store->device(Rank()) == model_->device()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "a store of rows ", store->hidden_size(), " wide on ", store->copies(),
        " devices is not rank ", Rank(), "'s of a model ", config_.hidden_size, " wide"));
  }

  void LayOut(Carver* carver) {
    const int64_t rows = limits_.max_tokens;
    const int64_t logits = role_.last ? limits_.max_logit_rows : 0;
    raw_ = carver->Take<float>(rows * config_.hidden_size);
    items_ = carver->Take<Bf16>(role_.first ? rows * hidden_ : 0);
    x_ = carver->Take<Bf16>(rows * hidden_);
    normed_ = carver->Take<Bf16>(std::max(rows, logits) * hidden_);
    qkv_ = carver->Take<Bf16>(rows * qkv_width_);
    attention_ = carver->Take<Bf16>(rows * attention_width_);
    gate_up_ = carver->Take<Bf16>(std::min(rows, kMlpRows) * 2 * inter_);
    act_ = carver->Take<Bf16>(std::min(rows, kMlpRows) * inter_);
    partial_ = carver->Take<Bf16>(Parallel() ? rows * hidden_ : 0);
    cosine_ = carver->Take<float>(rows * pairs_);
    sine_ = carver->Take<float>(rows * pairs_);
    logits_ = carver->Take<float>(logits * vocab_);
    gathered_ = carver->Take<Bf16>(logits * hidden_);
    likeliest_ = carver->Take<kc::Likeliest>(logits);
  }

  // The tables of the micro-batch, and its rows as they are before the first layer.
  absl::Status SendInputs(const StageWork& work, Piece* piece, Queue* queue) {
    const int64_t rows = work.total_tokens, width = config_.hidden_size;
    auto* pinned = static_cast<float*>(piece->pinned.data());
    StageTables::ItemPlaces places = {pinned, items_, nullptr, hidden_};
    if (role_.stored_rows > 0) places.stored = options_.embeddings->Row(Rank(), 0);
    if (absl::Status s = tables_.Send(work, places, &piece->staging, queue); !s.ok()) return s;
    const RowInputs& inputs = tables_.rows();
    queue->Launch(kc::Angles, {inputs.positions, rows, inputs.axis, inputs.inverse, cosine_, sine_,
                               rows, pairs_});
    if (role_.first) {
      FromOutside(pinned, tables_.item_rows(), items_, queue);
      queue->Launch(kc::Embedding, {model_->text.embedding, hidden_, inputs.sources, inputs.items,
                                    hidden_, x_, hidden_, rows, hidden_});
    } else if (links_.before != nullptr) {
      queue->Note(
          links_.before->Receive(work.micro_batch, work.first_row, rows, x_, timeline_.stream()));
    } else {
      std::copy_n(work.hidden_in, rows * width, pinned);
      FromOutside(pinned, rows, x_, queue);
    }
    return queue->status();
  }

  // Rows of f32 from pinned memory, rounded.
  void FromOutside(const float* pinned, int64_t rows, Bf16* to, Queue* queue) {
    const int64_t width = config_.hidden_size;
    queue->Copy(raw_, pinned, rows * width * int64_t{sizeof(float)});
    queue->Launch(kc::RowsToBf16, {raw_, width, nullptr, to, hidden_, rows, width, hidden_});
  }

  // The norm of x, or of x + delta, which then becomes x.
  void Norm(Bf16* x, const Bf16* delta, const Bf16* weight, int64_t rows, Queue* queue) {
    kc::RmsNormArgs args;
    args.x = x;
    args.x_stride = hidden_;
    args.delta = delta;
    args.delta_stride = hidden_;
    args.sum = delta == nullptr ? nullptr : x;
    args.sum_stride = hidden_;
    args.weight = weight;
    args.y = normed_;
    args.y_stride = hidden_;
    args.rows = rows;
    args.width = config_.hidden_size;
    args.padded_width = hidden_;
    args.eps = config_.rms_norm_eps;
    queue->Launch(kc::RmsNorm, args);
  }

  // x += the product, or its share of the product into `partial_`, for `Reduce`.
  void Add(ProductArgs product, int64_t begin, Queue* queue) {
    if (Parallel()) {
      product.y = partial_ + begin * hidden_;
    } else {
      product.y = x_ + begin * hidden_;
      product.residual = product.y;
    }
    queue->Product(product);
  }
  void Reduce(int64_t rows, Queue* queue) {
    if (Parallel()) queue->AllReduce(links_.collective.get(), partial_, rows * hidden_);
  }

  void RunLayer(const Block& layer, int64_t index, const LayerInputs& inputs, Queue* queue) {
    const int64_t rows = inputs.rows;
    // What the layer before has left to be added.
    Norm(x_, Parallel() && index > 0 ? partial_ : nullptr, layer.norm1, rows, queue);
    queue->Product(layer.qkv.Args(rows, normed_, hidden_, qkv_, qkv_width_));
    queue->Launch(kc::Rotary, {qkv_, qkv_width_, shard_.heads.count + shard_.kv_heads.count, head_,
                               config_.head_dim, cosine_, sine_, rows});
    Attend(index, inputs, queue);
    Add(layer.proj.Args(rows, attention_, attention_width_, nullptr, hidden_), 0, queue);
    Reduce(rows, queue);

    Norm(x_, Parallel() ? partial_ : nullptr, layer.norm2, rows, queue);
    for (int64_t begin = 0; begin < rows; begin += kMlpRows) {
      const int64_t count = std::min(kMlpRows, rows - begin);
      queue->Product(
          layer.gate_up.Args(count, normed_ + begin * hidden_, hidden_, gate_up_, 2 * inter_));
      queue->Launch(kc::SwiGlu,
                    {gate_up_, gate_up_ + inter_, 2 * inter_, act_, inter_, count, inter_});
      Add(layer.down.Args(count, act_, inter_, nullptr, hidden_), begin, queue);
    }
    Reduce(rows, queue);
  }

  // All of the micro-batch is in the cache before any of it attends.
  void Attend(int64_t layer, const LayerInputs& inputs, Queue* queue) {
    Bf16* cache = static_cast<Bf16*>(cache_.data()) + layer * layer_cache_;
    kc::KvWriteArgs write;
    write.k = qkv_ + attention_width_;
    write.v = write.k + shard_.kv_heads.count * head_;
    write.stride = qkv_width_;
    write.head_stride = head_;
    write.kv_heads = shard_.kv_heads.count;
    write.slots = inputs.slots;
    write.cache = cache;
    write.block_tokens = kv_.block_tokens;
    write.rows = inputs.rows;
    queue->Launch(kc::KvWrite, write);
    kc::AttentionArgs attend;
    attend.q = qkv_;
    attend.q_stride = qkv_width_;
    attend.out = attention_;
    attend.out_stride = attention_width_;
    attend.head_stride = head_;
    attend.head_dim = static_cast<int32_t>(head_);
    attend.kv_heads = static_cast<int32_t>(shard_.kv_heads.count);
    attend.group = static_cast<int32_t>(Group());
    attend.scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim));
    attend.segments = inputs.segments;
    attend.tiles = inputs.tiles;
    attend.num_tiles = inputs.num_tiles;
    attend.cache = cache;
    attend.cache_stride = head_;
    attend.block_table = inputs.table;
    attend.block_tokens = kv_.block_tokens;
    queue->Launch(kc::AttendPaged, attend);
  }

  // The final norm and the head, for the last rows of the entries that want logits only. What does
  // not fit the arena together is waited for, but for the last part.
  absl::Status Logits(const StageWork& work, Piece* piece, Queue* queue) {
    std::vector<LastRow> wanted;
    for (const StageEntry& e : work.entries) {
      if (e.want_logits) wanted.push_back({e.logits, e.likeliest});
    }
    const auto count = static_cast<int64_t>(wanted.size());
    for (int64_t begin = 0; begin < count; begin += limits_.max_logit_rows) {
      if (begin > 0) {
        if (absl::Status s = queue->Finish(); !s.ok()) return s;
        TakeResults(piece);
      }
      const int64_t rows = std::min(limits_.max_logit_rows, count - begin);
      piece->last_rows.assign(wanted.begin() + begin, wanted.begin() + begin + rows);
      QueueLogits(begin, *piece, queue);
    }
    return queue->status();
  }

  // Logits cross the bus where they are wanted themselves, else the chosen tokens alone.
  void QueueLogits(int64_t begin, const Piece& piece, Queue* queue) {
    const auto rows = static_cast<int64_t>(piece.last_rows.size());
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t row = tables_.last_rows()[static_cast<size_t>(begin + i)];
      queue->Copy(gathered_ + i * hidden_, x_ + row * hidden_, hidden_ * int64_t{sizeof(Bf16)});
    }
    Norm(gathered_, nullptr, model_->text.norm, rows, queue);
    ProductArgs head = model_->text.head.Args(rows, normed_, hidden_, nullptr, vocab_);
    head.y_f32 = logits_;
    queue->Product(head);
    const int64_t vocab = shard_.vocab.count;
    auto* to = static_cast<float*>(piece.pinned.data());
    bool choose = false;
    for (int64_t i = 0; i < rows; ++i) {
      const LastRow& last = piece.last_rows[static_cast<size_t>(i)];
      choose = choose || last.likeliest != nullptr;
      if (last.logits == nullptr) continue;
      queue->Copy(to, logits_ + i * vocab_, vocab * int64_t{sizeof(float)});
      to += vocab;
    }
    if (!choose) return;
    queue->Launch(kc::ArgMax, {logits_, vocab_, likeliest_, rows, vocab});
    queue->Copy(Chosen(piece), likeliest_, rows * int64_t{sizeof(kc::Likeliest)});
  }

  const std::shared_ptr<const LoadedModel> model_;
  const model::TextConfig& config_;
  const TextShard& shard_;
  const StageLinks links_;
  const LayerRange layers_;
  const KvGeometry kv_;
  const StageLimits limits_;
  const RoleOptions options_;
  const backend::StageRole role_;
  const int64_t hidden_, head_, inter_, vocab_;  // padded
  const int64_t qkv_width_;                      // query heads, key heads, value heads
  const int64_t attention_width_;                // query heads
  const int64_t pairs_;                          // rotated pairs of a head
  int64_t layer_cache_ = 0;                      // elements of one layer's cache
  int64_t pinned_floats_ = 0;
  StageTables tables_;  // of the micro-batch that is being queued

  Memory memory_, cache_;
  std::vector<Piece> pieces_;  // by their places
  float* raw_ = nullptr;       // [rows][hidden], unpadded: what comes from outside and goes out
  Bf16* items_ = nullptr;      // [rows][hidden], of the items (first stage)
  Bf16* x_ = nullptr;          // [rows][hidden], the residual stream
  Bf16* normed_ = nullptr;     // [rows][hidden]
  Bf16* qkv_ = nullptr;        // [rows][qkv_width]
  Bf16* attention_ = nullptr;  // [rows][attention_width]
  Bf16* gate_up_ = nullptr;    // [kMlpRows][2][inter]
  Bf16* act_ = nullptr;        // [kMlpRows][inter]
  Bf16* partial_ = nullptr;    // [rows][hidden], this rank's part of a sum (several ranks)
  float* cosine_ = nullptr;    // [rows][pairs]
  float* sine_ = nullptr;
  float* logits_ = nullptr;             // [max_logit_rows][vocab]
  Bf16* gathered_ = nullptr;            // [max_logit_rows][hidden], the rows that want logits
  kc::Likeliest* likeliest_ = nullptr;  // [max_logit_rows], of logits_

  // Last: its work ends before the memory goes.
  Timeline timeline_;
  Graphs<LayerInputs> graphs_;
  InFlight in_flight_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<backend::StageBackend>> MakeCudaStage(
    std::shared_ptr<const CudaModel> model, LayerRange layers, const KvGeometry& kv,
    const StageLimits& limits, const RoleOptions& options, StageLinks links) {
  auto stage =
      std::make_unique<CudaStage>(std::static_pointer_cast<const LoadedModel>(std::move(model)),
                                  layers, kv, limits, options, std::move(links));
  if (absl::Status s = stage->Init(); !s.ok()) return s;
  return stage;
}

}  // namespace rserve::cuda
