// UTF-8 in the strict sense of Unicode: shortest form only, no surrogates, up to U+10FFFF.

#ifndef RSERVE_SRC_MODEL_SPEC_UTF8_H_
#define RSERVE_SRC_MODEL_SPEC_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace rserve::model {

// Decodes the character at text[pos] and moves `pos` past it. Returns 0xFFFFFFFF and leaves `pos`
// where it is when there is no valid character (the end of the text included).
char32_t NextCodePoint(std::string_view text, size_t* pos);
inline constexpr char32_t kInvalidCodePoint = 0xFFFFFFFFu;

// Offset of the first byte that is no valid UTF-8; text.size() when all of it is valid.
size_t FirstInvalidUtf8(std::string_view text);

// How many bytes from text[pos] on are ASCII; pos is at most the text's size.
size_t AsciiRun(std::string_view text, size_t pos);

// Appends `code_point`, which must be a Unicode scalar value.
void AppendUtf8(char32_t code_point, std::string* out);

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_UTF8_H_
