#include "src/model/spec/image_plan.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <string>
#include <utility>

#include "tests/model/golden.h"

namespace rserve::model {
namespace {

// Side 0 never occurs in the reference with min_pixels above 0; where one token is already above
// max_pixels, and where a thin image's short side is held at one factor, the reference goes beyond
// max_pixels, and so do we: the token count has to be the one the model was trained with.
TEST_CASE("SmartResize equals the reference on a table of random and extreme sizes") {
  std::istringstream lines(ReadGolden("smart_resize.txt"));
  std::string line;
  int64_t factor = 0, low = 0, high = 0;
  int checked = 0;
  while (std::getline(lines, line)) {
    std::istringstream in(line);
    int64_t a = 0, b = 0;
    std::string third;
    in >> a >> b >> third;
    CAPTURE(line, factor, low, high);
    std::string fourth;
    if (third != "refused" && !(in >> fourth)) {
      factor = a, low = b, high = std::stoll(third);
      continue;
    }
    const auto size = SmartResize(a, b, static_cast<int32_t>(factor), low, high);
    ++checked;
    if (third == "refused") {
      CHECK(size.status().code() == absl::StatusCode::kInvalidArgument);
    } else {
      REQUIRE(size.ok());
      CHECK(size->height == std::stoll(third));
      CHECK(size->width == std::stoll(fourth));
    }
  }
  CHECK(checked > 3000);
}

// The sizes of tools/golden/make_resize_sweep.py.
class SizeSweep {
 public:
  explicit SizeSweep(uint64_t seed) : state_(seed) {}
  std::pair<int64_t, int64_t> Next() {
    const int64_t kind = Draw();
    int64_t a = Side();
    int64_t b = Side();
    if (kind % 4 == 0) {
      a = a % 100000 + 1;
      b = std::max<int64_t>(1, a * 200 + Draw() % 3 - 1);
    } else if (kind % 8 == 1) {
      a = std::max<int64_t>(1, a % 4000 / 14 * 14 + Draw() % 3 - 1);
      b = std::max<int64_t>(1, b % 4000 / 14 * 14 + Draw() % 3 - 1);
    } else if (kind % 8 == 2) {
      a = a % 4000 + 1;
      b = b % 4000 + 1;
    }
    return (kind & 64) != 0 ? std::pair(a, b) : std::pair(b, a);
  }

 private:
  int64_t Draw() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>(state_ >> 33);
  }
  int64_t Side() {
    const int64_t value = Draw();
    return value % (int64_t{1} << (Draw() % 26 + 1)) + 1;
  }
  uint64_t state_;
};

TEST_CASE("SmartResize equals the reference on 100,000 random and extreme sizes") {
  std::istringstream lines(ReadGolden("smart_resize_sweep.txt"));
  std::string line;
  int64_t sizes = 0;
  while (std::getline(lines, line)) {
    if (line[0] == '#') continue;
    CAPTURE(line);
    std::istringstream in(line);
    int64_t factor = 0, low = 0, high = 0, count = 0, refused = 0;
    uint64_t seed = 0;
    std::string want;
    in >> factor >> low >> high >> count >> seed >> want >> refused;
    SizeSweep sweep(seed);
    uint64_t hash = 0xcbf29ce484222325u;
    for (int64_t i = 0; i < count; ++i) {
      const auto [height, width] = sweep.Next();
      const auto size = SmartResize(height, width, static_cast<int32_t>(factor), low, high);
      refused -= size.ok() ? 0 : 1;
      const ResizedSize got = size.value_or(ResizedSize{});
      for (const int32_t side : {got.height, got.width}) {
        for (int shift = 0; shift < 32; shift += 8) {
          hash = (hash ^ ((static_cast<uint32_t>(side) >> shift) & 255)) * 0x100000001b3u;
        }
      }
    }
    std::ostringstream hex;
    hex << std::hex << std::setfill('0') << std::setw(16) << hash;
    CHECK(hex.str() == want);
    CHECK(refused == 0);
    sizes += count;
  }
  CHECK(sizes == 100000);
}

TEST_CASE("a side that would round to 0 is one factor") {
  // With min_pixels 0 the reference returns height 0 here.
  const auto size = SmartResize(10, 280, 28, 0, 1 << 20);
  REQUIRE(size.ok());
  CHECK(size->height == 28);
  CHECK(size->width == 280);
}

TEST_CASE("sizes and limits out of range are refused") {
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{0, 5},
                                      {5, 0},
                                      {-1, 5},
                                      {INT64_MIN, INT64_MAX},
                                      {INT64_MAX, INT64_MAX},
                                      {201, 1},
                                      {1, 201}}) {
    CAPTURE(height, width);
    CHECK(SmartResize(height, width, 28, 3136, 1 << 20).status().code() ==
          absl::StatusCode::kInvalidArgument);
  }
  CHECK_FALSE(SmartResize(50, 50, 0, 1, 10).ok());
  CHECK_FALSE(SmartResize(50, 50, 28, 100, 10).ok());
  CHECK_FALSE(SmartResize(50, 50, 28, 1, INT64_MAX).ok());
}

