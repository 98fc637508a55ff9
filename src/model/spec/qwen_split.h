// The pre-tokenizer patterns of the Qwen family without a regex engine: the same pieces as the
// pattern gives, about ten times as fast.

#ifndef RSERVE_SRC_MODEL_SPEC_QWEN_SPLIT_H_
#define RSERVE_SRC_MODEL_SPEC_QWEN_SPLIT_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "src/model/spec/code_point_table.h"

namespace rserve::model {

// Qwen2, 2.5 and 3; and the later one, in which combining marks belong to words.
extern const char kQwen2Pattern[];
extern const char kQwen35Pattern[];

enum class CharClass : uint8_t { kOther = 0, kLetter, kMark, kNumber, kSpace, kNewline };

// The class of each character, from PCRE2's tables, so that both ways of matching know the same
// version of Unicode. Made once and kept.
const CodePointTable<CharClass>& CharClasses();

// Which of the two a pattern is: whether marks belong to words. nullopt for another pattern.
std::optional<bool> IsQwenPattern(std::string_view pattern);

// Appends the pieces of `text`, which is valid UTF-8; they cover it.
void SplitQwen(std::string_view text, bool marks_in_words, std::vector<std::string_view>* pieces);

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_QWEN_SPLIT_H_
