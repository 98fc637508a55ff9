// What the tests of media share: golden tables, files, hashes and pixels made from a seed.

#ifndef RSERVE_TESTS_MEDIA_MEDIA_TEST_UTIL_H_
#define RSERVE_TESTS_MEDIA_MEDIA_TEST_UTIL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "src/media/image_processor.h"

namespace rserve::media {

using ByteVector = std::vector<uint8_t>;

// A file of tests/data/media; fails the test if it is not there.
ByteVector ReadData(const std::string& name);

// A golden table: the words of each line that is no comment.
using TableRow = std::vector<std::string>;
std::vector<TableRow> ReadTable(const std::string& name);

// 64-bit FNV-1a in hexadecimal, as tools/golden/make_media_goldens.py writes it.
std::string Fnv64(const void* data, size_t size);

// The generator of pixels of the golden script: the same seed gives the same image there.
RgbImage SeededImage(uint32_t seed, int32_t width, int32_t height);

RgbView ViewOf(const RgbImage& image);

}  // namespace rserve::media

#endif  // RSERVE_TESTS_MEDIA_MEDIA_TEST_UTIL_H_
