#include "src/model/spec/video_plan.h"

#include <cmath>
#include <limits>

#include "src/model/spec/prompt_plan.h"
#include "tests/model/golden.h"

namespace rserve::model {
namespace {

using nlohmann::json;

TEST_CASE("frames are sampled as the reference samples them") {
  int checked = 0;
  const json golden = ReadGoldenJson("video.json");
  for (const json& c : golden["sampling"]) {
    CAPTURE(c.dump());
    FrameSampling sampling;
    sampling.temporal_patch_size = c["temporal_patch_size"];
    sampling.num_frames = c.value("num_frames", 0);
    sampling.fps = c.value("fps", 2.0);
    sampling.min_frames = c.value("min_frames", 4);
    sampling.max_frames = c.value("max_frames", 768);
    const int64_t total = c["total"];
    const auto frames = SampleFrames(total, c["source_fps"], sampling);
    if (c["frames"].is_null()) {
      // The reference fails. A video shorter than a temporal patch is taken whole here.
      if (frames.ok()) CHECK(static_cast<int64_t>(frames->size()) == total);
      continue;
    }
    REQUIRE(frames.ok());
    std::vector<int64_t> want = c["frames"].get<std::vector<int64_t>>();
    std::vector<int64_t> got = *frames;
    if (got.size() > 40) {
      std::vector<int64_t> ends(got.begin(), got.begin() + 20);
      ends.push_back(static_cast<int64_t>(got.size()));
      ends.insert(ends.end(), got.end() - 19, got.end());
      got = ends;
    }
    CHECK(got == want);
    ++checked;
  }
  CHECK(checked > 300);
}

TEST_CASE("no frame behind the last one is sampled, however the quotients round") {
  for (int64_t total = 1; total <= 1200; ++total) {
    for (int64_t wanted = 2; wanted <= total; wanted += 2) {
      FrameSampling sampling;
      sampling.num_frames = wanted;
      const auto frames = SampleFrames(total, 30, sampling);
      REQUIRE(frames.ok());
      if (static_cast<int64_t>(frames->size()) == wanted && frames->back() < total) continue;
      CAPTURE(total, wanted, frames->size(), frames->back());
      FAIL("not the frames that were wanted");
    }
  }
  FrameSampling all;
  all.num_frames = (1 << 24) - 2;
  const auto frames = SampleFrames((1 << 24) - 1, 30, all);
  REQUIRE(frames.ok());
  CHECK(frames->back() < (1 << 24) - 1);
}

TEST_CASE("videos stand in time where the model was trained to find them, at any frame rate") {
  const json golden = ReadGoldenJson("video.json");
  for (const json& c : golden["positions"]) {
    CAPTURE(c["parts"].dump());
    const float tokens_per_second = c["tokens_per_second"];
    ModelConfig config;
    config.vision.spatial_merge_size = 2;
    std::vector<PlannedItem> items;
    int64_t tokens = 0;
    for (const json& part : c["parts"]) {
      if (part[0] == "text") {
        tokens += part[1].get<int64_t>();
        continue;
      }
      PlannedItem item;
      item.plan.grid = {part[1], part[2], part[3]};
      item.plan.tokens = item.plan.grid.patches() / 4;
      item.token_begin = tokens;
      if (part[0] == "video") {
        auto temporal = TemporalPositions(item.plan.grid.t, part[4], tokens_per_second);
        REQUIRE(temporal.ok());
        item.temporal = *temporal;
      }
      tokens += item.plan.tokens;
      items.push_back(item);
    }
    int64_t delta = 0;
    const std::vector<int32_t> got = MropePositions(tokens, items, config, &delta);
    std::vector<int32_t> want;
    for (const json& axis : c["positions"]) {
      for (const json& position : axis) want.push_back(position);
    }
    CHECK(got == want);
    CHECK(delta == c["delta"].get<int64_t>());
  }
}

TEST_CASE("1 and 30 frames a second get other positions, and above 2 they do not collapse to 0") {
  const auto slow = TemporalPositions(8, 2.0 / 1, 2);
  const auto fast = TemporalPositions(8, 2.0 / 30, 2);
  REQUIRE(slow.ok());
  REQUIRE(fast.ok());
  CHECK(*slow == std::vector<int32_t>{0, 4, 8, 12, 16, 20, 24, 28});
  CHECK(*fast == std::vector<int32_t>{0, 0, 0, 0, 0, 0, 0, 0});
  const auto trained = TemporalPositions(8, 2.0 / 5, 25);
  REQUIRE(trained.ok());
  CHECK(*trained == std::vector<int32_t>{0, 10, 20, 30, 40, 50, 60, 70});
}

TEST_CASE("even timestamps stand where their frame rate does, uneven ones where they say") {
  const std::vector<double> even = {3, 3.5, 4, 4.5, 5, 5.5, 6};
  const auto by_time = TemporalPositions(even, 2, 4);
  const auto by_rate = TemporalPositions(4, 2 / 2.0, 4);
  REQUIRE(by_time.ok());
  REQUIRE(by_rate.ok());
  CHECK(*by_time == *by_rate);
  const std::vector<double> uneven = {0, 0.1, 0.2, 7, 7.1};
  REQUIRE(TemporalPositions(uneven, 2, 4).ok());
  CHECK(*TemporalPositions(uneven, 2, 4) == std::vector<int32_t>{0, 0, 28});
}

TEST_CASE("times that are no times are refused") {
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double seconds : {0.0, -1.0, nan, infinity, 1e300}) {
    CAPTURE(seconds);
    CHECK(absl::IsInvalidArgument(TemporalPositions(3, seconds, 2).status()));
    CHECK(absl::IsInvalidArgument(SampleFrames(100, seconds, {}).status()) == (seconds != 1e300));
  }
  for (const std::vector<double>& times :
       {std::vector<double>{0, -1}, {nan}, {0, infinity}, {0, 1, 1e12}}) {
    CHECK(absl::IsInvalidArgument(TemporalPositions(times, 1, 2).status()));
  }
  CHECK_FALSE(SampleFrames(0, 30, {}).ok());
  CHECK_FALSE(PlanVideo(56, 56, 0, {}).ok());
}

TEST_CASE("a video's temporal patches take the last frame again to fill up") {
  const auto one = PlanVideo(56, 84, 1, {});
  const auto five = PlanVideo(56, 84, 5, {});
  REQUIRE(one.ok());
  REQUIRE(five.ok());
  CHECK(one->grid == Grid{1, 4, 6});
  CHECK(five->grid == Grid{3, 4, 6});
  CHECK(five->tokens == 3 * one->tokens);
}

}  // namespace
}  // namespace rserve::model
