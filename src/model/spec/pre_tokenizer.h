// Cuts text into the pieces that BPE encodes one by one, by the regex of a tokenizer.json.

#ifndef RSERVE_SRC_MODEL_SPEC_PRE_TOKENIZER_H_
#define RSERVE_SRC_MODEL_SPEC_PRE_TOKENIZER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rserve::model {

// The pattern that the ByteLevel pre-tokenizer uses by itself (GPT-2's).
extern const char kGpt2Pattern[];

// Immutable; Split may be called from any thread.
//
// The reference matches with Oniguruma, this with PCRE2. `\s` and `\S` are rewritten to the members
// Oniguruma gives them (PCRE2 adds U+180E). `\p{L}` and `\p{N}` follow PCRE2's Unicode version, so
// letters and digits of a newer version count as symbols until the library knows them. Escapes
// whose members differ otherwise (\w \W \b \B) are refused.
class PreTokenizer {
 public:
  // UNIMPLEMENTED or INVALID_ARGUMENT when the pattern cannot be used as the reference would.
  static absl::StatusOr<std::unique_ptr<PreTokenizer>> Compile(std::string_view pattern);

  ~PreTokenizer();

  // Appends the pieces of `text` (valid UTF-8) in order: the matches, and what lies between them.
  // The pieces point into `text` and cover it. RESOURCE_EXHAUSTED when the pattern needs too many
  // steps on this text or looks at it too often; the time is linear in its length.
  absl::Status Split(std::string_view text, std::vector<std::string_view>* pieces) const;

 private:
  struct Impl;
  explicit PreTokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_PRE_TOKENIZER_H_
