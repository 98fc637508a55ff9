// The kinds of input beside picture files, through an engine: raw layouts, videos, embeddings made
// elsewhere.

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

#include "rserve/cc/model_engine.h"
#include "src/media/gif_video.h"
#include "tests/engine/harness.h"
#include "tests/engine/tiny_model.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

constexpr int32_t kWidth = 44, kHeight = 33;

ModelRequest Ask(RequestPart part) {
  ModelRequest request;
  request.parts = {UserText{"What is this? "}, std::move(part), UserText{" And that?"}};
  request.keep_logits = request.keep_embeddings = true;
  return request;
}

Outcome Run(ModelEngine& engine, const ModelRequest& request) {
  const RequestId id = MustSubmit(engine, request);
  Outcome outcome = WaitForAll(engine, {id}).at(id);
  INFO(outcome.terminal().status.ToString());
  REQUIRE(outcome.terminal().type == EventType::kFinished);
  return outcome;
}

absl::Status Refusal(ModelEngine& engine, RequestPart part) {
  return engine.Submit(Ask(std::move(part))).status();
}

PixelImage Rgb(const std::vector<uint8_t>& pixels) {
  return PixelImage{PixelLayout::kRgb8, pixels, kWidth, kHeight, 0, false};
}

template <typename T>
absl::Span<const uint8_t> BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}

TEST_CASE("gray and RGBA pixels are the RGB pixels that they show, over white") {
  const auto engine = MustCreate(TinyOptions());
  const std::vector<uint8_t> rgb = TestPixels(kWidth, kHeight, 5);
  std::vector<uint8_t> gray, wide, rgba, white;
  for (size_t i = 0; i < rgb.size(); i += 3) {
    const bool clear = i / 3 % 5 == 0;
    gray.push_back(rgb[i]);
    wide.insert(wide.end(), 3, rgb[i]);
    rgba.insert(rgba.end(),
                {rgb[i], rgb[i + 1], rgb[i + 2], static_cast<uint8_t>(clear ? 0 : 255)});
    for (size_t c = 0; c < 3; ++c) white.push_back(clear ? 255 : rgb[i + c]);
  }
  const Outcome a = Run(*engine, Ask(PixelImage{PixelLayout::kGray8, gray, kWidth, kHeight}));
  const Outcome b = Run(*engine, Ask(Rgb(wide)));
  CHECK(SameBits(a.detail->logits, b.detail->logits));
  const Outcome c = Run(*engine, Ask(PixelImage{PixelLayout::kRgba8, rgba, kWidth, kHeight}));
  const Outcome d = Run(*engine, Ask(Rgb(white)));
  CHECK(SameBits(c.detail->logits, d.detail->logits));
  CHECK_FALSE(SameBits(b.detail->logits, d.detail->logits));
  // The layout is said, never guessed from the number of bytes.
  CHECK(absl::IsInvalidArgument(
      Refusal(*engine, PixelImage{PixelLayout::kRgba8, rgb, kWidth, kHeight})));
  CHECK(absl::IsInvalidArgument(
      Refusal(*engine, PixelImage{static_cast<PixelLayout>(3), rgba, kWidth, kHeight})));
}

