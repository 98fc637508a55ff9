#include "tests/media/media_test_util.h"

#include <fstream>
#include <iterator>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/support/catch.h"

namespace rserve::media {
namespace {

std::string PathOf(const std::string& name) {
  return absl::StrCat(RSERVE_SOURCE_DIR, "/tests/data/media/", name);
}

}  // namespace

ByteVector ReadData(const std::string& name) {
  std::ifstream file(PathOf(name), std::ios::binary);
  INFO("file " << PathOf(name));
  REQUIRE(file.good());
  return ByteVector(std::istreambuf_iterator<char>(file), {});
}

std::vector<TableRow> ReadTable(const std::string& name) {
  std::ifstream file(PathOf(name));
  INFO("file " << PathOf(name));
  REQUIRE(file.good());
  std::vector<TableRow> rows;
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    rows.emplace_back(std::istream_iterator<std::string>(words),
                      std::istream_iterator<std::string>());
  }
  REQUIRE_FALSE(rows.empty());
  return rows;
}

std::string Fnv64(const void* data, size_t size) {
  uint64_t value = 0xcbf29ce484222325u;
  const auto* bytes = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < size; ++i) value = (value ^ bytes[i]) * 0x100000001b3u;
  return absl::StrCat(absl::Hex(value, absl::kZeroPad16));
}

RgbImage SeededImage(uint32_t seed, int32_t width, int32_t height) {
  RgbImage image;
  image.width = width;
  image.height = height;
  image.data.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  uint32_t state = seed;
  for (size_t i = 0; i < image.data.size(); ++i) {
    state = state * 1664525u + 1013904223u;
    const uint32_t value = i / 96 % 2 == 0 ? state >> 24 : static_cast<uint32_t>(i) + (state >> 30);
    image.data[i] = static_cast<uint8_t>(value);
  }
  return image;
}

RgbView ViewOf(const RgbImage& image) {
  return {image.data.data(), image.width, image.height, int64_t{image.width} * 3};
}

}  // namespace rserve::media
