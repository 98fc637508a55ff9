#include "src/model/spec/utf8.h"

#include <cstdint>
#include <cstring>

namespace rserve::model {

char32_t NextCodePoint(std::string_view text, size_t* pos) {
  const size_t i = *pos;
  if (i >= text.size()) return kInvalidCodePoint;
  const auto byte = [text](size_t at) { return static_cast<uint8_t>(text[at]); };
  const uint8_t lead = byte(i);
  if (lead < 0x80) {
    *pos = i + 1;
    return lead;
  }
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() - i < length) return kInvalidCodePoint;
  char32_t value = lead & (0x7Fu >> length);
  for (size_t k = 1; k < length; ++k) {
    if ((byte(i + k) & 0xC0) != 0x80) return kInvalidCodePoint;
    value = (value << 6) | (byte(i + k) & 0x3Fu);
  }
  const bool too_long = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  const bool surrogate = value >= 0xD800 && value < 0xE000;
  if (too_long || surrogate || value > 0x10FFFF) return kInvalidCodePoint;
  *pos = i + length;
  return value;
}

size_t FirstInvalidUtf8(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    if (const size_t ascii = AsciiRun(text, pos); ascii != 0) {
      pos += ascii;
      continue;
    }
    if (NextCodePoint(text, &pos) == kInvalidCodePoint) return pos;
  }
  return pos;
}

size_t AsciiRun(std::string_view text, size_t pos) {
  constexpr uint64_t kHighBits = 0x8080808080808080u;
  const size_t begin = pos;
  for (uint64_t word = 0; text.size() - pos >= sizeof(word); pos += sizeof(word)) {
    std::memcpy(&word, text.data() + pos, sizeof(word));
    if ((word & kHighBits) != 0) break;
  }
  while (pos < text.size() && static_cast<uint8_t>(text[pos]) < 0x80) ++pos;
  return pos - begin;
}

void AppendUtf8(char32_t code_point, std::string* out) {
  const auto put = [out](char32_t value) { out->push_back(static_cast<char>(value)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

}  // namespace rserve::model
