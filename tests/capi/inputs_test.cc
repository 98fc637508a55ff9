// Through the C ABI: pixels of every layout, a video's frames, embeddings made elsewhere, and what
// is kept for pictures that come again.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/capi/c_fixture.h"

namespace rserve::testing {
namespace {

constexpr int32_t kWidth = 44, kHeight = 33;

struct Result {
  rserve_status_t status = RSERVE_STATUS_OK;
  std::string message;
  std::vector<float> logits, embeddings;
  std::vector<rserve_item> items;
};

// Runs a request to its end.
Result Run(rserve_engine* engine, const std::vector<rserve_part>& parts, const char* salt = "",
           uint32_t flags = RSERVE_REQUEST_F_KEEP_LOGITS | RSERVE_REQUEST_F_KEEP_EMBEDDINGS) {
  rserve_request request = RequestOf(parts);
  request.flags = flags;
  request.cache_salt = salt;
  request.cache_salt_length = std::strlen(salt);
  uint64_t id = 0;
  const Failure failure = Submit(engine, request, &id);
  INFO(failure.message);
  REQUIRE(failure.code == RSERVE_STATUS_OK);
  Result result;
  result.status = WaitFor(engine, 1).back().status;
  rserve_detail* detail = nullptr;
  REQUIRE(rserve_request_detail(engine, id, &detail, nullptr) == RSERVE_STATUS_OK);
  size_t count = 0;
  const float* values = rserve_detail_logits(detail, &count);
  result.logits.assign(values, values + count);
  values = rserve_detail_embeddings(detail, &count);
  result.embeddings.assign(values, values + count);
  result.message = rserve_detail_message(detail, nullptr);
  rserve_item item = RSERVE_ITEM_INIT;
  while (rserve_detail_get_item(detail, result.items.size(), &item, nullptr) == RSERVE_STATUS_OK) {
    result.items.push_back(item);
  }
  rserve_detail_destroy(detail);
  CHECK(rserve_engine_acknowledge(engine, id, nullptr) == RSERVE_STATUS_OK);
  return result;
}

rserve_part PixelsPart(const std::vector<uint8_t>& pixels, rserve_layout_t layout) {
  rserve_part part = {};
  part.type = RSERVE_PART_PIXELS;
  part.data = pixels.data();
  part.count = pixels.size();
  part.width = kWidth;
  part.height = kHeight;
  part.layout = layout;
  return part;
}

rserve_stats StatsOf(rserve_engine* engine) {
  rserve_stats stats = RSERVE_STATS_INIT;
  REQUIRE(rserve_engine_get_stats(engine, &stats, nullptr) == RSERVE_STATUS_OK);
  return stats;
}

TEST_CASE("gray and RGBA pixels through the C ABI are the RGB pixels that they show") {
  const EnginePtr engine = MustCreate(TinyConfig());
  const std::vector<uint8_t> gray = TestPixels(kWidth, kHeight, 3);  // three times too many
  std::vector<uint8_t> rgb, rgba;
  for (size_t i = 0; i < size_t{kWidth} * kHeight; ++i) {
    rgb.insert(rgb.end(), 3, gray[i]);
    rgba.insert(rgba.end(), {gray[i], gray[i], gray[i], 255});
  }
  const Result want = Run(engine.get(), {PixelsPart(rgb, RSERVE_LAYOUT_RGB8)});
  CHECK(Run(engine.get(), {PixelsPart(gray, RSERVE_LAYOUT_GRAY8)}).logits == want.logits);
  CHECK(Run(engine.get(), {PixelsPart(rgba, RSERVE_LAYOUT_RGBA8)}).logits == want.logits);
}

// Five frames: three temporal patches.
struct Video {
  std::vector<uint8_t> pixels;
  rserve_frames frames = RSERVE_FRAMES_INIT;
  rserve_part part = {};