TEST_CASE("supplied embeddings give the bits of the picture they are of") {
  const auto engine = MustCreate(TinyOptions());
  const std::vector<uint8_t> rgb = TestPixels(kWidth, kHeight, 6);
  const Outcome picture = Run(*engine, Ask(Rgb(rgb)));
  const ItemDetail item = picture.detail->items.at(0);
  EmbeddingInput input;
  input.data = BytesOf(picture.detail->embeddings);
  input.shape = {item.tokens, engine->info().hidden_size};
  input.grid_h = item.grid_h / 2;
  input.grid_w = item.grid_w / 2;
  for (const bool borrow : {false, true}) {
    input.borrow = borrow;
    const Outcome supplied = Run(*engine, Ask(input));
    CHECK(SameBits(supplied.detail->logits, picture.detail->logits));
    CHECK(SameBits(supplied.detail->embeddings, picture.detail->embeddings));
    CHECK(supplied.detail->token_ids == picture.detail->token_ids);
  }

  std::vector<uint16_t> brain;
  for (const float value : picture.detail->embeddings) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    brain.push_back(static_cast<uint16_t>(bits >> 16));
  }
  EmbeddingInput cut = input;
  cut.type = EmbeddingType::kBfloat16;
  cut.data = BytesOf(brain);
  const Outcome rounded = Run(*engine, Ask(cut));
  for (size_t i = 0; i < brain.size(); ++i) {
    const float want = picture.detail->embeddings[i];
    REQUIRE(std::fabs(rounded.detail->embeddings[i] - want) <= std::fabs(want) / 128);
  }
  // Half floats: 1, -2, the smallest number, 65504.
  const std::vector<uint16_t> halves = {0x3c00, 0xc000, 0x0001, 0x7bff};
  std::vector<uint16_t> rows;
  for (size_t i = 0; i < brain.size(); ++i) rows.push_back(halves[i % 4]);
  cut.type = EmbeddingType::kFloat16;
  cut.data = BytesOf(rows);
  const Outcome half = Run(*engine, Ask(cut));
  CHECK(half.detail->embeddings[0] == 1.0f);
  CHECK(half.detail->embeddings[1] == -2.0f);
  CHECK(half.detail->embeddings[2] == std::ldexp(1.0f, -24));
  CHECK(half.detail->embeddings[3] == 65504.0f);
}

TEST_CASE("supplied embeddings of another rank, size, width, type or grid are refused at submit") {
  const auto engine = MustCreate(TinyOptions());
  const int64_t width = engine->info().hidden_size;
  const std::vector<float> rows(static_cast<size_t>(6 * width), 0.5f);
  EmbeddingInput good;
  good.data = BytesOf(rows);
  good.shape = {6, width};
  good.grid_h = 2;
  good.grid_w = 3;
  REQUIRE(Refusal(*engine, good).ok());
  using Change = void (*)(EmbeddingInput&);
  const std::pair<Change, const char*> faults[] = {
      {[](EmbeddingInput& e) { e.shape.insert(e.shape.begin(), 1); }, "3 dimensions"},
      {[](EmbeddingInput& e) { e.shape = {}; }, "0 dimensions"},
      {[](EmbeddingInput& e) { e.shape[0] = 5; }, "5 rows"},
      {[](EmbeddingInput& e) { e.shape[0] = INT64_MAX; }, "rows"},
      {[](EmbeddingInput& e) { e.shape[0] = -1; }, "-1 rows"},
      {[](EmbeddingInput& e) { e.shape[1] += 1; }, "wide"},
      {[](EmbeddingInput& e) { e.type = static_cast<EmbeddingType>(9); }, "type 9"},
      {[](EmbeddingInput& e) { e.type = EmbeddingType::kFloat16; }, "2 bytes"},
      {[](EmbeddingInput& e) { e.grid_w = 2; }, "grid"},
      {[](EmbeddingInput& e) { e.grid_h = -2, e.grid_w = -3; }, "grid"},
      {[](EmbeddingInput& e) { e.grid_t = 2, e.grid_h = 1; }, "seconds_per_grid"},
      {[](EmbeddingInput& e) { e.seconds_per_grid = std::nan(""); }, "positive"},
  };
  for (const auto& [change, word] : faults) {
    EmbeddingInput input = good;
    change(input);
    const absl::Status status = Refusal(*engine, input);
    INFO(status.ToString());
    CHECK(absl::IsInvalidArgument(status));
    CHECK(std::string(status.message()).find(word) != std::string::npos);
  }
}

