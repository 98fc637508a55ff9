// The vision tower: patches to embedding rows.

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/rotary/rotary.h"
#include "src/backend/cpu/compute.h"
#include "src/backend/cpu/cpu_model.h"
#include "src/backend/cpu/weights.h"
#include "src/backend/plan/vision_plan.h"

namespace rserve::cpu {

namespace {

using backend::CheckGrid;
using backend::Segment;
using backend::VisionPlan;

// Units are taken together until they have this many patches; more would only cost memory.
constexpr int64_t kBatchPatches = 4096;
// Rows of the SwiGLU's inner activations held at a time.
constexpr int64_t kMlpRows = 1024;
// The merger's norm has the reference's fixed epsilon, as the blocks' norms have.
constexpr float kVisionNormEps = 1e-6f;

class CpuEncoder final : public backend::EncoderBackend {
 public:
  CpuEncoder(std::shared_ptr<const LoadedModel> model, ThreadPool* pool)
      : model_(std::move(model)),
        config_(model_->config().vision),
        compute_(model_->isa(), pool),
        pairs_(config_.head_dim() / 2),
        inverse_(static_cast<size_t>((pairs_ + 1) / 2)) {
    kernels::InverseFrequencies(10000.0, pairs_, inverse_.data());
  }

  absl::Status Encode(absl::Span<const backend::EncodeUnit> units) override {
    for (size_t i = 0; i < units.size(); ++i) {
      const int64_t unit = static_cast<int64_t>(i);
      if (absl::Status s = CheckGrid(units[i].grid, unit, config_); !s.ok()) return s;
      if (units[i].patches == nullptr || units[i].embeddings == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat("unit ", unit, ": patches or embeddings is null"));
      }
    }
    for (size_t first = 0; first < units.size();) {
      plan_.Clear();
      size_t end = first;
      do {
        plan_.Append(units[end].grid, static_cast<int32_t>(end), config_);
        ++end;
      } while (end < units.size() &&
               static_cast<int64_t>(plan_.rows.size()) + units[end].grid.patches() <=
                   kBatchPatches);
      EncodeTogether(units);
      first = end;
    }
    return absl::OkStatus();
  }

 private:
  // One attention task: queries [query, query + queries) of a segment, for one head.
  struct Task {
    Segment segment;
    int64_t query = 0;
    int64_t queries = 0;
  };

  void EncodeTogether(absl::Span<const backend::EncodeUnit> units) {
    const int64_t rows = static_cast<int64_t>(plan_.rows.size());
    const int64_t hidden = config_.hidden_size;
    Prepare(units, rows);

    kernels::GemmArgs embed = model_->vision.patch_embed.Args(rows, nullptr, 0, x_, hidden);
    embed.x_rows = patch_rows_.data();
    compute_.Product(embed);

    CutTasks(plan_.windows, &window_tasks_);
    CutTasks(plan_.frames, &frame_tasks_);
    for (size_t i = 0; i < model_->vision.blocks.size(); ++i) {
      const auto& full = config_.fullatt_block_indexes;
      const bool whole = std::find(full.begin(), full.end(), static_cast<int32_t>(i)) != full.end();
      RunBlock(model_->vision.blocks[i], whole ? frame_tasks_ : window_tasks_, rows);
    }

    Norm(model_->vision.merger_norm, rows);
    // The patches of a cell are neighbours: their rows are one row of the merger.
    const int64_t cells = rows / config_.merge_unit();
    const int64_t merged = hidden * config_.merge_unit();
    kernels::GemmArgs fc1 = model_->vision.merger_fc1.Args(cells, normed_, merged, x_, merged);
    fc1.activation = kernels::Activation::kGelu;
    compute_.Product(fc1);
    kernels::GemmArgs fc2 = model_->vision.merger_fc2.Args(cells, x_, merged, nullptr, 0);
    fc2.y_rows = cell_rows_.data();
    compute_.Product(fc2);
  }