TEST_CASE("an image plan's numbers follow from the resized size") {
  const auto plan = PlanImage(1080, 1920, ImageProcessorConfig{});
  REQUIRE(plan.ok());
  CHECK(plan->resized_height == 728);
  CHECK(plan->resized_width == 1316);
  CHECK(plan->grid == Grid{1, 52, 94});
  CHECK(plan->tokens == 26 * 47);
}

TEST_CASE("without do_resize only fitting sizes are planned") {
  ImageProcessorConfig config;
  config.do_resize = false;
  REQUIRE(PlanImage(56, 84, config).ok());
  CHECK(PlanImage(56, 84, config)->tokens == 6);
  CHECK(PlanImage(57, 84, config).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("the published preprocessor_config.json is read") {
  const auto config = ParseImageProcessorConfig(R"({"min_pixels": 3136, "max_pixels": 12845056,
    "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen2_5_VLProcessor"})");
  REQUIRE(config.ok());
  CHECK(config->min_pixels == 3136);
  CHECK(config->max_pixels == 12845056);
  CHECK(config->image_mean[2] == 0.40821073f);
  CHECK(config->rescale_factor == 1.0 / 255.0);
}

TEST_CASE("processor_config.json and size edges are read, and min_pixels overrides them") {
  const auto config = ParseImageProcessorConfig(R"({"image_processor": {"do_resize": true,
    "do_rescale": true, "do_normalize": false, "rescale_factor": 0.00392156862745098,
    "resample": 3, "size": {"longest_edge": 1003520, "shortest_edge": 3136}, "min_pixels": 6272},
    "processor_class": "Qwen2_5_VLProcessor", "video_processor": {"patch_size": 0}})");
  REQUIRE(config.ok());
  CHECK(config->min_pixels == 6272);
  CHECK(config->max_pixels == 1003520);
  CHECK_FALSE(config->do_normalize);
}

TEST_CASE("faulty preprocessor fields are named") {
  const std::pair<const char*, const char*> faults[] = {
      {R"({"min_pixels": 0})", "min_pixels"},
      {R"({"min_pixels": 100, "max_pixels": 50})", "max_pixels 50"},
      {R"({"size": {"height": 224, "width": 224}})", "size"},
      {R"({"size": 7})", "size"},
      {R"({"patch_size": 1e9})", "patch_size"},
      {R"({"image_std": [0, 1, 1]})", "image_std"},
      {R"({"image_mean": [1, 1]})", "image_mean"},
      {R"({"image_mean": 0.5})", "image_mean"},
      {R"({"resample": 2})", "resample"},
      {R"({"do_resize": 1})", "do_resize"},
      {R"([])", "preprocessor_config.json"},
      {R"({"image_processor": 3})", "image_processor"},
  };
  for (const auto& [text, name] : faults) {
    const auto config = ParseImageProcessorConfig(text);
    CAPTURE(text);
    REQUIRE(config.status().code() == absl::StatusCode::kInvalidArgument);
    INFO(config.status().message());
    CHECK(std::string(config.status().message()).find(name) != std::string::npos);
  }
}

}  // namespace
}  // namespace rserve::model
