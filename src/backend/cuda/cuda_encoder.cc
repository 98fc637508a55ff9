// The vision tower on a device: patches to embedding rows.

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "kernels/activation/activation_cuda.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/attention/attention_plan.h"
#include "kernels/convert/convert_cuda.h"
#include "kernels/rmsnorm/rmsnorm_cuda.h"
#include "kernels/rotary/rotary.h"
#include "kernels/rotary/rotary_cuda.h"
#include "src/backend/cuda/carver.h"
#include "src/backend/cuda/graphs.h"
#include "src/backend/cuda/in_flight.h"
#include "src/backend/cuda/loaded_model.h"
#include "src/backend/cuda/queue.h"
#include "src/backend/cuda/self_check.h"
#include "src/backend/cuda/staging.h"
#include "src/backend/plan/row_store.h"
#include "src/backend/plan/vision_plan.h"

namespace rserve::cuda {

namespace {

namespace kc = kernels::cuda;

// The merger's norm has the reference's fixed epsilon, as the blocks' norms have.
constexpr float kVisionNormEps = 1e-6f;

class CudaEncoder final : public backend::EncoderBackend {
 public:
  CudaEncoder(std::shared_ptr<const LoadedModel> model, const EncoderLimits& limits,
              const RoleOptions& options)
      : model_(std::move(model)),
        config_(model_->config().vision),
        limits_(limits),
        options_(options),
        hidden_(Padded(config_.hidden_size)),
        head_(Padded(config_.head_dim())),
        inter_(Padded(config_.intermediate_size)),
        pairs_(config_.head_dim() / 2) {}

  absl::Status Init() {
    if (limits_.max_patches < config_.merge_unit()) {
      return absl::InvalidArgumentError(absl::StrCat("max_patches ", limits_.max_patches,
                                                     " is below one cell of ", config_.merge_unit(),
                                                     " patches"));
    }
    Device* device = model_->device();
    if (absl::Status s = timeline_.Init(device, options_.deterministic, options_.part); !s.ok())
      return s;
    if (options_.fused_attention) {
      if (options_.deterministic) {
        return absl::InvalidArgumentError(
            "fused_attention: a row's bits may depend on its batch, which deterministic excludes");
      }
      auto fused = device->CreateFusedAttention(timeline_.stream());
      if (!fused.ok()) return fused.status();
      fused_ = *std::move(fused);
    }
    if (options_.deterministic) {
      const VisionWeights& w = model_->vision;
      std::vector<CheckedProduct> products = {{&w.patch_embed}, {&w.merger_fc1}, {&w.merger_fc2}};
      if (!w.blocks.empty()) {
        const Block& b = w.blocks[0];
        products.insert(products.end(), {{&b.qkv}, {&b.proj, true}, {&b.gate_up}, {&b.down, true}});
      }
      if (absl::Status s = CheckRowExact(&timeline_, products); !s.ok()) return s;
    }
    if (absl::Status s = ConnectStore(); !s.ok()) return s;
    Carver count(nullptr);
    LayOut(&count);
    auto memory = Memory::Make(device, Memory::Kind::kDevice, count.bytes());
    if (!memory.ok()) return memory.status();
    memory_ = *std::move(memory);
    Carver carve(memory_.data());
    LayOut(&carve);
    // Patches in, embeddings out, never at the same time.
    const int64_t floats = std::max(limits_.max_patches * config_.patch_dim(),
                                    Cells(limits_.max_patches) * config_.out_hidden_size);
    // Maps, positions and the plans of both attentions: at most a window or frame a patch.
    const int64_t patch_bytes =
        4 + 2 * 4 + 4 + 2 * int64_t{sizeof(kc::AttentionSegment) + sizeof(kc::AttentionTile)};
    pieces_.resize(static_cast<size_t>(options_.depth));
    for (Piece& piece : pieces_) {
      auto pinned = Memory::Make(device, Memory::Kind::kPinned, floats * int64_t{sizeof(float)});
      if (!pinned.ok()) return pinned.status();
      piece.pinned = *std::move(pinned);
      if (absl::Status s =
              piece.staging.Init(device, limits_.max_patches * patch_bytes + 16 * 16 + pairs_ * 8);
          !s.ok()) {
        return s;
      }
    }
    // The angle of pair i: the patch's row in the first half of the pairs, its column in the
    // second.
    const int64_t half = pairs_ / 2;
    std::vector<float> inverse(static_cast<size_t>((pairs_ + 1) / 2));
    kernels::InverseFrequencies(10000.0, pairs_, inverse.data());
    for (int64_t i = 0; i < pairs_; ++i) {
      axis_.push_back(i < half ? 0 : 1);
      inverse_.push_back(inverse[static_cast<size_t>(half == 0 ? 0 : i % half)]);
    }
    graphs_.Init(&timeline_, options_.part.percent == 100 ? options_.graph_rows : 0,
                 options_.depth);
    return in_flight_.Init(&timeline_, options_.depth);
  }

