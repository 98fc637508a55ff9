#include "src/media/exif.h"

#include <cstddef>

#include "src/media/bytes.h"

namespace rserve::media {
namespace {

constexpr uint32_t kOrientationTag = 0x0112;
constexpr uint32_t kTypeShort = 3;
constexpr uint32_t kTypeLong = 4;
constexpr size_t kHeaderBytes = 8;
constexpr size_t kEntryBytes = 12;

}  // namespace

int32_t ExifOrientation(absl::Span<const uint8_t> tiff) {
  if (tiff.size() < kHeaderBytes) return 1;
  const uint8_t* p = tiff.data();
  const bool little = p[0] == 'I' && p[1] == 'I';
  if (!little && !(p[0] == 'M' && p[1] == 'M')) return 1;
  const auto u16 = [little](const uint8_t* at) { return little ? LoadLe16(at) : LoadBe16(at); };
  const auto u32 = [little](const uint8_t* at) { return little ? LoadLe32(at) : LoadBe32(at); };
  if (u16(p + 2) != 42) return 1;
  const size_t directory = u32(p + 4);
  if (directory > tiff.size() - 2) return 1;

  const size_t declared = u16(p + directory);
  const size_t present = (tiff.size() - directory - 2) / kEntryBytes;
  const size_t entries = declared < present ? declared : present;
  uint32_t orientation = 1;
  for (size_t i = 0; i < entries; ++i) {
    const uint8_t* entry = p + directory + 2 + i * kEntryBytes;
    if (u16(entry) != kOrientationTag || u32(entry + 4) != 1) continue;
    const uint32_t type = u16(entry + 2);
    // The last of several wins, as in a reader that keeps tags in a map.
    if (type == kTypeShort) orientation = u16(entry + 8);
    if (type == kTypeLong) orientation = u32(entry + 8);
  }
  return orientation >= 1 && orientation <= 8 ? static_cast<int32_t>(orientation) : 1;
}

}  // namespace rserve::media
