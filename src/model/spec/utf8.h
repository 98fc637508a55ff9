// UTF-8 in the strict sense of Unicode: shortest form only, no surrogates, up to U+10FFFF.

#ifndef RSERVE_SRC_MODEL_SPEC_UTF8_H_
#define RSERVE_SRC_MODEL_SPEC_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rserve::model {

// Decodes the character at text[pos] and moves `pos` past it. Returns 0xFFFFFFFF and leaves `pos`
// where it is when there is no valid character (the end of the text included).
char32_t NextCodePoint(std::string_view text, size_t* pos);
inline constexpr char32_t kInvalidCodePoint = 0xFFFFFFFFu;

// The character that begins at `at` in valid UTF-8, and where the next one begins. Reads no byte
// behind the character.
inline char32_t ReadValidUtf8(const char* at, const char** next) {
  const auto byte = [at](size_t i) { return char32_t{static_cast<uint8_t>(at[i])}; };
  const char32_t lead = byte(0);
  if (lead < 0x80) {
    *next = at + 1;
    return lead;
  }
  if (lead < 0xE0) {
    *next = at + 2;
    return (lead & 0x1F) << 6 | (byte(1) & 0x3F);
  }
  if (lead < 0xF0) {
    *next = at + 3;
    return (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  }
  *next = at + 4;
  return (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
}

// Offset of the first byte that is no valid UTF-8; text.size() when all of it is valid.
size_t FirstInvalidUtf8(std::string_view text);

// How many bytes from text[pos] on are ASCII; pos is at most the text's size.
size_t AsciiRun(std::string_view text, size_t pos);

// Appends `code_point`, which must be a Unicode scalar value.
void AppendUtf8(char32_t code_point, std::string* out);

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_UTF8_H_