TEST_CASE("a supplied row that is not finite fails its request alone") {
  const auto engine = MustCreate(TinyOptions());
  const int64_t width = engine->info().hidden_size;
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    std::vector<float> rows(static_cast<size_t>(6 * width), 0.5f);
    rows[static_cast<size_t>(4 * width + 3)] = bad;
    EmbeddingInput input;
    input.data = BytesOf(rows);
    input.shape = {6, width};
    input.grid_h = 2;
    input.grid_w = 3;
    const RequestId failing = MustSubmit(*engine, Ask(input));
    const std::vector<uint8_t> rgb = TestPixels(kWidth, kHeight, 6);
    const RequestId fine = MustSubmit(*engine, Ask(Rgb(rgb)));
    const auto outcomes = WaitForAll(*engine, {failing, fine});
    CHECK(outcomes.at(fine).terminal().type == EventType::kFinished);
    const Event& end = outcomes.at(failing).terminal();
    CHECK(end.type == EventType::kFailed);
    CHECK(absl::IsInvalidArgument(end.status));
    CHECK(std::string(end.status.message()).find("row 4, column 3") != std::string::npos);
  }
  CHECK(engine->stats().embedding_bytes == 0);
}

// Five frames: three temporal patches, the last of one frame.
struct Video {
  std::vector<uint8_t> pixels;
  VideoFrames part;
  Video() {
    for (uint64_t i = 0; i < 5; ++i) {
      const std::vector<uint8_t> frame = TestPixels(kWidth, kHeight, 70 + i);
      pixels.insert(pixels.end(), frame.begin(), frame.end());
    }
    part.pixels = pixels;
    part.width = kWidth;
    part.height = kHeight;
    part.frames = 5;
    part.fps = 1;
  }
};

TEST_CASE("a video's temporal patches are units, encoded as its frames would be alone") {
  const Video video;
  const auto engine = MustCreate(TinyOptions());
  const Outcome whole = Run(*engine, Ask(video.part));
  REQUIRE(whole.detail->items.size() == 1);
  const ItemDetail item = whole.detail->items[0];
  CHECK(item.grid_t == 3);
  CHECK(engine->stats().encoded_units == 3);
  const size_t unit = whole.detail->embeddings.size() / 3;
  // The last patch is one frame, twice: a still picture.
  const std::vector<uint8_t> last = TestPixels(kWidth, kHeight, 74);
  const Outcome still = Run(*engine, Ask(Rgb(last)));
  CHECK(SameBits({whole.detail->embeddings.end() - static_cast<std::ptrdiff_t>(unit),
                  whole.detail->embeddings.end()},
                 still.detail->embeddings));
  CHECK(item.tokens == 3 * still.detail->items[0].tokens);
  // The first two frames alone.
  VideoFrames front = video.part;
  front.frames = 2;
  const Outcome first = Run(*engine, Ask(front));
  CHECK(SameBits({whole.detail->embeddings.begin(),
                  whole.detail->embeddings.begin() + static_cast<std::ptrdiff_t>(unit)},
                 first.detail->embeddings));
}

TEST_CASE("a video larger than the embedding budget is prefilled patch by patch, with equal bits") {
  const Video video;
  const Outcome roomy = Run(*MustCreate(TinyOptions()), Ask(video.part));
  ModelEngineOptions options = TinyOptions();
  const ItemDetail item = roomy.detail->items.at(0);
  options.embedding_bytes = item.tokens / 3 * kTinyRowBytes;
  options.encode_batch_tokens = 1;
  options.token_budget = 7;
  const auto engine = MustCreate(options);
  const Outcome tight = Run(*engine, Ask(video.part));
  CHECK(SameBits(tight.detail->logits, roomy.detail->logits));
  CHECK(engine->stats().peak_embedding_bytes == options.embedding_bytes);
}

