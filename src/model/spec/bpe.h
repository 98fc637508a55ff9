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
#include "absl/types/span.h"
#include "src/model/spec/byte_merges.h"
#include "src/model/spec/merge_table.h"
#include "src/model/spec/string_map.h"
#include "src/model/spec/word_table.h"

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
  // Checks that every single byte has a token, so that any text can be encoded, and prepares for
  // encoding. Nothing is added after it.
  absl::Status Finish();
  // Pieces that are a token as a whole become that token without merging.
  void set_ignore_merges(bool value) { ignore_merges_ = value; }

  // Appends the ids of the pieces of a text, one after the other: O(n log n) in a piece's bytes. A
  // piece that merges into one token, as most words of a text do, costs one lookup.
  void Encode(absl::Span<const std::string_view> pieces, std::vector<int32_t>* ids) const;

  // nullptr for an id outside the vocabulary.
  const std::string* Bytes(int32_t id) const;
  const int32_t* Find(std::string_view bytes) const;
  int32_t max_id() const { return max_id_; }  // -1 when empty

 private:
  void EncodeWord(std::string_view piece, const PaddedWord& word, WordCache* cache,
                  std::vector<int32_t>* ids) const;
  // A piece that is not among words_.
  void EncodeLong(std::string_view piece, std::vector<int32_t>* ids) const;
  // Merging as the reference does it, for any rules and length.
  void EncodeWithQueue(std::string_view piece, std::vector<int32_t>* ids) const;
  // The same for pieces of 2 to 256 bytes where each token comes from one rule only, without
  // allocation and nearly without branches.
  void EncodeShort(std::string_view piece, std::vector<int32_t>* ids) const;
  void MergePiece(std::string_view piece, std::vector<int32_t>* ids) const;

  StringMap<int32_t> ids_;
  WordTable words_;           // the tokens that their own bytes merge into
  bool single_rules_ = true;  // no token is made by two rules
  absl::flat_hash_map<int32_t, std::string> bytes_;
  absl::flat_hash_map<uint64_t, Merge> rules_;  // by PairKey; until Finish
  MergeTable merges_;
  ByteMerges byte_merges_;
  std::array<int32_t, 256> byte_ids_ = {};
  int32_t next_rank_ = 0;
  int32_t max_id_ = -1;
  bool ignore_merges_ = false;
};

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_BPE_H_
