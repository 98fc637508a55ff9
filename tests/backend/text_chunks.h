// A prompt of text, as the micro-batches of one stage; for tests and speeds.

#ifndef RSERVE_TESTS_BACKEND_TEXT_CHUNKS_H_
#define RSERVE_TESTS_BACKEND_TEXT_CHUNKS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "src/backend/backend.h"

namespace rserve::testing {

// Tokens [0, tokens) in chunks; the last one wants logits. Blocks 0, 1, .. in order. Everything may
// be changed where it lies; the works point to it.
struct TextChunks {
  TextChunks(int64_t vocab_size, int32_t num_blocks, int64_t tokens, int64_t chunk)
      : logits(static_cast<size_t>(vocab_size), 0.0f) {
    for (int64_t t = 0; t < tokens; ++t) {
      ids.push_back(static_cast<int32_t>((7 + t * 5 % 40) % vocab_size));
      positions.push_back(static_cast<int32_t>(t));
    }
    for (int32_t b = 0; b < num_blocks; ++b) blocks.push_back(b);
    for (int64_t begin = 0; begin < tokens; begin += chunk) {
      backend::StageEntry entry;
      entry.begin = begin;
      entry.count = std::min(chunk, tokens - begin);
      entry.token_ids = ids.data() + begin;
      for (auto& axis : entry.positions) axis = positions.data() + begin;
      entry.kv_blocks = blocks;
      entry.want_logits = begin + chunk >= tokens;
      entry.logits = entry.want_logits ? logits.data() : nullptr;
      entries.push_back(entry);
    }
    for (const backend::StageEntry& entry : entries) {
      backend::StageWork work;
      work.entries = {&entry, 1};
      work.total_tokens = entry.count;
      works.push_back(work);
    }
  }
  TextChunks(const TextChunks&) = delete;
  TextChunks& operator=(const TextChunks&) = delete;

  std::vector<int32_t> ids, positions, blocks;
  std::vector<float> logits;
  std::vector<backend::StageEntry> entries;
  std::vector<backend::StageWork> works;
};

}  // namespace rserve::testing

#endif  // RSERVE_TESTS_BACKEND_TEXT_CHUNKS_H_
