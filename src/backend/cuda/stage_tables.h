// The tables of a micro-batch: positions, cache slots, what its tokens are, the attention's plan.
// Gathered on the host, sent with one copy.

#ifndef RSERVE_SRC_BACKEND_CUDA_STAGE_TABLES_H_
#define RSERVE_SRC_BACKEND_CUDA_STAGE_TABLES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/embedding/embedding_cuda.h"
#include "src/backend/backend.h"
#include "src/backend/cuda/queue.h"
#include "src/backend/cuda/staging.h"
#include "src/backend/plan/geometry.h"
#include "src/backend/plan/stage_check.h"
#include "src/model/spec/model_config.h"

namespace rserve::cuda {

// All that the layers of a micro-batch are given and that another one may be given otherwise: the
// key of a recording (graphs.h). Pointers lead into device memory.
struct LayerInputs {
  int64_t rows = 0;
  int64_t num_tiles = 0;
  const int64_t* slots = nullptr;  // [rows], where a token lies in the cache
  const kernels::cuda::AttentionSegment* segments = nullptr;
  const kernels::cuda::AttentionTile* tiles = nullptr;
  const int32_t* table = nullptr;  // block tables, one after another
  bool operator==(const LayerInputs&) const = default;
};

// For the rotary embedding and the first stage's rows.
struct RowInputs {
  const int32_t* positions = nullptr;  // [3][rows]
  const int32_t* axis = nullptr;       // [pairs]
  const float* inverse = nullptr;      // [pairs]
  const int32_t* sources = nullptr;    // [rows]: a token, or -1 - an item
  const kernels::cuda::ItemRows* items = nullptr;
};

class StageTables {
 public:
  // `group`: query heads a key head. `config` outlives the object.
  StageTables(const model::TextConfig& config, const backend::KvGeometry& kv,
              backend::StageRole role, int64_t group);

  // What a piece's staging must hold at most.
  int64_t StagingBytes(int64_t max_tokens, int64_t max_entries) const;

  // Where the first stage's item rows lie on the device, in rows of `stride`.
  struct ItemPlaces {
    float* gathered = nullptr;     // pinned, in f32: those that come from host memory,
    const Bf16* items = nullptr;   // and where they will then lie
    const Bf16* stored = nullptr;  // row 0 of the store; null: there is none
    int64_t stride = 0;
  };
  // Fills the tables and sends them.
  absl::Status Send(const backend::StageWork& work, const ItemPlaces& places, Staging* staging,
                    Queue* queue);

  // Of what was sent last.
  const LayerInputs& layers() const { return layers_; }
  const RowInputs& rows() const { return rows_; }
  int64_t item_rows() const { return num_item_rows_; }                  // gathered
  const std::vector<int32_t>& last_rows() const { return last_rows_; }  // that want logits

 private:
  void Clear();
  void AddEntry(const backend::StageEntry& entry, int64_t row);
  void AddItems(const backend::StageEntry& entry, int64_t row, const ItemPlaces& places);
  // Rows [begin, begin + rows) of the batch are those from `data` on.
  void AddItem(const Bf16* data, int64_t begin, int64_t rows);

  const model::TextConfig& config_;
  const backend::KvGeometry kv_;
  const backend::StageRole role_;
  const int64_t group_;
  std::vector<int32_t> axis_;  // [pairs]
  std::vector<float> inverse_;

  std::vector<int64_t> slots_;
  std::vector<int32_t> sources_, table_, last_rows_, positions_;
  std::vector<int32_t> axes_[3];
  std::vector<kernels::cuda::ItemRows> items_;
  std::vector<kernels::cuda::AttentionSegment> segments_;
  std::vector<kernels::cuda::AttentionTile> tiles_;
  int64_t num_item_rows_ = 0;
  LayerInputs layers_;
  RowInputs rows_;
};

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_STAGE_TABLES_H_