  void Prepare(absl::Span<const backend::EncodeUnit> units, int64_t rows) {
    const int64_t hidden = config_.hidden_size;
    x_ = x_buffer_.Reserve(rows * hidden);
    normed_ = normed_buffer_.Reserve(rows * hidden);
    qkv_ = qkv_buffer_.Reserve(rows * 3 * hidden);
    act_ = act_buffer_.Reserve(std::min(rows, kMlpRows) * config_.intermediate_size);
    cosine_ = cosine_buffer_.Reserve(rows * pairs_);
    sine_ = sine_buffer_.Reserve(rows * pairs_);
    patch_rows_.resize(static_cast<size_t>(rows));
    cell_rows_.resize(plan_.cells.size());
    compute_.Rows(rows, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const VisionPlan::Row& row = plan_.rows[static_cast<size_t>(r)];
        const backend::EncodeUnit& unit = units[static_cast<size_t>(row.unit)];
        patch_rows_[static_cast<size_t>(r)] = unit.patches + row.source * config_.patch_dim();
        kernels::VisionAngles(row.y, row.x, inverse_.data(), pairs_, cosine_ + r * pairs_,
                              sine_ + r * pairs_);
      }
    });
    for (size_t c = 0; c < plan_.cells.size(); ++c) {
      const VisionPlan::Cell& cell = plan_.cells[c];
      cell_rows_[c] =
          units[static_cast<size_t>(cell.unit)].embeddings + cell.target * config_.out_hidden_size;
    }
  }

  void CutTasks(const std::vector<Segment>& segments, std::vector<Task>* tasks) const {
    const int64_t most = compute_.isa().attention_block_rows;
    tasks->clear();
    for (const Segment& segment : segments) {
      const int64_t parts = (segment.count + most - 1) / most;
      for (int64_t i = 0; i < parts; ++i) {
        const int64_t begin = segment.count * i / parts;
        tasks->push_back({segment, begin, segment.count * (i + 1) / parts - begin});
      }
    }
  }

  void Norm(const std::vector<float>& weight, int64_t rows) {
    const int64_t hidden = config_.hidden_size;
    compute_.Norm({x_, hidden, weight.data(), kVisionNormEps, hidden, normed_, hidden}, rows);
  }

  void RunBlock(const VisionBlock& block, const std::vector<Task>& tasks, int64_t rows) {
    const int64_t hidden = config_.hidden_size;
    Norm(block.norm1, rows);
    compute_.Product(block.qkv.Args(rows, normed_, hidden, qkv_, 3 * hidden));
    kernels::RotaryArgs rotary{qkv_,    3 * hidden, 2 * config_.num_heads, config_.head_dim(),
                               cosine_, sine_};  // query heads, then key heads
    compute_.Rows(rows, [&](int64_t begin, int64_t end) {
      kernels::Rotary(compute_.isa(), rotary, begin, end);
    });
    Attend(tasks);
    kernels::GemmArgs proj = block.proj.Args(rows, normed_, hidden, x_, hidden);
    proj.residual = x_;
    compute_.Product(proj);

    Norm(block.norm2, rows);
    const int64_t inter = config_.intermediate_size;
    for (int64_t begin = 0; begin < rows; begin += kMlpRows) {
      const int64_t count = std::min(kMlpRows, rows - begin);
      compute_.Product(block.gate_up.Args(count, normed_ + begin * hidden, hidden, act_, inter));
      kernels::GemmArgs down = block.down.Args(count, act_, inter, x_ + begin * hidden, hidden);
      down.residual = down.y;
      compute_.Product(down);
    }
  }

  // Attention output goes to `normed_`, whose norm has been used up.
  void Attend(const std::vector<Task>& tasks) {
    const int64_t hidden = config_.hidden_size;
    const int64_t heads = config_.num_heads;
    compute_.Tasks(static_cast<int64_t>(tasks.size()) * heads, [&](int64_t i, float* scratch) {
      const Task& task = tasks[static_cast<size_t>(i / heads)];
      const int64_t column = i % heads * config_.head_dim();
      const float* segment = qkv_ + task.segment.begin * 3 * hidden + column;
      kernels::AttentionRows rows;
      rows.head_dim = config_.head_dim();
      rows.scale = Scale();
      rows.queries = task.queries;
      rows.q = segment + task.query * 3 * hidden;
      rows.q_stride = 3 * hidden;
      rows.out = normed_ + (task.segment.begin + task.query) * hidden + column;
      rows.out_stride = hidden;
      rows.limit = task.segment.count;
      rows.k = segment + hidden;
      rows.v = segment + 2 * hidden;
      rows.kv_stride = 3 * hidden;
      kernels::AttendRows(compute_.isa(), rows, scratch);
    });
  }

  float Scale() const { return 1.0f / std::sqrt(static_cast<float>(config_.head_dim())); }

  const std::shared_ptr<const LoadedModel> model_;
  const model::VisionConfig& config_;
  Compute compute_;
  const int64_t pairs_;  // rotated pairs of a head
  std::vector<float> inverse_;

  // Scratch of one Encode; grows to the largest seen.
  VisionPlan plan_;
  std::vector<Task> window_tasks_, frame_tasks_;
  std::vector<const float*> patch_rows_;
  std::vector<float*> cell_rows_;
  FloatBuffer x_buffer_, normed_buffer_, qkv_buffer_, act_buffer_, cosine_buffer_, sine_buffer_;
  float* x_ = nullptr;       // [rows][hidden], the residual stream; later the merger's inner rows
  float* normed_ = nullptr;  // [rows][hidden]
  float* qkv_ = nullptr;     // [rows][3][heads][head_dim]
  float* act_ = nullptr;     // [kMlpRows][intermediate]
  float* cosine_ = nullptr;  // [rows][pairs]
  float* sine_ = nullptr;
};

}  // namespace

std::unique_ptr<backend::EncoderBackend> MakeCpuEncoder(std::shared_ptr<const CpuModel> model,
                                                        ThreadPool* pool) {
  return std::make_unique<CpuEncoder>(std::static_pointer_cast<const LoadedModel>(std::move(model)),
                                      pool);
}

}  // namespace rserve::cpu