  Video() {
    for (uint64_t i = 0; i < 5; ++i) {
      const std::vector<uint8_t> frame = TestPixels(kWidth, kHeight, 70 + i);
      pixels.insert(pixels.end(), frame.begin(), frame.end());
    }
    frames.num_frames = 5;
    frames.fps = 1;
    part = PixelsPart(pixels, RSERVE_LAYOUT_RGB8);
    part.type = RSERVE_PART_FRAMES;
    part.frames = &frames;
  }
};

TEST_CASE("a video of frames runs through the C ABI, copied or borrowed, by rate or by times") {
  const EnginePtr engine = MustCreate(TinyConfig());
  Video video;
  const Result want = Run(engine.get(), {TextPart("a"), video.part});
  REQUIRE(want.status == RSERVE_STATUS_OK);
  REQUIRE(want.items.size() == 1);
  CHECK(want.items[0].grid_t == 3);
  CHECK(StatsOf(engine.get()).encoded_units == 3);
  video.part.flags = RSERVE_PART_F_BORROW;
  CHECK(Run(engine.get(), {TextPart("a"), video.part}).logits == want.logits);
  const double times[] = {0, 1, 2, 3, 4};
  video.frames.fps = 0;
  video.frames.timestamps_s = times;
  video.frames.num_timestamps = 5;
  CHECK(Run(engine.get(), {TextPart("a"), video.part}).logits == want.logits);
  video.frames = RSERVE_FRAMES_INIT;
  video.frames.num_frames = 5;
  video.frames.fps = 24;
  CHECK(Run(engine.get(), {TextPart("a"), video.part}).logits != want.logits);

  // Frames that lie apart, as gray.
  std::vector<uint8_t> apart(5 * (size_t{kWidth} * kHeight + 11), 1);
  video.part.layout = RSERVE_LAYOUT_GRAY8;
  video.part.data = apart.data();
  video.part.count = apart.size();
  video.frames.frame_stride_bytes = int64_t{kWidth} * kHeight + 11;
  CHECK(Run(engine.get(), {video.part}).status == RSERVE_STATUS_OK);
}

TEST_CASE("a faulty video is refused at submit with its part and what is wrong") {
  const EnginePtr engine = MustCreate(TinyConfig());
  using Change = void (*)(rserve_part*, rserve_frames*);
  static const double kTimes[] = {0, 2, 1, 3, 4};
  const std::pair<Change, const char*> faults[] = {
      {[](rserve_part*, rserve_frames* f) { f->fps = 0; }, "fps"},
      {[](rserve_part*, rserve_frames* f) { f->fps = -1; }, "fps"},
      {[](rserve_part*, rserve_frames* f) { f->fps = std::nan(""); }, "fps"},
      {[](rserve_part*, rserve_frames* f) { f->num_frames = 6; }, "6 frames"},
      {[](rserve_part*, rserve_frames* f) { f->num_frames = 0; }, "0 frames"},
      {[](rserve_part*, rserve_frames* f) { f->num_frames = -1; }, "-1 frames"},
      {[](rserve_part*, rserve_frames* f) { f->frame_stride_bytes = 5; }, "frame_stride_bytes"},
      {[](rserve_part*, rserve_frames* f) { f->num_timestamps = 5; }, "num_timestamps"},
      {[](rserve_part*, rserve_frames* f) {
         f->timestamps_s = kTimes;
         f->num_timestamps = 5;
       },
       "either fps"},
      {[](rserve_part*, rserve_frames* f) {
         f->fps = 0;
         f->timestamps_s = kTimes;
         f->num_timestamps = 5;
       },
       "time"},
      {[](rserve_part* p, rserve_frames*) { p->layout = 7; }, "layout 7"},
      {[](rserve_part* p, rserve_frames*) { p->width = 1 << 30; }, "pixels"},
      {[](rserve_part* p, rserve_frames*) { p->height = 0; }, "height 0"},
      {[](rserve_part* p, rserve_frames*) { p->frames = nullptr; }, "frames"},
  };
  for (const auto& [change, word] : faults) {
    Video video;
    change(&video.part, &video.frames);
    uint64_t id = 0;
    const Failure failure = Submit(engine.get(), RequestOf({TextPart("a"), video.part}), &id);
    CAPTURE(word, failure.message);
    CHECK((failure.code == RSERVE_STATUS_INVALID_ARGUMENT ||
           failure.code == RSERVE_STATUS_RESOURCE_EXHAUSTED));
    CHECK(failure.Mentions(word));
    CHECK((failure.Mentions("part 1") || failure.Mentions("parts[1]")));
  }
  CHECK(StatsOf(engine.get()).accepted == 0);
}

TEST_CASE("a GIF as a video runs through the C ABI, and its frames are chosen by rate or number") {
  const EnginePtr engine = MustCreate(TinyConfig());
  std::ifstream stream(std::string(RSERVE_SOURCE_DIR) + "/tests/data/media/anim_mixed.gif",
                       std::ios::binary);
  const std::vector<uint8_t> gif{std::istreambuf_iterator<char>(stream), {}};
  REQUIRE(gif.size() > 100);
  rserve_part part = {};
  part.type = RSERVE_PART_VIDEO;
  part.data = gif.data();
  part.count = gif.size();
  CHECK(Run(engine.get(), {part}).items.at(0).grid_t == 2);
  rserve_frames frames = RSERVE_FRAMES_INIT;
  part.frames = &frames;
  frames.num_frames = 6;
  part.flags = RSERVE_PART_F_BORROW;
  CHECK(Run(engine.get(), {part}).items.at(0).grid_t == 3);
  frames.num_frames = 0;
  frames.fps = 1000;
  CHECK(Run(engine.get(), {part}).items.at(0).grid_t == 3);
  using Change = void (*)(rserve_part*, rserve_frames*);
  const std::pair<Change, const char*> faults[] = {
      {[](rserve_part*, rserve_frames* f) { f->num_frames = 2; }, "at most one of the two"},
      {[](rserve_part*, rserve_frames* f) { f->fps = std::nan(""); }, "fps"},
      {[](rserve_part*, rserve_frames* f) { f->num_timestamps = 1; }, "only fps and num_frames"},
      {[](rserve_part*, rserve_frames* f) { f->frame_stride_bytes = 1; },
       "only fps and num_frames"},
      {[](rserve_part* p, rserve_frames*) { p->width = 1; }, "width"},
      {[](rserve_part* p, rserve_frames*) { p->count = 30; }, "GIF"},
  };
  const rserve_part good = part;
  for (const auto& [change, word] : faults) {
    part = good;
    frames = RSERVE_FRAMES_INIT;
    frames.fps = 1;
    change(&part, &frames);
    uint64_t id = 0;
    const Failure failure = Submit(engine.get(), RequestOf({part}), &id);
    CAPTURE(word, failure.message);
    CHECK(failure.code == RSERVE_STATUS_INVALID_ARGUMENT);
    CHECK(failure.Mentions(word));
  }
}

TEST_CASE("embeddings through the C ABI give the bits of the picture they are of, or say why not") {
  const EnginePtr engine = MustCreate(TinyConfig());
  const std::vector<uint8_t> pixels = TestPixels(kWidth, kHeight, 9);
  const Result want = Run(engine.get(), {TextPart("a"), PixelsPart(pixels, RSERVE_LAYOUT_RGB8)});
  rserve_embeddings rows = RSERVE_EMBEDDINGS_INIT;
  rows.rows = want.items.at(0).tokens;
  rows.width = kTinyHidden;
  rows.grid_h = want.items[0].grid_h / 2;
  rows.grid_w = want.items[0].grid_w / 2;
  std::vector<float> values = want.embeddings;
  rserve_part part = {};
  part.type = RSERVE_PART_EMBEDDINGS;
  part.data = values.data();
  part.count = values.size() * sizeof(float);
  part.embeddings = &rows;
  for (const uint32_t flags : {0u, RSERVE_PART_F_BORROW}) {
    part.flags = flags;
    const Result supplied = Run(engine.get(), {TextPart("a"), part});
    CHECK(supplied.logits == want.logits);
    CHECK(supplied.embeddings == want.embeddings);
  }

  using Change = void (*)(rserve_embeddings*);
  const std::pair<Change, const char*> faults[] = {
      {[](rserve_embeddings* e) { e->dtype = 3; }, "type 3"},
      {[](rserve_embeddings* e) { e->dtype = RSERVE_DTYPE_F16; }, "2 bytes"},
      {[](rserve_embeddings* e) { ++e->rows; }, "rows"},
      {[](rserve_embeddings* e) { e->rows = INT64_MAX; }, "rows"},
      {[](rserve_embeddings* e) { ++e->width; }, "wide"},
      {[](rserve_embeddings* e) { ++e->grid_w; }, "grid"},
      {[](rserve_embeddings* e) { e->grid_h = 0; }, "grid"},
      {[](rserve_embeddings* e) { e->grid_t = -1; }, "grid"},
      {[](rserve_embeddings* e) { e->reserved = 1; }, "reserved"},
      {[](rserve_embeddings* e) { e->seconds_per_grid = -1; }, "-1"},
  };
  const rserve_embeddings good = rows;
  for (const auto& [change, word] : faults) {
    rows = good;
    change(&rows);
    uint64_t id = 0;
    const Failure failure = Submit(engine.get(), RequestOf({TextPart("a"), part}), &id);
    CAPTURE(word, failure.message);
    CHECK(failure.code == RSERVE_STATUS_INVALID_ARGUMENT);
    CHECK(failure.Mentions(word));
  }
  rows = good;
  values[kTinyHidden + 2] = std::nanf("");
  const Result bad = Run(engine.get(), {part});
  CHECK(bad.status == RSERVE_STATUS_INVALID_ARGUMENT);
  CHECK(bad.message.find("row 1, column 2") != std::string::npos);
}

TEST_CASE("the cache's bytes, salt and counters go through the C ABI") {
  rserve_engine_config config = TinyConfig();
  config.embedding_cache_bytes = 1 << 20;
  const EnginePtr engine = MustCreate(config);
  const std::vector<uint8_t> png = TestPng(40, 24, 3);
  const std::vector<rserve_part> parts = {ImagePart(png), TextPart("What?")};
  const Result first = Run(engine.get(), parts, "one");
  const Result again = Run(engine.get(), parts, "one");
  CHECK(again.logits == first.logits);
  rserve_stats stats = StatsOf(engine.get());
  CHECK(stats.cache_hits == 1);
  CHECK(stats.cache_misses == 1);
  CHECK(stats.cache_bytes == 15 * kTinyRowBytes);
  CHECK(Run(engine.get(), parts, "other").logits == first.logits);
  stats = StatsOf(engine.get());
  CHECK(stats.cache_hits == 1);
  CHECK(stats.cache_misses == 2);
  CHECK(stats.peak_cache_bytes == 2 * 15 * kTinyRowBytes);
  CHECK(stats.cache_evictions == 0);
  CHECK(stats.cache_shared == 0);

  const EnginePtr off = MustCreate(TinyConfig());
  Run(off.get(), parts);
  Run(off.get(), parts);
  CHECK(StatsOf(off.get()).cache_misses == 0);
  CHECK(StatsOf(off.get()).encoded_units == 2);
}

TEST_CASE("KV reuse is switched on, told and counted through the C ABI") {
  rserve_engine_config config = TinyConfig();
  config.flags |= RSERVE_ENGINE_F_KV_REUSE;
  config.kv_block_tokens = 4;
  const EnginePtr engine = MustCreate(config);
  const std::vector<uint8_t> png = TestPng(40, 24, 3);
  const std::vector<rserve_part> parts = {ImagePart(png), TextPart("What?")};
  constexpr uint32_t kFlags = RSERVE_REQUEST_F_KEEP_LOGITS;
  const Result first = Run(engine.get(), parts, "one", kFlags);
  const Result again = Run(engine.get(), parts, "one", kFlags);
  CHECK(again.logits == first.logits);
  rserve_stats stats = StatsOf(engine.get());
  CHECK(stats.encoded_units == 1);
  CHECK(stats.reused_tokens >= 15 / 4 * 4);
  CHECK(stats.kv_blocks_cached > 0);
  CHECK(Run(engine.get(), parts, "other", kFlags).logits == first.logits);
  CHECK(StatsOf(engine.get()).encoded_units == 2);
  CHECK(StatsOf(engine.get()).reused_tokens == stats.reused_tokens);
}

}  // namespace
}  // namespace rserve::testing
