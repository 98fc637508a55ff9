#include "src/media/image_processor.h"

#include <algorithm>
#include <limits>
#include <string>

#include "tests/media/media_test_util.h"
#include "tests/support/catch.h"

namespace rserve::media {
namespace {

struct Golden {
  RgbImage source;
  model::ImagePlan plan;
  model::ImageProcessorConfig config;
  size_t rows = 0;
  size_t row_length = 0;
  std::string hash;
};

Golden ParseGolden(const TableRow& row) {
  size_t next = 0;
  const auto integer = [&] { return std::stoi(row.at(next++)); };
  const auto real = [&] { return std::stod(row.at(next++)); };
  Golden golden;
  const auto seed = static_cast<uint32_t>(integer());
  const int32_t width = integer();
  golden.source = SeededImage(seed, width, integer());
  golden.plan.resized_width = integer();
  golden.plan.resized_height = integer();
  golden.plan.grid.h = integer();
  golden.plan.grid.w = integer();
  golden.config.patch_size = integer();
  golden.config.temporal_patch_size = integer();
  golden.config.merge_size = integer();
  golden.config.do_resize = integer() != 0;
  golden.config.do_rescale = integer() != 0;
  golden.config.do_normalize = integer() != 0;
  golden.config.rescale_factor = real();
  for (float& mean : golden.config.image_mean) mean = static_cast<float>(real());
  for (float& std : golden.config.image_std) std = static_cast<float>(real());
  golden.rows = static_cast<size_t>(integer());
  golden.row_length = static_cast<size_t>(integer());
  golden.hash = row.at(next);
  const int32_t merge = golden.config.merge_size;
  golden.plan.tokens = golden.plan.grid.patches() / (int64_t{merge} * merge);
  return golden;
}

std::string Hash(const std::vector<float>& values) {
  return Fnv64(values.data(), values.size() * sizeof(float));
}

Golden FirstGolden() { return ParseGolden(ReadTable("patches.txt").front()); }

TEST_CASE("patch rows are bit-equal to the reference processor's", "[media]") {
  for (const TableRow& row : ReadTable("patches.txt")) {
    CAPTURE(row);
    const Golden golden = ParseGolden(row);
    std::vector<float> patches(golden.rows * golden.row_length);
    const absl::Status status =
        PreprocessImage(ViewOf(golden.source), golden.plan, golden.config, absl::MakeSpan(patches));
    CHECK(status == absl::OkStatus());
    CHECK(Hash(patches) == golden.hash);
  }
}

TEST_CASE("rows made in parts equal rows made at once", "[media]") {
  const Golden golden = FirstGolden();
  const RgbImage resized =
      ResizeBicubic(ViewOf(golden.source), golden.plan.resized_width, golden.plan.resized_height);
  for (const size_t part : {size_t{1}, size_t{5}, size_t{16}, golden.rows}) {
    CAPTURE(part);
    std::vector<float> patches(golden.rows * golden.row_length);
    for (size_t row = 0; row < golden.rows; row += part) {
      const size_t count = std::min(part, golden.rows - row);
      const absl::Span<float> rows =
          absl::MakeSpan(patches).subspan(row * golden.row_length, count * golden.row_length);
      CHECK(PatchifyRows(ViewOf(resized), golden.plan, golden.config, static_cast<int64_t>(row),
                         rows) == absl::OkStatus());
    }
    CHECK(Hash(patches) == golden.hash);
  }
}

TEST_CASE("a buffer of another length is refused and left alone", "[media]") {
  const Golden golden = FirstGolden();
  const size_t right = golden.rows * golden.row_length;
  for (const size_t size :
       {size_t{0}, size_t{1}, right - golden.row_length, right - 1, right + 1}) {
    CAPTURE(size);
    std::vector<float> patches(size, 42.0f);
    CHECK(absl::IsInvalidArgument(PreprocessImage(ViewOf(golden.source), golden.plan, golden.config,
                                                  absl::MakeSpan(patches))));
    CHECK(patches == std::vector<float>(size, 42.0f));
  }
}

TEST_CASE("parts outside the grid are refused", "[media]") {
  const Golden golden = FirstGolden();
  const RgbImage resized =
      ResizeBicubic(ViewOf(golden.source), golden.plan.resized_width, golden.plan.resized_height);
  std::vector<float> row(golden.row_length);
  const auto patchify = [&](int64_t first) {
    return PatchifyRows(ViewOf(resized), golden.plan, golden.config, first, absl::MakeSpan(row));
  };
  const auto rows = static_cast<int64_t>(golden.rows);
  CHECK(patchify(rows - 1) == absl::OkStatus());
  CHECK(absl::IsInvalidArgument(patchify(rows)));
  CHECK(absl::IsInvalidArgument(patchify(-1)));
  CHECK(absl::IsInvalidArgument(patchify(std::numeric_limits<int64_t>::max())));
  CHECK(absl::IsInvalidArgument(
      PatchifyRows(ViewOf(golden.source), golden.plan, golden.config, 0, absl::MakeSpan(row))));
}

TEST_CASE("a plan that contradicts itself, the configuration or the image is refused", "[media]") {
  constexpr int32_t kHuge = std::numeric_limits<int32_t>::max();
  using Change = void (*)(Golden&);
  const Change changes[] = {
      [](Golden& g) { g.plan.grid.h += 2; },
      [](Golden& g) { g.plan.grid.t = 2; },
      [](Golden& g) { g.plan.grid.w = 0; },
      [](Golden& g) {
        g.plan.grid = {1, -6, -8};
      },
      [](Golden& g) { g.plan.resized_width += 14; },
      [](Golden& g) { g.plan = {}; },
      [](Golden& g) {
        g.plan.grid = {1, kHuge, kHuge};
      },
      [](Golden& g) {
        g.plan = {kHuge, kHuge, {1, kHuge, kHuge}, 1}, g.config.patch_size = 1;
      },
      [](Golden& g) { g.config.patch_size = 0; },
      [](Golden& g) { g.config.patch_size = kHuge; },
      [](Golden& g) { g.config.temporal_patch_size = kHuge; },
      [](Golden& g) { g.config.temporal_patch_size = 0; },
      [](Golden& g) { g.config.merge_size = 0; },
      [](Golden& g) { g.config.merge_size = 5; },
      [](Golden& g) { g.config.do_resize = false; },
      [](Golden& g) { g.source = {}; },
  };
  for (size_t i = 0; i < std::size(changes); ++i) {
    CAPTURE(i);
    Golden golden = FirstGolden();
    std::vector<float> patches(golden.rows * golden.row_length);
    changes[i](golden);
    const absl::Status status =
        PreprocessImage(ViewOf(golden.source), golden.plan, golden.config, absl::MakeSpan(patches));
    INFO(status.ToString());
    CHECK(absl::IsInvalidArgument(status));
  }
}

}  // namespace
}  // namespace rserve::media
