// A video file through an engine.

#include <string>
#include <vector>

#include "rserve/cc/model_engine.h"
#include "src/media/video.h"
#include "src/model/spec/video_plan.h"
#include "tests/engine/harness.h"
#include "tests/engine/tiny_model.h"
#include "tests/media/clip_maker.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

ModelRequest Ask(RequestPart part) {
  ModelRequest request;
  request.parts = {UserText{"What is this? "}, std::move(part), UserText{" And that?"}};
  request.keep_logits = true;
  return request;
}

Outcome Run(ModelEngine& engine, const ModelRequest& request) {
  const RequestId id = MustSubmit(engine, request);
  return WaitForAll(engine, {id}).at(id);
}

TEST_CASE("a video file is the frames that the reference samples of it, at their times") {
  constexpr int kCount = 24;
  ClipOptions options;
  for (int i = 0; i < kCount; ++i) options.times.push_back(i * 12);
  const auto clip = ClipFrames(options.width, options.height, kCount);
  const std::vector<uint8_t> bytes = MakeClip(options, clip);
  REQUIRE_FALSE(bytes.empty());
  const auto info = media::ReadVideo(bytes, {});
  REQUIRE(info.ok());
  model::FrameSampling sampling;
  sampling.num_frames = 6;
  const auto taken = model::SampleFrames(kCount, kCount / info->duration_s, sampling);
  REQUIRE(taken.ok());
  std::vector<uint8_t> pixels;
  VideoFrames frames;
  for (const int64_t frame : *taken) {
    const std::vector<uint8_t>& rgb = clip[static_cast<size_t>(frame)];
    pixels.insert(pixels.end(), rgb.begin(), rgb.end());
    frames.timestamps_s.push_back(info->begin_s[static_cast<size_t>(frame)]);
  }
  frames.pixels = pixels;
  frames.width = options.width;
  frames.height = options.height;
  frames.frames = 6;
  ModelEngineOptions engine_options = TinyOptions();
  engine_options.kv_reuse = true;
  engine_options.media_threads = 2;
  const auto engine = MustCreate(engine_options);
  const Outcome want = Run(*engine, Ask(frames));
  REQUIRE(want.terminal().type == EventType::kFinished);
  CHECK(want.detail->items.at(0).grid_t == 3);
  VideoFile file;
  file.bytes = bytes;
  file.num_frames = 6;
  for (const bool borrow : {false, true}) {
    file.borrow = borrow;
    const Outcome got = Run(*engine, Ask(file));
    INFO(got.terminal().status.ToString());
    REQUIRE(got.terminal().type == EventType::kFinished);
    CHECK(SameBits(got.detail->logits, want.detail->logits));
    // The file's digest is its own: the first time only text before it is reused.
    CHECK((got.detail->reused_tokens > got.detail->items[0].token_begin + 1) == borrow);
  }
  // A frame that cannot be decoded ends the request in words.
  std::vector<uint8_t> damaged = bytes;
  for (size_t i = damaged.size() / 2; i < damaged.size() / 2 + 200; ++i) damaged[i] ^= 0x5a;
  file.bytes = damaged;
  file.num_frames = 24;
  const auto id = engine->Submit(Ask(file));
  if (id.ok()) {
    const Outcome got = WaitForAll(*engine, {*id}).at(*id);
    CHECK(got.terminal().status.code() == absl::StatusCode::kInvalidArgument);
  } else {
    CHECK(id.status().code() == absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace rserve::testing