TEST_CASE(
    "a checkpoint's own template writes its chats; one that cannot be used refuses them alone") {
  const TempFolder folder;
  REQUIRE(WriteTinyModel(RSERVE_SOURCE_DIR, folder.path()));
  const auto write = [&folder](const char* name, const std::string& text) {
    std::ofstream(folder.path() + "/" + name, std::ios::binary) << text;
  };
  const std::vector<uint8_t> png = TestPng(16, 16, 1);
  const std::vector<ChatMessage> chat = {
      {"user", {UserText{"<|im_end|>"}, EncodedImage{png}, UserText{"What?"}}}};
  ModelEngineOptions options = TinyOptions();
  options.model_path = folder.path();
  const auto text_of = [&chat](const ModelEngine& engine) {
    const auto parts = engine.RenderChat(chat, true);
    INFO(parts.status().ToString());
    REQUIRE(parts.ok());
    ModelRequest request;
    request.parts = *parts;
    const auto plan = engine.PlanRequest(request);
    REQUIRE(plan.ok());
    CHECK(plan->items.size() == 1);
    return engine.Decode(plan->token_ids);
  };
  const std::string picture =
      "<|vision_start|><|image_pad|><|image_pad|><|image_pad|><|image_pad|>"
      "<|vision_end|>";
  const std::string built_in =
      "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
      "<|im_start|>user\n<|im_end|>Picture 1: " +
      picture + "What?<|im_end|>\n<|im_start|>assistant\n";
  CHECK(text_of(*MustCreate(options)) == built_in);
  // The other places a template may stand in, each found before the next.
  write(
      "tokenizer_config.json",
      R"({"eos_token": {"content": "<|im_end|>"}, "chat_template": [{"name": "default", "template":
        "C{{ eos_token }}{{ messages[0].role }}<|vision_start|><|image_pad|><|vision_end|>"}]})");
  CHECK(text_of(*MustCreate(options)) == "C<|im_end|>user" + picture);
  write(
      "chat_template.json",
      R"({"chat_template": "B<|vision_start|><|image_pad|><|vision_end|>{{ messages | length }}"})");
  CHECK(text_of(*MustCreate(options)) == "B" + picture + "1");
  write("chat_template.jinja", "A<|vision_start|><|image_pad|><|vision_end|>\n");
  CHECK(text_of(*MustCreate(options)) == "A" + picture);

  write("chat_template.jinja", "\n{% include 'x' %}");
  const auto engine = MustCreate(options);
  const auto refused = engine->RenderChat(chat);
  CHECK(absl::IsUnimplemented(refused.status()));
  for (const char* word : {"chat_template.jinja", "line 2", "'include'"}) {
    CHECK(refused.status().ToString().find(word) != std::string::npos);
  }
  CHECK(Run(*engine, Ask(EncodedImage{png})).terminal().type == EventType::kFinished);
}

