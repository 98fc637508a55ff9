// Tokens that are recognised in text before anything else: "<|im_start|>" and its like.

#ifndef RSERVE_SRC_MODEL_SPEC_ADDED_TOKENS_H_
#define RSERVE_SRC_MODEL_SPEC_ADDED_TOKENS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace rserve::model {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool special = false;
};

// A set of literal tokens, found leftmost first, of several at one place the longest.
class AddedTokenSet {
 public:
  // Tokens longer than this are refused when a tokenizer is loaded; it bounds a search's work to
  // so many steps for each byte of the text.
  static constexpr size_t kMaxTokenBytes = 256;

  AddedTokenSet();
  void Add(const AddedToken& token);

  struct Segment {
    std::string_view text;  // plain text, when token is nullptr
    const AddedToken* token = nullptr;
  };
  // Cuts `text` into tokens and the (not empty) text between them. A special token is passed over
  // when `specials` is false: it is looked for, and its text stays text.
  std::vector<Segment> Split(std::string_view text, bool specials) const;

 private:
  struct Node {
    int32_t token = -1;  // index into tokens_
    absl::flat_hash_map<char, int32_t> next;
  };
  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::array<bool, 256> starts_ = {};  // bytes that a token begins with
};

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_ADDED_TOKENS_H_
