// Byte-level BPE as Qwen2's tokenizer.json describes it.

#ifndef RSERVE_SRC_MODEL_SPEC_TOKENIZER_H_
#define RSERVE_SRC_MODEL_SPEC_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace rserve::model {

// Immutable after loading; all methods are const and may be called from any thread at once.
class Tokenizer {
 public:
  // Loads the text of a tokenizer.json: BPE with the ByteLevel pre-tokenizer, an optional Split
  // regex and an optional NFC normaliser, added (special) tokens. Anything else that changes the
  // result is refused with UNIMPLEMENTED and its name.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromJson(std::string_view json_text);

  ~Tokenizer();

  // Longer texts are refused with INVALID_ARGUMENT.
  static constexpr size_t kMaxTextBytes = size_t{64} << 20;

  // Text written by a template: added tokens that occur in it become their ids.
  // INVALID_ARGUMENT (with the byte offset) when `text` is not UTF-8.
  absl::StatusOr<std::vector<int32_t>> EncodeTemplate(std::string_view text) const;

  // Text written by a user: never yields a special token, whatever it says; "<|image_pad|>" is
  // encoded as the characters it consists of. Added tokens that the file does not mark as special
  // ("<tool_call>") are vocabulary like any other and are recognised, as in the reference with
  // encode_special_tokens.
  absl::StatusOr<std::vector<int32_t>> EncodeUserText(std::string_view text) const;

  // Text cut at the names of special tokens, leftmost first, of several at one place the longest;
  // the pieces cover it.
  struct Cut {
    std::string_view text;
    bool special = false;
  };
  std::vector<Cut> CutAtSpecials(std::string_view text) const;

  // The bytes of `ids` as one string; ids out of range are skipped; special tokens are left out
  // when `skip_special`. A token may end in the middle of a UTF-8 character.
  std::string Decode(absl::Span<const int32_t> ids, bool skip_special = false) const;

  // The id of an entry as tokenizer.json writes it ("<|im_end|>", "Ġthe").
  std::optional<int32_t> TokenId(std::string_view token) const;
  bool IsSpecial(int32_t id) const;
  int32_t vocab_size() const;  // largest id + 1

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_TOKENIZER_H_
