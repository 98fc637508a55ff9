// Every file of the corpus (tools/golden/make_corpus.py) against what the reference shows of it.

#include <cstddef>
#include <cstdio>  // jpeglib.h needs FILE and size_t
#include <string>

#include <jpeglib.h>

#include "src/media/image.h"
#include "src/media/image_processor.h"
#include "tests/media/media_test_util.h"
#include "tests/support/catch.h"

namespace rserve::media {
namespace {

struct CorpusFile {
  std::string name;
  ByteVector bytes;
  int64_t width, height;
  std::string rgb_hash;
  int32_t grid_h, grid_w;
  std::string rows_hash;
};

std::vector<CorpusFile> ReadCorpus() {
  const ByteVector pack = ReadData("corpus.bin");
  std::vector<CorpusFile> files;
  for (const TableRow& row : ReadTable("corpus.txt")) {
    const auto begin = pack.begin() + std::stoll(row[1]);
    files.push_back({row[0], ByteVector(begin, begin + std::stoll(row[2])), std::stoll(row[3]),
                     std::stoll(row[4]), row[5], std::stoi(row[6]), std::stoi(row[7]), row[8]});
  }
  return files;
}

// JPEG is exact with libjpeg-turbo, whose arithmetic Pillow's copy shares; a build with another
// library is held to the bound of image_decode_test.cc instead.
bool Exact(ImageFormat format) {
#ifdef LIBJPEG_TURBO_VERSION
  (void)format;
  return true;
#else
  return format != ImageFormat::kJpeg;
#endif
}

TEST_CASE("the corpus decodes to Pillow's pixels and preprocesses to the reference's rows",
          "[media]") {
  model::ImageProcessorConfig config;
  config.min_pixels = 28 * 28;
  config.max_pixels = 28 * 28 * 6;
  int seen = 0;
  for (const CorpusFile& file : ReadCorpus()) {
    CAPTURE(file.name);
    const absl::StatusOr<ImageHeader> header = ReadImageHeader(file.bytes, ImageLimits{});
    if (absl::IsUnimplemented(header.status())) {  // a build without the optional library
      CHECK(std::string(header.status().message()).find("WebP") != std::string::npos);
      continue;
    }
    REQUIRE(header.status() == absl::OkStatus());
    CHECK(header->width == file.width);
    CHECK(header->height == file.height);
    const absl::StatusOr<RgbImage> image = DecodeImage(file.bytes, ImageLimits{});
    REQUIRE(image.status() == absl::OkStatus());
    REQUIRE(image->width == file.width);
    REQUIRE(image->height == file.height);
    model::ImagePlan plan;
    plan.grid = {1, file.grid_h, file.grid_w};
    plan.resized_height = file.grid_h * config.patch_size;
    plan.resized_width = file.grid_w * config.patch_size;
    plan.tokens = plan.grid.patches() / 4;
    std::vector<float> rows(static_cast<size_t>(plan.grid.patches()) * 3 * 2 * 14 * 14);
    REQUIRE(PreprocessImage(ViewOf(*image), plan, config, absl::MakeSpan(rows)).ok());
    ++seen;
    if (!Exact(header->format)) continue;
    CHECK(Fnv64(image->data.data(), image->data.size()) == file.rgb_hash);
    CHECK(Fnv64(rows.data(), rows.size() * sizeof(float)) == file.rows_hash);
  }
  CHECK(seen >= 300);
}

TEST_CASE("a corpus file cut at every 16th byte gives its image or a status, never more memory",
          "[media][hostile]") {
  for (const CorpusFile& file : ReadCorpus()) {
    for (size_t size = 0; size < file.bytes.size(); size += 16) {
      CAPTURE(file.name, size);
      const ByteVector cut(file.bytes.begin(), file.bytes.begin() + static_cast<int64_t>(size));
      const absl::StatusOr<ImageHeader> header = ReadImageHeader(cut, ImageLimits{});
      const absl::StatusOr<RgbImage> image = DecodeImage(cut, ImageLimits{});
      if (!image.ok()) {
        CHECK((absl::IsInvalidArgument(image.status()) || absl::IsUnimplemented(image.status())));
        continue;
      }
      // What stands behind the pixels (a trailer, later frames, metadata) is not needed.
      REQUIRE(header.ok());
      CHECK(image->data.size() == static_cast<size_t>(file.width * file.height * 3));
    }
  }
}

}  // namespace
}  // namespace rserve::media