  absl::Status Encode(absl::Span<const backend::EncodeUnit> units) override {
    absl::Status result;
    Run(
        units, [&](absl::Status status) { result = std::move(status); }, /*wait=*/true);
    return result;
  }

  void Start(absl::Span<const backend::EncodeUnit> units, backend::Done done) override {
    Run(units, std::move(done), /*wait=*/false);
  }

 private:
  // An attention's tiles on the device.
  struct Plan {
    int64_t num_tiles = 0;
    int64_t num_segments = 0;
    int64_t length = 0;  // of each segment; 0: they differ
    const kc::AttentionSegment* segments = nullptr;
    const kc::AttentionTile* tiles = nullptr;
    bool operator==(const Plan&) const = default;
  };
  // All that a piece's launches are given and that another piece may be given otherwise: the key of
  // a recording (graphs.h). Pointers lead into the staging's device memory.
  struct Inputs {
    int64_t rows = 0;
    Plan windows, frames;
    const int32_t* source_rows = nullptr;  // [rows], of the patches as they came
    const int32_t* target_rows = nullptr;  // [cells], of the embeddings as they go
    const int32_t* positions = nullptr;    // [2][rows]
    const int32_t* axis = nullptr;         // [pairs]
    const float* inverse = nullptr;        // [pairs]
    bool operator==(const Inputs&) const = default;
  };

  // A call: the pieces that it takes are over one after another.
  struct Call {
    backend::Done done;
    absl::Status status;  // the first error of a piece
  };
  // Units that are encoded together, and what is kept for them until they are over.
  struct Piece {
    Memory pinned;  // patches in, embeddings out
    Staging staging;
    std::vector<backend::EncodeUnit> units;
    std::shared_ptr<Call> call;
    bool last = false;  // of its call
  };

  int64_t Cells(int64_t patches) const { return patches / config_.merge_unit(); }

