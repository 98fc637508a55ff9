// One pipeline stage of the language model over a micro-batch.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/rotary/rotary.h"
#include "src/backend/cpu/compute.h"
#include "src/backend/cpu/cpu_model.h"
#include "src/backend/cpu/kv_cache.h"
#include "src/backend/cpu/weights.h"
#include "src/backend/plan/stage_check.h"

namespace rserve::cpu {

namespace {

using backend::CheckStageWork;
using backend::StageEntry;
using backend::StageRole;
using backend::StageWork;

// Rows of the SwiGLU's inner activations held at a time.
constexpr int64_t kMlpRows = 1024;

class CpuStage final : public backend::StageBackend {
 public:
  CpuStage(std::shared_ptr<const LoadedModel> model, LayerRange layers, const KvGeometry& kv,
           ThreadPool* pool, std::unique_ptr<CpuCollective> collective)
      : model_(std::move(model)),
        config_(model_->config().text),
        shard_(model_->shard()),
        collective_(std::move(collective)),
        layers_(layers),
        compute_(model_->isa(), pool),
        hidden_(config_.hidden_size),
        pairs_(config_.head_dim / 2),
        qkv_width_((shard_.heads.count + 2 * shard_.kv_heads.count) * config_.head_dim),
        attention_width_(shard_.heads.count * config_.head_dim),
        inverse_(static_cast<size_t>(pairs_)) {
    kernels::InverseFrequencies(config_.rope_theta, config_.head_dim, inverse_.data());
    if (layers.begin < 0 || layers.end <= layers.begin || layers.end > config_.num_layers) {
      status_ =
          absl::InvalidArgumentError(absl::StrCat("layers ", layers.begin, " .. ", layers.end,
                                                  " are not a part of 0 .. ", config_.num_layers));
      return;
    }
    if ((model_->ranks() > 1) != (collective_ != nullptr)) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat("a stage of ", model_->ranks(), " ranks ",
                       collective_ == nullptr ? "needs a collective" : "has no collective"));
      return;
    }
    role_ = {layers.begin == 0, layers.end == config_.num_layers};
    status_ = kv_.Init(shard_.kv_heads.count, config_.head_dim, layers.end - layers.begin, kv);
  }

  absl::Status Forward(const StageWork& work) override {
    if (!status_.ok()) return status_;
    if (absl::Status s = CheckStageWork(work, config_, kv_.geometry(), role_); !s.ok()) return s;
    if (work.total_tokens == 0) return absl::OkStatus();
    Prepare(work);
    Input(work);
    for (int32_t i = layers_.begin; i < layers_.end; ++i) {
      absl::Status s =
          RunLayer(model_->text.layers[static_cast<size_t>(i)], i - layers_.begin, work);
      if (!s.ok()) return status_ = std::move(s);
    }
    if (role_.last) Logits(work);
    return absl::OkStatus();
  }

 private:
  // One attention task: queries [query, query + queries) of an entry; times the key-value heads.
  struct Task {
    const StageEntry* entry = nullptr;
    int64_t row = 0;  // first row of the micro-batch
    int64_t query = 0;
    int64_t queries = 0;
  };