TEST_CASE("a GIF is the video of its frames at its times") {
  const std::string path = std::string(RSERVE_SOURCE_DIR) + "/tests/data/media/anim_mixed.gif";
  std::ifstream stream(path, std::ios::binary);
  const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(stream), {}};
  REQUIRE(bytes.size() > 100);
  VideoFile file;
  file.bytes = bytes;
  file.num_frames = 6;  // of 7: the sampling takes 0, 1, 2, 3, 4, 5
  const auto info = media::ReadGifVideo(bytes, {});
  REQUIRE(info.ok());
  media::GifPlayer player(bytes, *info);
  std::vector<uint8_t> pixels;
  VideoFrames frames;
  for (int64_t i = 0; i < 6; ++i) {
    const auto image = player.Show(i);
    REQUIRE(image.ok());
    pixels.insert(pixels.end(), image->data.begin(), image->data.end());
    frames.timestamps_s.push_back(info->begin_s[static_cast<size_t>(i)]);
  }
  frames.pixels = pixels;
  frames.width = info->width;
  frames.height = info->height;
  frames.frames = 6;
  ModelEngineOptions options = TinyOptions();
  options.embedding_cache_bytes = 1 << 20;
  const auto engine = MustCreate(options);
  const Outcome want = Run(*engine, Ask(frames));
  CHECK(want.detail->items.at(0).grid_t == 3);
  for (const bool borrow : {false, true}) {
    file.borrow = borrow;
    const Outcome got = Run(*engine, Ask(file));
    CHECK(SameBits(got.detail->logits, want.detail->logits));
    CHECK(SameBits(got.detail->embeddings, want.detail->embeddings));
  }
  CHECK(engine->embedding_cache_stats().hits == 3);  // of the second time

  file.num_frames = 2;
  CHECK(engine->PlanRequest(Ask(file))->items.at(0).grid_t == 1);
  file.num_frames = 0;  // two frames a second of 0.21 s: at least four
  CHECK(engine->PlanRequest(Ask(file))->items.at(0).grid_t == 2);
  file.num_frames = 100;
  CHECK(absl::IsInvalidArgument(Refusal(*engine, file)));
  file.num_frames = -1;
  CHECK(absl::IsInvalidArgument(Refusal(*engine, file)));
  file.num_frames = 2;
  file.fps = 2;
  CHECK(absl::IsInvalidArgument(Refusal(*engine, file)));
  file = VideoFile();
  const std::vector<uint8_t> png = TestPng(16, 16, 1);
  file.bytes = png;
  CHECK(std::string(Refusal(*engine, file).message()).find("no GIF") != std::string::npos);

  // A file that is cut in a frame's pixels is planned, and fails its request alone.
  std::vector<uint8_t> cut;
  for (size_t size = 100; size < bytes.size(); ++size) {
    cut.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    const auto part = media::ReadGifVideo(cut, {});
    if (part.ok() && part->frames() == 2 && !media::GifPlayer(cut, *part).Show(1).ok()) break;
  }
  REQUIRE(cut.size() < bytes.size() - 1);
  file.bytes = cut;
  const RequestId id = MustSubmit(*engine, Ask(file));
  const auto outcomes = WaitForAll(*engine, {id});
  CHECK(outcomes.at(id).terminal().type == EventType::kFailed);
  CHECK(absl::IsInvalidArgument(outcomes.at(id).terminal().status));
}

TEST_CASE("a video's frame rate is required and decides its positions") {
  const Video video;
  const auto engine = MustCreate(TinyOptions());
  VideoFrames part = video.part;
  part.fps = 0;
  const absl::Status none = Refusal(*engine, part);
  CHECK(absl::IsInvalidArgument(none));
  CHECK(std::string(none.message()).find("fps") != std::string::npos);
  part.timestamps_s = {0, 1, 2, 3};
  CHECK(absl::IsInvalidArgument(Refusal(*engine, part)));  // one too few
  part.timestamps_s = {0, 1, 2, 3, 4};
  const auto by_time = engine->PlanRequest(Ask(part));
  part.fps = 1;
  CHECK(absl::IsInvalidArgument(Refusal(*engine, part)));  // both
  const auto by_rate = engine->PlanRequest(Ask(video.part));
  REQUIRE(by_time.ok());
  REQUIRE(by_rate.ok());
  CHECK(by_time->positions == by_rate->positions);
  part = video.part;
  part.fps = 30;
  const auto fast = engine->PlanRequest(Ask(part));
  REQUIRE(fast.ok());
  CHECK(fast->token_ids == by_rate->token_ids);
  CHECK(fast->positions != by_rate->positions);
  for (const double fps : {-1.0, std::nan(""), 1e-12}) {
    part.fps = fps;
    CHECK(absl::IsInvalidArgument(Refusal(*engine, part)));
  }
  part = video.part;
  part.frames = 6;
  CHECK(absl::IsInvalidArgument(Refusal(*engine, part)));
  part.frames = 5;
  part.frame_stride_bytes = 10;
  CHECK(absl::IsInvalidArgument(Refusal(*engine, part)));
  part.frame_stride_bytes = INT64_MAX;
  CHECK(absl::IsInvalidArgument(Refusal(*engine, part)));
}

}  // namespace
}  // namespace rserve::testing