  absl::Status Check(absl::Span<const backend::EncodeUnit> units) const {
    for (size_t i = 0; i < units.size(); ++i) {
      const auto unit = static_cast<int64_t>(i);
      if (absl::Status s = backend::CheckGrid(units[i].grid, unit, config_); !s.ok()) return s;
      if (units[i].patches == nullptr ||
          (units[i].embeddings == nullptr && units[i].stored == nullptr)) {
        return absl::InvalidArgumentError(
            absl::StrCat("unit ", unit, ": patches or embeddings is null"));
      }
      if (absl::Status s = CheckStored(units[i], unit); !s.ok()) return s;
      if (units[i].grid.patches() > limits_.max_patches) {
        return absl::ResourceExhaustedError(absl::StrCat(
            "unit ", unit, " has ", units[i].grid.patches(), " patches; the encoder has room for ",
            limits_.max_patches, " (max_patches)"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckStored(const backend::EncodeUnit& unit, int64_t number) const {
    if (unit.stored == nullptr) return absl::OkStatus();
    const int64_t capacity = options_.embeddings == nullptr ? 0 : options_.embeddings->capacity();
    bool inside = unit.stored->rows() == Cells(unit.grid.patches());
    for (const backend::RowRun& run : unit.stored->runs()) {
      inside = inside && run.begin >= 0 && run.rows >= 0 && run.begin <= capacity - run.rows;
    }
    if (inside) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("unit ", number, " names ", unit.stored->rows(), " stored rows for its ",
                     Cells(unit.grid.patches()), ", in a store of ", capacity));
  }

  absl::Status ConnectStore() {
    const EmbeddingStore* store = options_.embeddings.get();
    if (store == nullptr) return absl::OkStatus();
    if (store->hidden_size() != config_.out_hidden_size) {
      return absl::InvalidArgumentError(absl::StrCat("the store's rows are ", store->hidden_size(),
                                                     " wide, the embeddings ",
                                                     config_.out_hidden_size));
    }
    for (size_t copy = 0; copy < store->copies(); ++copy) {
      if (store->device(copy) == model_->device()) continue;
      if (absl::Status s = model_->device()->ConnectTo(store->device(copy)); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  void Run(absl::Span<const backend::EncodeUnit> units, backend::Done done, bool wait) {
    const absl::Status refused = Check(units);
    if (!refused.ok() || units.empty()) {
      std::move(done)(refused);
      return;
    }
    auto call = std::make_shared<Call>();
    call->done = std::move(done);
    for (size_t first = 0; first < units.size();) {
      size_t end = first;
      int64_t patches = 0;
      while (end < units.size() && patches + units[end].grid.patches() <= limits_.max_patches) {
        patches += units[end].grid.patches();
        ++end;
      }
      const size_t place = in_flight_.Claim();
      Piece& piece = pieces_[place];
      piece.units.assign(units.begin() + first, units.begin() + end);
      piece.call = call;
      piece.last = end == units.size();
      // Also when memory runs out on the way: what is queued uses the place.
      absl::Cleanup settle = [this] { timeline_.Finish().IgnoreError(); };
      absl::Status queued = QueuePiece(&piece, patches);
      std::move(settle).Cancel();
      InFlight::Finish finish = [this, place](absl::Status status) { End(place, status); };
      if (wait) {
        in_flight_.EndAndWait(std::move(queued), std::move(finish));
      } else {
        in_flight_.End(std::move(queued), std::move(finish));
      }
      first = end;
    }
  }

  // The piece is over: its embeddings lie in pinned memory, or not.
  void End(size_t place, const absl::Status& status) {
    Piece& piece = pieces_[place];
    const std::shared_ptr<Call> call = std::move(piece.call);
    call->status.Update(status);
    if (status.ok()) {
      const auto* from = static_cast<const float*>(piece.pinned.data());
      for (const backend::EncodeUnit& unit : piece.units) {
        const int64_t floats = Cells(unit.grid.patches()) * config_.out_hidden_size;
        if (unit.embeddings != nullptr) std::copy_n(from, floats, unit.embeddings);
        from += floats;
      }
    }
    if (piece.last) std::move(call->done)(call->status);
  }

  void LayOut(Carver* carver) {
    const int64_t rows = limits_.max_patches, cells = Cells(rows);
    raw_ = carver->Take<float>(
        std::max(rows * config_.patch_dim(), cells * int64_t{config_.out_hidden_size}));
    patches_ = carver->Take<Bf16>(rows * Padded(config_.patch_dim()));
    x_ = carver->Take<Bf16>(rows * hidden_);
    normed_ = carver->Take<Bf16>(rows * std::max(hidden_, config_.num_heads * head_));
    qkv_ = carver->Take<Bf16>(rows * 3 * config_.num_heads * head_);
    gate_up_ = carver->Take<Bf16>(rows * 2 * inter_);
    act_ = carver->Take<Bf16>(rows * inter_);
    merged_ = carver->Take<Bf16>(cells * Padded(hidden_ * config_.merge_unit()));
    out_ = carver->Take<Bf16>(cells * Padded(config_.out_hidden_size));
    cosine_ = carver->Take<float>(rows * pairs_);
    sine_ = carver->Take<float>(rows * pairs_);
  }

  absl::Status QueuePiece(Piece* piece, int64_t rows) {
    const Turn turn(options_.turns.get(), timeline_);
    Queue queue(&timeline_);
    // What is in flight may still read the tables that this piece would write.
    if (!queue.status().ok()) return queue.status();
    Inputs inputs;
    inputs.rows = rows;
    if (absl::Status s = SendInputs(piece, &inputs, &queue); !s.ok()) return s;
    graphs_.Run(inputs, rows, &queue, [this, &inputs](Queue* to) { RunTower(inputs, to); });
    Store(*piece, Cells(rows), &queue);
    const bool on_host = std::any_of(piece->units.begin(), piece->units.end(),
                                     [](const auto& unit) { return unit.embeddings != nullptr; });
    if (on_host) {
      queue.Copy(piece->pinned.data(), raw_,
                 Cells(rows) * config_.out_hidden_size * int64_t{sizeof(float)});
    }
    return queue.status();
  }

  // The rows of units that have places in the store, from `raw_` to all of its copies.
  void Store(const Piece& piece, int64_t cells, Queue* queue) {
    const bool any = std::any_of(piece.units.begin(), piece.units.end(),
                                 [](const auto& unit) { return unit.stored != nullptr; });
    if (!any) return;
    const EmbeddingStore& store = *options_.embeddings;
    const int64_t width = config_.out_hidden_size;
    // `out_`, in the tower's order until now.
    queue->Launch(kc::RowsToBf16,
                  {raw_, width, nullptr, out_, store.width(), cells, width, store.width()});
    int64_t at = 0;
    for (const backend::EncodeUnit& unit : piece.units) {
      const int64_t rows = Cells(unit.grid.patches());
      if (unit.stored != nullptr) {
        unit.stored->ForEach(0, rows, [&](int64_t row, const backend::RowRun& run) {
          const Bf16* from = out_ + (at + row) * store.width();
          const int64_t bytes = run.rows * store.width() * int64_t{sizeof(Bf16)};
          for (size_t copy = 0; copy < store.copies(); ++copy) {
            queue->CopyTo(store.device(copy), store.Row(copy, run.begin), from, bytes);
          }
        });
      }
      at += rows;
    }
  }

  // From patches to embeddings, both in `raw_`. Depends on the inputs alone, and what does not
  // change.
  void RunTower(const Inputs& inputs, Queue* queue) {
    const int64_t rows = inputs.rows, patch_dim = config_.patch_dim();
    queue->Launch(kc::RowsToBf16, {raw_, patch_dim, inputs.source_rows, patches_, Padded(patch_dim),
                                   rows, patch_dim, Padded(patch_dim)});
    queue->Launch(kc::Angles, {inputs.positions, rows, inputs.axis, inputs.inverse, cosine_, sine_,
                               rows, pairs_});
    queue->Product(model_->vision.patch_embed.Args(rows, patches_, Padded(patch_dim), x_, hidden_));
    for (size_t i = 0; i < model_->vision.blocks.size(); ++i) {
      const auto& full = config_.fullatt_block_indexes;
      const bool whole = std::find(full.begin(), full.end(), static_cast<int32_t>(i)) != full.end();
      RunBlock(model_->vision.blocks[i], whole ? inputs.frames : inputs.windows, rows, queue);
    }

    Norm(model_->vision.merger_norm, rows, queue);
    // The patches of a cell are neighbours: their rows are one row of the merger.
    const int64_t cells = Cells(rows), unit_width = hidden_ * config_.merge_unit();
    const Matrix& fc1 = model_->vision.merger_fc1;
    const Matrix& fc2 = model_->vision.merger_fc2;
    queue->Product(fc1.Args(cells, normed_, unit_width, merged_, fc1.n));
    queue->Launch(kc::Gelu, {merged_, fc1.n, merged_, fc1.n, cells, fc1.n});
    queue->Product(fc2.Args(cells, merged_, fc1.n, out_, fc2.n));
    const int64_t width = config_.out_hidden_size;
    queue->Launch(kc::RowsToF32, {out_, fc2.n, inputs.target_rows, raw_, width, cells, width});
  }

  // Patches, maps, positions and plans.
  absl::Status SendInputs(Piece* piece, Inputs* inputs, Queue* queue) {
    const std::vector<backend::EncodeUnit>& units = piece->units;
    Staging& staging = piece->staging;
    plan_.Clear();
    std::vector<int64_t> first_patch;
    int64_t patches = 0;
    auto* pinned = static_cast<float*>(piece->pinned.data());
    for (size_t i = 0; i < units.size(); ++i) {
      plan_.Append(units[i].grid, static_cast<int32_t>(i), config_);
      first_patch.push_back(patches);
      std::copy_n(units[i].patches, units[i].grid.patches() * config_.patch_dim(),
                  pinned + patches * config_.patch_dim());
      patches += units[i].grid.patches();
    }
    queue->Copy(raw_, pinned, patches * config_.patch_dim() * int64_t{sizeof(float)});

    source_.clear();
    target_.clear();
    places_.assign(plan_.rows.size() * 2, 0);
    for (size_t r = 0; r < plan_.rows.size(); ++r) {
      const backend::VisionPlan::Row& row = plan_.rows[r];
      source_.push_back(
          static_cast<int32_t>(first_patch[static_cast<size_t>(row.unit)] + row.source));
      places_[r] = row.y;
      places_[plan_.rows.size() + r] = row.x;
    }
    for (const backend::VisionPlan::Cell& cell : plan_.cells) {
      target_.push_back(
          static_cast<int32_t>(Cells(first_patch[static_cast<size_t>(cell.unit)]) + cell.target));
    }
    staging.Clear();
    inputs->source_rows = staging.Put(source_);
    inputs->target_rows = staging.Put(target_);
    inputs->positions = staging.Put(places_);
    inputs->axis = staging.Put(axis_);
    inputs->inverse = staging.Put(inverse_);
    inputs->windows = PutPlan(plan_.windows, &staging);
    inputs->frames = PutPlan(plan_.frames, &staging);
    return staging.Send(queue);
  }

  Plan PutPlan(const std::vector<backend::Segment>& from, Staging* staging) {
    segments_.clear();
    for (const backend::Segment& s : from) {
      const auto rows = static_cast<int32_t>(s.count);
      segments_.push_back({s.begin, rows, rows, s.begin});
    }
    kc::PlanAttention(segments_, 1, false, &tiles_);
    Plan plan;
    plan.num_segments = static_cast<int64_t>(from.size());
    const bool equal = std::all_of(from.begin(), from.end(), [&](const backend::Segment& s) {
      return s.count == from[0].count;
    });
    plan.length = equal ? from[0].count : 0;
    plan.num_tiles = static_cast<int64_t>(tiles_.size());
    plan.segments = staging->Put(segments_);
    plan.tiles = staging->Put(tiles_);
    return plan;
  }

  void Norm(const Bf16* weight, int64_t rows, Queue* queue) {
    kc::RmsNormArgs args;
    args.x = x_;
    args.x_stride = hidden_;
    args.weight = weight;
    args.y = normed_;
    args.y_stride = hidden_;
    args.rows = rows;
    args.width = config_.hidden_size;
    args.padded_width = hidden_;
    args.eps = kVisionNormEps;
    queue->Launch(kc::RmsNorm, args);
  }

  void RunBlock(const Block& block, const Plan& plan, int64_t rows, Queue* queue) {
    const int64_t heads = config_.num_heads, width = heads * head_;
    Norm(block.norm1, rows, queue);
    queue->Product(block.qkv.Args(rows, normed_, hidden_, qkv_, 3 * width));
    queue->Launch(kc::Rotary, {qkv_, 3 * width, 2 * heads, head_, config_.head_dim(), cosine_,
                               sine_, rows});  // query heads, then key heads
    kc::AttentionArgs attend;
    attend.q = qkv_;
    attend.k = qkv_ + width;
    attend.v = qkv_ + 2 * width;
    attend.q_stride = attend.kv_stride = 3 * width;
    attend.out = normed_;  // whose norm has been used up
    attend.out_stride = width;
    attend.head_stride = head_;
    attend.head_dim = static_cast<int32_t>(head_);
    attend.kv_heads = config_.num_heads;
    attend.scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim()));
    attend.segments = plan.segments;
    attend.tiles = plan.tiles;
    attend.num_tiles = plan.num_tiles;
    if (!AttendFused(attend, plan, queue)) queue->Launch(kc::AttendSegments, attend);
    ProductArgs proj = block.proj.Args(rows, normed_, width, x_, hidden_);
    proj.residual = x_;
    queue->Product(proj);

    Norm(block.norm2, rows, queue);
    queue->Product(block.gate_up.Args(rows, normed_, hidden_, gate_up_, 2 * inter_));
    queue->Launch(kc::SwiGlu,
                  {gate_up_, gate_up_ + inter_, 2 * inter_, act_, inter_, rows, inter_});
    ProductArgs down = block.down.Args(rows, act_, inter_, x_, hidden_);
    down.residual = x_;
    queue->Product(down);
  }

  // Whether the device's library has taken it.
  bool AttendFused(const kc::AttentionArgs& attend, const Plan& plan, Queue* queue) {
    if (fused_ == nullptr || plan.length == 0 || !queue->status().ok()) return false;
    const absl::Status status = fused_->Run(attend, plan.num_segments, plan.length);
    if (status.code() == absl::StatusCode::kUnimplemented) return false;
    queue->Note(status);
    return true;
  }

  const std::shared_ptr<const LoadedModel> model_;
  const model::VisionConfig& config_;
  const EncoderLimits limits_;
  const RoleOptions options_;
  const int64_t hidden_, head_, inter_;  // padded
  const int64_t pairs_;                  // rotated pairs of a head
  std::vector<int32_t> axis_;            // [pairs]
  std::vector<float> inverse_;

  Memory memory_;
  std::vector<Piece> pieces_;  // by their places
  float* raw_ = nullptr;       // patches as they came; later embeddings as they go
  Bf16* patches_ = nullptr;    // [rows][patch_dim], in window order
  Bf16* x_ = nullptr;          // [rows][hidden], the residual stream
  Bf16* normed_ = nullptr;     // [rows][hidden]; attention's output
  Bf16* qkv_ = nullptr;        // [rows][3][heads][head]
  Bf16* gate_up_ = nullptr;    // [rows][2][inter]
  Bf16* act_ = nullptr;        // [rows][inter]
  Bf16* merged_ = nullptr;     // [cells][merge_unit * hidden]
  Bf16* out_ = nullptr;        // [cells][out_hidden]
  float* cosine_ = nullptr;    // [rows][pairs]
  float* sine_ = nullptr;

  // Of the piece that is being queued.
  backend::VisionPlan plan_;
  std::vector<int32_t> source_, target_, places_;
  std::vector<kc::AttentionSegment> segments_;
  std::vector<kc::AttentionTile> tiles_;

  // Last: its work ends before the memory goes.
  Timeline timeline_;
  std::unique_ptr<FusedAttention> fused_;  // null: not asked for
  Graphs<Inputs> graphs_;
  InFlight in_flight_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<backend::EncoderBackend>> MakeCudaEncoder(
    std::shared_ptr<const CudaModel> model, const EncoderLimits& limits,
    const RoleOptions& options) {
  auto loaded = std::static_pointer_cast<const LoadedModel>(std::move(model));
  if (!loaded->loaded().vision) {
    return absl::FailedPreconditionError("the model was loaded without its vision tower");
  }
  auto encoder = std::make_unique<CudaEncoder>(std::move(loaded), limits, options);
  if (absl::Status s = encoder->Init(); !s.ok()) return s;
  return encoder;
}

}  // namespace rserve::cuda
