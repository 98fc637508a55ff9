#include "src/model/spec/byte_level.h"

#include <cstdint>

#include "src/model/spec/utf8.h"

namespace rserve::model {
namespace {

// Bytes that stand for themselves: the printable ones of Latin-1 except the soft hyphen.
bool IsItself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
         (byte >= 0xAE && byte <= 0xFF);
}

// The byte of U+0100 + index: the index-th byte that does not stand for itself.
std::optional<uint8_t> ShiftedByte(uint32_t index) {
  for (uint32_t byte = 0; byte < 256; ++byte) {
    if (IsItself(byte)) continue;
    if (index == 0) return static_cast<uint8_t>(byte);
    --index;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> ByteLevelDecode(std::string_view token) {
  std::string bytes;
  for (size_t pos = 0; pos < token.size();) {
    const char32_t c = NextCodePoint(token, &pos);
    if (c < 0x100) {
      if (!IsItself(c)) return std::nullopt;
      bytes.push_back(static_cast<char>(c));
      continue;
    }
    if (c == kInvalidCodePoint) return std::nullopt;
    const std::optional<uint8_t> byte = ShiftedByte(c - 0x100);
    if (!byte.has_value()) return std::nullopt;
    bytes.push_back(static_cast<char>(*byte));
  }
  return bytes;
}

}  // namespace rserve::model
