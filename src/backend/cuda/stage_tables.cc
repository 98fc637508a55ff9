#include "src/backend/cuda/stage_tables.h"

#include <algorithm>

#include "kernels/attention/attention_plan.h"
#include "kernels/rotary/rotary.h"
#include "src/backend/plan/row_store.h"

namespace rserve::cuda {

namespace kc = kernels::cuda;
using backend::StageEntry;

StageTables::StageTables(const model::TextConfig& config, const backend::KvGeometry& kv,
                         backend::StageRole role, int64_t group)
    : config_(config), kv_(kv), role_(role), group_(group) {
  const int64_t pairs = config.head_dim / 2;
  inverse_.resize(static_cast<size_t>(pairs));
  kernels::InverseFrequencies(config.rope_theta, config.head_dim, inverse_.data());
  for (size_t section = 0; section < config.mrope_section.size(); ++section) {
    axis_.insert(axis_.end(), static_cast<size_t>(config.mrope_section[section]),
                 static_cast<int32_t>(section % 3));
  }
  axis_.resize(static_cast<size_t>(pairs), 0);
}

int64_t StageTables::StagingBytes(int64_t max_tokens, int64_t max_entries) const {
  // A token's slot, source, item and three positions, an entry's segment, the tiles, and the block
  // tables.
  const int64_t tiles = (max_tokens * group_ / kc::kAttentionTileRows) + max_entries;
  return max_tokens * (8 + 4 + int64_t{sizeof(kc::ItemRows)} + 3 * 4) +
         max_entries * int64_t{sizeof(kc::AttentionSegment)} +
         tiles * int64_t{sizeof(kc::AttentionTile)} +
         int64_t{kv_.num_blocks} * 4 * backend::kMaxTableShare +
         static_cast<int64_t>(axis_.size()) * 8 + 16 * 16;
}

absl::Status StageTables::Send(const backend::StageWork& work, const ItemPlaces& places,
                               Staging* staging, Queue* queue) {
  Clear();
  int64_t row = 0;
  for (const StageEntry& entry : work.entries) {
    AddEntry(entry, row);
    if (role_.first) AddItems(entry, row, places);
    row += entry.count;
    if (entry.want_logits) last_rows_.push_back(static_cast<int32_t>(row - 1));
  }
  for (const auto& axis : axes_) positions_.insert(positions_.end(), axis.begin(), axis.end());
  kc::PlanAttention(segments_, static_cast<int32_t>(group_), true, &tiles_);

  // What has the same size for equal rows and entries lies before what has not, so that pieces of
  // the same shape find their tables at the same places.
  staging->Clear();
  rows_.axis = staging->Put(axis_);
  rows_.inverse = staging->Put(inverse_);
  rows_.positions = staging->Put(positions_);
  layers_.slots = staging->Put(slots_);
  layers_.segments = staging->Put(segments_);
  layers_.tiles = staging->Put(tiles_);
  rows_.sources = staging->Put(sources_);
  layers_.table = staging->Put(table_);
  rows_.items = staging->Put(items_);
  layers_.rows = row;
  layers_.num_tiles = static_cast<int64_t>(tiles_.size());
  return staging->Send(queue);
}

void StageTables::Clear() {
  slots_.clear();
  sources_.clear();
  items_.clear();
  table_.clear();
  segments_.clear();
  last_rows_.clear();
  positions_.clear();
  for (auto& axis : axes_) axis.clear();
  num_item_rows_ = 0;
}

void StageTables::AddEntry(const StageEntry& entry, int64_t row) {
  const StageEntry& e = entry;
  segments_.push_back({row, static_cast<int32_t>(e.count), static_cast<int32_t>(e.begin),
                       static_cast<int64_t>(table_.size())});
  const int64_t blocks = (e.begin + e.count + kv_.block_tokens - 1) / kv_.block_tokens;
  table_.insert(table_.end(), e.kv_blocks.begin(), e.kv_blocks.begin() + blocks);
  for (int64_t t = e.begin; t < e.begin + e.count; ++t) {
    const int64_t block = e.kv_blocks[static_cast<size_t>(t / kv_.block_tokens)];
    slots_.push_back(block * kv_.block_tokens + t % kv_.block_tokens);
  }
  for (size_t axis = 0; axis < 3; ++axis) {
    axes_[axis].insert(axes_[axis].end(), e.positions[axis], e.positions[axis] + e.count);
  }
}

void StageTables::AddItems(const StageEntry& entry, int64_t row, const ItemPlaces& places) {
  const int64_t width = config_.hidden_size;
  sources_.insert(sources_.end(), entry.token_ids, entry.token_ids + entry.count);
  for (const backend::EmbeddingSlice& slice : entry.embeddings) {
    if (slice.rows == 0) continue;
    const int64_t begin = row + slice.token_begin - entry.begin;
    if (slice.stored != nullptr) {
      slice.stored->ForEach(slice.first_row, slice.rows,
                            [&](int64_t stored, const backend::RowRun& run) {
                              AddItem(places.stored + run.begin * places.stride,
                                      begin + stored - slice.first_row, run.rows);
                            });
      continue;
    }
    std::copy_n(slice.data, slice.rows * width, places.gathered + num_item_rows_ * width);
    AddItem(places.items + num_item_rows_ * places.stride, begin, slice.rows);
    num_item_rows_ += slice.rows;
  }
}

void StageTables::AddItem(const Bf16* data, int64_t begin, int64_t rows) {
  std::fill_n(sources_.begin() + begin, rows, -1 - static_cast<int32_t>(items_.size()));
  items_.push_back({data, begin});
}

}  // namespace rserve::cuda