  void Prepare(const StageWork& work) {
    const int64_t rows = work.total_tokens;
    // All but the last stage build their result where it is wanted.
    x_ = role_.last ? x_buffer_.Reserve(rows * hidden_) : work.hidden_out;
    normed_ = normed_buffer_.Reserve(rows * hidden_);
    qkv_ = qkv_buffer_.Reserve(rows * qkv_width_);
    attention_ = attention_buffer_.Reserve(rows * attention_width_);
    act_ = act_buffer_.Reserve(std::min(rows, kMlpRows) * shard_.inter.count);
    if (collective_ != nullptr) partial_ = partial_buffer_.Reserve(rows * hidden_);
    cosine_ = cosine_buffer_.Reserve(rows * pairs_);
    sine_ = sine_buffer_.Reserve(rows * pairs_);

    const int64_t group = shard_.heads.count / shard_.kv_heads.count;
    const int64_t most = std::max<int64_t>(compute_.isa().attention_block_rows / group, 1);
    tasks_.clear();
    row_entry_.resize(static_cast<size_t>(rows));
    int64_t row = 0;
    for (const StageEntry& entry : work.entries) {
      const int64_t parts = (entry.count + most - 1) / most;
      for (int64_t i = 0; i < parts; ++i) {
        const int64_t begin = entry.count * i / parts;
        tasks_.push_back({&entry, row, begin, entry.count * (i + 1) / parts - begin});
      }
      for (int64_t t = 0; t < entry.count; ++t) {
        row_entry_[static_cast<size_t>(row + t)] = {&entry, t};
      }
      row += entry.count;
    }
    compute_.Rows(rows, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const auto& [entry, t] = row_entry_[static_cast<size_t>(r)];
        const int32_t positions[3] = {entry->positions[0][t], entry->positions[1][t],
                                      entry->positions[2][t]};
        kernels::MropeAngles(positions, config_.mrope_section.data(),
                             static_cast<int>(config_.mrope_section.size()), inverse_.data(),
                             pairs_, cosine_ + r * pairs_, sine_ + r * pairs_);
      }
    });
  }

  // Token embeddings with the items' rows put over them, or the previous stage's output.
  void Input(const StageWork& work) {
    const size_t row_bytes = static_cast<size_t>(hidden_) * sizeof(float);
    if (!role_.first) {
      if (x_ != work.hidden_in) {
        std::memcpy(x_, work.hidden_in, static_cast<size_t>(work.total_tokens) * row_bytes);
      }
      return;
    }
    compute_.Rows(work.total_tokens, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const auto& [entry, t] = row_entry_[static_cast<size_t>(r)];
        const float* item_row = ItemRow(*entry, entry->begin + t);
        if (item_row != nullptr) {
          std::memcpy(x_ + r * hidden_, item_row, row_bytes);
        } else {
          model_->EmbedToken(entry->token_ids[t], x_ + r * hidden_);
        }
      }
    });
  }

  const float* ItemRow(const StageEntry& entry, int64_t token) const {
    for (const backend::EmbeddingSlice& slice : entry.embeddings) {
      const int64_t row = token - slice.token_begin;
      if (row >= 0 && row < slice.rows) return slice.data + row * hidden_;
    }
    return nullptr;
  }

  absl::Status RunLayer(const TextLayer& layer, int64_t index, const StageWork& work) {
    const int64_t rows = work.total_tokens;
    Norm(layer.input_norm, rows);
    compute_.Product(layer.qkv.Args(rows, normed_, hidden_, qkv_, qkv_width_));
    RotateAndStore(index, rows);
    Attend(index);
    Add(layer.o.Args(rows, attention_, attention_width_, nullptr, hidden_), 0);
    if (absl::Status s = Reduce(rows); !s.ok()) return s;

    Norm(layer.post_norm, rows);
    const int64_t inter = shard_.inter.count;
    for (int64_t begin = 0; begin < rows; begin += kMlpRows) {
      const int64_t count = std::min(kMlpRows, rows - begin);
      compute_.Product(layer.gate_up.Args(count, normed_ + begin * hidden_, hidden_, act_, inter));
      Add(layer.down.Args(count, act_, inter, nullptr, hidden_), begin);
    }
    return Reduce(rows);
  }

  // x += the product, for rows from `begin` on; of several ranks this one's part, for Reduce.
  void Add(kernels::GemmArgs product, int64_t begin) {
    product.y = (collective_ == nullptr ? x_ : partial_) + begin * hidden_;
    if (collective_ == nullptr) product.residual = product.y;
    compute_.Product(product);
  }

  // x += the parts of all ranks, added up in their order.
  absl::Status Reduce(int64_t rows) {
    if (collective_ == nullptr) return absl::OkStatus();
    const auto parts = collective_->Join(partial_);
    if (!parts.ok()) return parts.status();
    compute_.Rows(rows, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * hidden_; i < end * hidden_; ++i) {
        float sum = (*parts)[0][i];
        for (size_t rank = 1; rank < parts->size(); ++rank) sum += (*parts)[rank][i];
        x_[i] += sum;
      }
    });
    return collective_->Leave();
  }

  void Norm(const std::vector<float>& weight, int64_t rows) {
    compute_.Norm({x_, hidden_, weight.data(), config_.rms_norm_eps, hidden_, normed_, hidden_},
                  rows);
  }

  // Turns queries and keys, then puts keys and values into the cache. All of the micro-batch is in
  // the cache before any of it attends.
  void RotateAndStore(int64_t layer, int64_t rows) {
    const int64_t dim = config_.head_dim;
    const int64_t block_tokens = kv_.geometry().block_tokens;
    const int64_t kv_heads = shard_.kv_heads.count;
    const kernels::RotaryArgs rotary{qkv_, qkv_width_, shard_.heads.count + kv_heads,
                                     dim,  cosine_,    sine_};
    compute_.Rows(rows, [&](int64_t begin, int64_t end) {
      kernels::Rotary(compute_.isa(), rotary, begin, end);
      for (int64_t r = begin; r < end; ++r) {
        const auto& [entry, t] = row_entry_[static_cast<size_t>(r)];
        const int64_t token = entry->begin + t;
        const int64_t block = entry->kv_blocks[static_cast<size_t>(token / block_tokens)];
        const float* k = qkv_ + r * qkv_width_ + attention_width_;
        const float* v = k + kv_heads * dim;
        for (int64_t h = 0; h < kv_heads; ++h) {
          kernels::StoreKeyValue(k + h * dim, v + h * dim, dim, block_tokens, token % block_tokens,
                                 kv_.keys(layer, h) + block * kv_.block_stride(),
                                 kv_.values(layer, h) + block * kv_.block_stride());
        }
      }
    });
  }

  void Attend(int64_t layer) {
    const int64_t dim = config_.head_dim;
    const int64_t kv_heads = shard_.kv_heads.count;
    const int64_t group = shard_.heads.count / kv_heads;
    const int64_t tasks = static_cast<int64_t>(tasks_.size()) * kv_heads;
    compute_.Tasks(tasks, [&](int64_t i, float* scratch) {
      const Task& task = tasks_[static_cast<size_t>(i / kv_heads)];
      const int64_t head = i % kv_heads;
      const int64_t row = task.row + task.query;
      kernels::AttentionRows rows;
      rows.head_dim = dim;
      rows.scale = 1.0f / std::sqrt(static_cast<float>(dim));
      rows.queries = task.queries;
      rows.group = group;
      rows.q = qkv_ + row * qkv_width_ + head * group * dim;
      rows.q_stride = qkv_width_;
      rows.out = attention_ + row * attention_width_ + head * group * dim;
      rows.out_stride = attention_width_;
      rows.limit = task.entry->begin + task.query + 1;
      rows.limit_step = 1;
      rows.k = kv_.keys(layer, head);
      rows.v = kv_.values(layer, head);
      rows.kv_stride = kv_.block_stride();
      rows.blocks = task.entry->kv_blocks.data();
      rows.block_tokens = kv_.geometry().block_tokens;
      kernels::AttendRows(compute_.isa(), rows, scratch);
    });
  }

  // The final norm and the head, for the last rows of the entries that want logits only.
  void Logits(const StageWork& work) {
    logits_rows_.clear();
    int64_t row = 0;
    for (const StageEntry& entry : work.entries) {
      row += entry.count;
      if (!entry.want_logits) continue;
      const int64_t out = static_cast<int64_t>(logits_rows_.size());
      std::memcpy(normed_ + out * hidden_, x_ + (row - 1) * hidden_,
                  static_cast<size_t>(hidden_) * sizeof(float));
      logits_rows_.push_back(entry.logits + shard_.vocab.begin);
    }
    const int64_t count = static_cast<int64_t>(logits_rows_.size());
    if (count == 0) return;
    compute_.Norm({normed_, hidden_, model_->text.norm.data(), config_.rms_norm_eps, hidden_,
                   normed_, hidden_},
                  count);
    kernels::GemmArgs head = model_->text.head.Args(count, normed_, hidden_, nullptr, 0);
    head.y_rows = logits_rows_.data();
    compute_.Product(head);
  }

  const std::shared_ptr<const LoadedModel> model_;
  const model::TextConfig& config_;
  const backend::TextShard& shard_;
  const std::unique_ptr<CpuCollective> collective_;  // of several ranks
  const LayerRange layers_;
  StageRole role_;
  absl::Status status_;  // of construction, or why the ranks parted; every Forward reports it
  Compute compute_;
  KvCache kv_;
  const int64_t hidden_;
  const int64_t pairs_;            // rotated pairs of a head
  const int64_t qkv_width_;        // query heads, key heads, value heads
  const int64_t attention_width_;  // query heads
  std::vector<float> inverse_;

  // Scratch of one Forward; grows to the largest seen.
  std::vector<Task> tasks_;
  std::vector<std::pair<const StageEntry*, int64_t>> row_entry_;  // and the token in its chunk
  std::vector<float*> logits_rows_;
  FloatBuffer x_buffer_, normed_buffer_, qkv_buffer_, attention_buffer_, act_buffer_,
      cosine_buffer_, sine_buffer_, partial_buffer_;
  float* x_ = nullptr;          // [rows][hidden], the residual stream
  float* normed_ = nullptr;     // [rows][hidden]
  float* qkv_ = nullptr;        // [rows][qkv_width]
  float* attention_ = nullptr;  // [rows][attention_width]
  float* act_ = nullptr;        // [kMlpRows][intermediate]
  float* partial_ = nullptr;    // [rows][hidden], this rank's part of a sum (several ranks)
  float* cosine_ = nullptr;     // [rows][pairs]
  float* sine_ = nullptr;
};

}  // namespace

std::unique_ptr<backend::StageBackend> MakeCpuStage(std::shared_ptr<const CpuModel> model,
                                                    LayerRange layers, const KvGeometry& kv,
                                                    ThreadPool* pool,
                                                    std::unique_ptr<CpuCollective> collective) {
  return std::make_unique<CpuStage>(std::static_pointer_cast<const LoadedModel>(std::move(model)),
                                    layers, kv, pool, std::move(collective));
}

}  // namespace rserve::cpu
