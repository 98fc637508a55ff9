#include "src/backend/plan/stage_check.h"

#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "src/backend/plan/row_store.h"

namespace rserve::backend {

namespace {

// Positions are 32-bit; so is a prompt's length.
constexpr int64_t kMaxTokens = std::numeric_limits<int32_t>::max();

template <typename... Parts>
absl::Status Bad(size_t entry, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("entry ", entry, ": ", parts...));
}

absl::Status CheckBlocks(const StageEntry& e, size_t i, const KvGeometry& kv) {
  const int64_t needed = (e.begin + e.count + kv.block_tokens - 1) / kv.block_tokens;
  if (static_cast<int64_t>(e.kv_blocks.size()) < needed) {
    return Bad(i, "kv_blocks has ", e.kv_blocks.size(), " blocks of ", kv.block_tokens,
               " tokens; tokens up to ", e.begin + e.count, " need ", needed);
  }
  for (int64_t b = 0; b < needed; ++b) {
    const int32_t block = e.kv_blocks[static_cast<size_t>(b)];
    if (block < 0 || block >= kv.num_blocks) {
      return Bad(i, "kv_blocks[", b, "] is ", block, ", not in 0 .. ", kv.num_blocks - 1,
                 " (num_blocks)");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckStored(const EmbeddingSlice& slice, size_t i, size_t s, int64_t stored_rows) {
  if (stored_rows == 0) {
    return Bad(i, "embeddings[", s, "] names stored rows; the stage has no store");
  }
  const int64_t rows = slice.stored->rows();
  if (slice.first_row < 0 || slice.first_row > rows || slice.rows > rows - slice.first_row) {
    return Bad(i, "embeddings[", s, "] reads ", slice.rows, " rows from row ", slice.first_row,
               " on of ", rows, " that are stored");
  }
  for (const RowRun& run : slice.stored->runs()) {
    if (run.begin < 0 || run.rows < 0 || run.begin > stored_rows - run.rows) {
      return Bad(i, "embeddings[", s, "] names ", run.rows, " rows from row ", run.begin,
                 " on of a store of ", stored_rows);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTokens(const StageEntry& e, size_t i, const model::TextConfig& config,
                         int64_t stored_rows) {
  if (e.token_ids == nullptr) return Bad(i, "token_ids is null on the first stage");
  for (int64_t t = 0; t < e.count; ++t) {
    if (e.token_ids[t] < 0 || e.token_ids[t] >= config.vocab_size) {
      return Bad(i, "token_ids[", t, "] is ", e.token_ids[t], ", not in 0 .. ",
                 config.vocab_size - 1, " (vocab_size)");
    }
  }
  for (size_t s = 0; s < e.embeddings.size(); ++s) {
    const EmbeddingSlice& slice = e.embeddings[s];
    if (slice.rows < 0 || slice.rows > e.count || slice.token_begin < e.begin ||
        slice.token_begin > e.begin + e.count - slice.rows) {
      return Bad(i, "embeddings[", s, "] covers ", slice.rows, " tokens from ", slice.token_begin,
                 ", outside of the chunk of ", e.count, " tokens from ", e.begin);
    }
    if (slice.rows == 0) continue;
    if (slice.stored != nullptr) {
      if (absl::Status status = CheckStored(slice, i, s, stored_rows); !status.ok()) return status;
    } else if (slice.data == nullptr) {
      return Bad(i, "embeddings[", s, "].data is null");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckStageWork(const StageWork& work, const model::TextConfig& config,
                            const KvGeometry& kv, StageRole role) {
  int64_t total = 0;
  for (size_t i = 0; i < work.entries.size(); ++i) {
    const StageEntry& e = work.entries[i];
    if (e.begin < 0 || e.count < 1 || e.begin > kMaxTokens || e.count > kMaxTokens - e.begin) {
      return Bad(i, "begin ", e.begin, " and count ", e.count,
                 " are not a range of tokens within 0 .. ", kMaxTokens);
    }
    total += e.count;
    if (absl::Status s = CheckBlocks(e, i, kv); !s.ok()) return s;
    for (const int32_t* axis : e.positions) {
      if (axis == nullptr) return Bad(i, "positions has a null axis");
      for (int64_t t = 0; t < e.count; ++t) {
        if (axis[t] < 0) return Bad(i, "position ", axis[t], " of token ", t, " is negative");
      }
    }
    if (role.first) {
      if (absl::Status s = CheckTokens(e, i, config, role.stored_rows); !s.ok()) return s;
    }
    if (e.likeliest != nullptr && !role.finds_likeliest) {
      return Bad(i, "likeliest is set; the stage does not find it");
    }
    if (role.last && e.want_logits && e.logits == nullptr && e.likeliest == nullptr) {
      return Bad(i, "want_logits is set; logits and likeliest are null");
    }
  }
  if (total != work.total_tokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("total_tokens is ", work.total_tokens, "; the entries have ", total));
  }
  if (total > 0 && !role.first && work.hidden_in == nullptr) {
    return absl::InvalidArgumentError("hidden_in is null on a stage that is not the first");
  }
  if (total > 0 && !role.last && work.hidden_out == nullptr) {
    return absl::InvalidArgumentError("hidden_out is null on a stage that is not the last");
  }
  return absl::OkStatus();
}

}  // namespace rserve::backend
