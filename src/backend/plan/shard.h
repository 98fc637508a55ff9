// Which part of the language model a tensor-parallel rank holds.
//
// Query heads, key heads, the SwiGLU's inner columns and the vocabulary are cut; what each rank
// then has of the output projection and of `down` gives partial sums, which an all-reduce adds up.
// Where there are fewer key heads than ranks, neighbours hold the same key head.

#ifndef RSERVE_SRC_BACKEND_PLAN_SHARD_H_
#define RSERVE_SRC_BACKEND_PLAN_SHARD_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/model/spec/model_config.h"

namespace rserve::backend {

struct Share {
  int64_t begin = 0;
  int64_t count = 0;
};

struct TextShard {
  Share heads;
  Share kv_heads;
  Share inter;
  Share vocab;
};

// Cut at multiples of 8, so that no rank pads more than its end.
inline Share CutInEights(int64_t total, int64_t rank, int64_t ranks) {
  const int64_t eights = (total + 7) / 8;
  const int64_t begin = eights * rank / ranks * 8;
  return {begin, std::min(total, eights * (rank + 1) / ranks * 8) - begin};
}

inline TextShard ShardOf(const model::TextConfig& config, int64_t rank, int64_t ranks) {
  TextShard shard;
  shard.heads.count = config.num_heads / ranks;
  shard.heads.begin = rank * shard.heads.count;
  shard.kv_heads.count = std::max<int64_t>(config.num_kv_heads / ranks, 1);
  shard.kv_heads.begin = config.num_kv_heads * rank / ranks;
  shard.inter = CutInEights(config.intermediate_size, rank, ranks);
  shard.vocab = CutInEights(config.vocab_size, rank, ranks);
  return shard;
}

// UNIMPLEMENTED names the number that does not divide.
inline absl::Status CheckShard(const model::TextConfig& config, int64_t rank, int64_t ranks) {
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor-parallel rank ", rank, " is not in 0 .. ", ranks - 1));
  }
  const int64_t heads = config.num_heads, kv = config.num_kv_heads;
  if (heads % ranks != 0 || (kv % ranks != 0 && ranks % kv != 0)) {
    return absl::UnimplementedError(absl::StrCat("num_attention_heads ", heads,
                                                 " and num_key_value_heads ", kv,
                                                 " cannot be cut for ", ranks, " ranks"));
  }
  if ((config.intermediate_size + 7) / 8 < ranks || (config.vocab_size + 7) / 8 < ranks) {
    return absl::UnimplementedError(
        absl::StrCat("intermediate_size ", config.intermediate_size, " or vocab_size ",
                     config.vocab_size, " is too small to be cut in eights for ", ranks, " ranks"));
  }
  return absl::OkStatus();
}

}  // namespace rserve::backend

#endif  // RSERVE_SRC_BACKEND_PLAN_SHARD_H_
