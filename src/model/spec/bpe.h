// Byte-pair merging: the pieces of a pre-tokenizer to token ids.

#ifndef RSERVE_SRC_MODEL_SPEC_BPE_H_
#define RSERVE_SRC_MODEL_SPEC_BPE_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "src/model/spec/string_map.h"

namespace rserve::model {

// The vocabulary and merge rules over bytes. Filled once, then const and safe from any thread.
class Bpe {
 public:
  // `bytes` is the byte string a vocabulary entry stands for. Ids must differ, and so must the
  // bytes of mergeable tokens; one that is not mergeable is only ever decoded.
  absl::Status AddToken(std::string bytes, int32_t id, bool mergeable = true);
  // The next merge rule, in order of rank: `left` then `right` become their concatenation. All
  // three must be in the vocabulary. A pair given again takes the later rank.
  absl::Status AddMerge(std::string_view left, std::string_view right);
  // Checks that every single byte has a token, so that any text can be encoded.
  absl::Status Finish();
  // Pieces that are a token as a whole become that token without merging.
  void set_ignore_merges(bool value) { ignore_merges_ = value; }

  // Appends the ids of one piece: O(n log n) in its bytes.
  void Encode(std::string_view piece, std::vector<int32_t>* ids) const;

  // nullptr for an id outside the vocabulary.
  const std::string* Bytes(int32_t id) const;
  const int32_t* Find(std::string_view bytes) const;
  int32_t max_id() const { return max_id_; }  // -1 when empty

 private:
  struct Merge {
    int32_t rank;
    int32_t id;
  };
  static uint64_t Key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }

  StringMap<int32_t> ids_;
  absl::flat_hash_map<int32_t, std::string> bytes_;
  absl::flat_hash_map<uint64_t, Merge> merges_;
  std::array<int32_t, 256> byte_ids_ = {};
  int32_t next_rank_ = 0;
  int32_t max_id_ = -1;
  bool ignore_merges_ = false;
};

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_BPE_H_
