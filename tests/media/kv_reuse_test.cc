// Reuse of KV across requests: the same bits as without, pictures in a reused prefix neither
// decoded nor encoded, tenants apart, nothing lost to cancels or to a pool that is too small.

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rserve/cc/model_engine.h"
#include "tests/engine/harness.h"
#include "tests/engine/tiny_model.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

constexpr int32_t kSide = 40;  // of a picture: 5 x 5 tokens
constexpr int32_t kPictureTokens = 25;
constexpr int64_t kBlock = 8;

ModelEngineOptions ReuseOptions() {
  ModelEngineOptions options = TinyOptions();
  options.kv_block_tokens = kBlock;
  options.kv_reuse = true;
  return options;
}

// A turn is some text and a picture, both of `seed`.
class Conversation {
 public:
  Conversation& Turn(uint64_t seed) {
    pixels_.push_back(std::make_unique<std::vector<uint8_t>>(TestPixels(kSide, kSide, seed)));
    parts_.push_back(UserText{"Turn " + std::to_string(seed) + ": what is this?"});
    parts_.push_back(PixelImage{PixelLayout::kRgb8, *pixels_.back(), kSide, kSide, 0, true});
    return *this;
  }
  ModelRequest Ask(const std::string& question = "How many are there?") const {
    ModelRequest request;
    request.parts = parts_;
    request.parts.push_back(UserText{question});
    request.keep_logits = true;
    return request;
  }

 private:
  std::vector<std::unique_ptr<std::vector<uint8_t>>> pixels_;
  std::vector<RequestPart> parts_;
};

std::shared_ptr<const RequestDetail> Run(ModelEngine& engine, const ModelRequest& request) {
  const RequestId id = MustSubmit(engine, request);
  const Outcome outcome = WaitForAll(engine, {id}).at(id);
  INFO(outcome.terminal().status.ToString());
  REQUIRE(outcome.terminal().type == EventType::kFinished);
  return outcome.detail;
}

void CheckAtRest(const ModelEngine& engine) {
  while (!engine.idle()) std::this_thread::yield();
  const OrchestratorStats stats = engine.stats();
  CHECK(stats.kv_blocks_used == 0);
  CHECK(stats.embedding_bytes == 0);
  CHECK(stats.pixel_bytes == 0);
  CHECK(stats.units_in_flight == 0);
}

TEST_CASE(
    "a conversation that comes again or goes on gives the same bits and encodes what is new") {
  Conversation first, longer;
  first.Turn(1).Turn(2);
  longer.Turn(1).Turn(2).Turn(3);
  const auto plain = MustCreate(TinyOptions());
  const auto want_first = Run(*plain, first.Ask());
  const auto want_longer = Run(*plain, longer.Ask());
  CHECK(want_first->reused_tokens == 0);

  ModelEngineOptions options = ReuseOptions();
  SECTION("rserve") {}
  SECTION("three stages, small chunks") {
    options.stages = 3;
    options.token_budget = 5;
    options.encode_batch_tokens = 1;
  }
  SECTION("epd") { options.scheme = Scheme::kEpd; }
  SECTION("colocated") { options.scheme = Scheme::kColocated; }
  SECTION("adaptive, blocks of one token") {
    options.scheme = Scheme::kAdaptive;
    options.kv_block_tokens = 1;
  }
  SECTION("with an embedding cache") { options.embedding_cache_bytes = 1 << 20; }
  SECTION("two ranks") { options.tensor_parallel = 2; }
  const auto engine = MustCreate(options);
  std::shared_ptr<const RequestDetail> want = want_first;
  if (options.tensor_parallel > 1) {  // other bits than one rank's, but always the same
    ModelEngineOptions off = options;
    off.kv_reuse = false;
    want = Run(*MustCreate(off), first.Ask());
  }
  for (int round = 0; round < 3; ++round) {
    const auto detail = Run(*engine, first.Ask());
    CHECK(SameBits(detail->logits, want->logits));
    const int64_t prompt = static_cast<int64_t>(detail->token_ids.size());
    const int64_t blocks = (prompt - 1) / options.kv_block_tokens;
    CHECK(detail->reused_tokens == (round == 0 ? 0 : blocks * options.kv_block_tokens));
    CHECK(engine->stats().encoded_units == 2);
  }
  const auto detail = Run(*engine, longer.Ask());
  if (options.tensor_parallel == 1) CHECK(SameBits(detail->logits, want_longer->logits));
  CHECK(detail->reused_tokens > 2 * kPictureTokens);
  CHECK(engine->stats().encoded_units == 3);
  CHECK(engine->stats().reused_tokens > 0);
  CHECK(engine->stats().kv_blocks_cached > 0);
  CheckAtRest(*engine);
}

TEST_CASE("what differs in salt, text, pixels or order reuses no more than what is before it") {
  const auto engine = MustCreate(ReuseOptions());
  Conversation same;
  same.Turn(1).Turn(2);
  CHECK(Run(*engine, same.Ask())->reused_tokens == 0);
  ModelRequest other_tenant = same.Ask();
  other_tenant.cache_salt = "tenant 1";
  CHECK(Run(*engine, other_tenant)->reused_tokens == 0);
  CHECK(Run(*engine, other_tenant)->reused_tokens > 0);
  Conversation swapped;
  swapped.Turn(2).Turn(1);
  CHECK(Run(*engine, swapped.Ask())->reused_tokens == 0);
  // The second picture differs in one byte: its first row is in a block of its own content.
  Conversation tail;
  tail.Turn(1).Turn(2);
  ModelRequest request = tail.Ask();
  std::vector<uint8_t> pixels = TestPixels(kSide, kSide, 2);
  pixels.back() ^= 1;
  std::get<PixelImage>(request.parts[3]).pixels = pixels;
  const auto detail = Run(*engine, request);
  CHECK(detail->reused_tokens > kPictureTokens);
  CHECK(detail->reused_tokens <= detail->items[1].token_begin);
}

TEST_CASE("each picture has its two events once, also where it is covered") {
  const auto engine = MustCreate(ReuseOptions());
  Conversation conversation;
  conversation.Turn(1).Turn(2);
  Run(*engine, conversation.Ask());
  const RequestId id = MustSubmit(*engine, conversation.Ask());
  const Outcome outcome = WaitForAll(*engine, {id}).at(id);
  std::vector<int> encoded(2, 0), released(2, 0);
  for (const Event& event : outcome.events) {
    if (event.type == EventType::kItemEncoded) ++encoded[static_cast<size_t>(event.item)];
    if (event.type == EventType::kInputReleased) ++released[static_cast<size_t>(event.item)];
  }
  CHECK(encoded == std::vector<int>{1, 1});
  CHECK(released == std::vector<int>{1, 1});
  CHECK(outcome.detail->times.first_prepare_ns == 0);
  CHECK(outcome.detail->times.first_encode_ns == 0);
}

TEST_CASE("a picture that waits is not encoded once another request has written what reads it") {
  const std::vector<uint8_t> first = TestPixels(kSide, kSide, 1);
  const std::vector<uint8_t> second = TestPixels(kSide, kSide, 2);
  // No text before the pictures, with which a request could enter.
  ModelRequest request;
  request.image_markers = false;
  request.parts = {PixelImage{PixelLayout::kRgb8, first, kSide, kSide},
                   PixelImage{PixelLayout::kRgb8, second, kSide, kSide},
                   UserText{"How many are there?"}};
  request.keep_logits = true;
  const auto want = Run(*MustCreate(TinyOptions()), request);
  ModelEngineOptions options = ReuseOptions();
  // Room for one picture: those of later requests wait until the first request's are through.
  options.embedding_bytes = kPictureTokens * kTinyRowBytes;
  const auto engine = MustCreate(options);
  std::vector<RequestId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(MustSubmit(*engine, request));
  for (const auto& [id, outcome] : WaitForAll(*engine, ids)) {
    CAPTURE(id);
    REQUIRE(outcome.terminal().type == EventType::kFinished);
    CHECK(SameBits(outcome.detail->logits, want->logits));
    CHECK((outcome.detail->reused_tokens >= 2 * kPictureTokens) == (id != ids[0]));
  }
  CHECK(engine->stats().encoded_units == 2);
  CheckAtRest(*engine);
}

TEST_CASE("a video is reused patch by patch") {
  constexpr int32_t kFrames = 8;
  std::vector<uint8_t> frames;
  for (int32_t i = 0; i < kFrames; ++i) {
    const std::vector<uint8_t> frame = TestPixels(kSide, kSide, 70 + static_cast<uint64_t>(i));
    frames.insert(frames.end(), frame.begin(), frame.end());
  }
  VideoFrames video;
  video.pixels = frames;
  video.width = video.height = kSide;
  video.frames = kFrames;
  video.fps = 1;
  ModelRequest request;
  request.image_markers = false;
  request.parts = {video};  // ends the prompt, so that its last rows are never covered
  request.keep_logits = true;
  const auto want = Run(*MustCreate(TinyOptions()), request);
  const auto engine = MustCreate(ReuseOptions());
  Run(*engine, request);
  CHECK(engine->stats().encoded_units == kFrames / 2);
  const auto detail = Run(*engine, request);
  CHECK(SameBits(detail->logits, want->logits));
  CHECK(detail->reused_tokens == (4 * kPictureTokens - 1) / kBlock * kBlock);
  CHECK(engine->stats().encoded_units == kFrames / 2 + 1);
}

TEST_CASE("supplied embeddings are cut where the reused prefix ends inside of them") {
  const auto plain = MustCreate(TinyOptions());
  Conversation conversation;
  ModelRequest picture = conversation.Turn(1).Ask();
  picture.keep_embeddings = true;
  const auto made = Run(*plain, picture);
  EmbeddingInput rows;
  rows.data = {reinterpret_cast<const uint8_t*>(made->embeddings.data()),
               made->embeddings.size() * sizeof(float)};
  rows.shape = {kPictureTokens, kTinyHidden};
  rows.grid_h = rows.grid_w = 5;
  ModelRequest first;
  first.parts = {UserText{"This: "}, rows, UserText{"Which?"}};
  first.keep_logits = true;
  ModelRequest second = first;
  second.parts[2] = UserText{"How many?"};
  const auto want = Run(*plain, second);
  const auto engine = MustCreate(ReuseOptions());
  Run(*engine, first);
  const auto detail = Run(*engine, second);
  CHECK(SameBits(detail->logits, want->logits));
  // The block that the text behind differs in begins with rows of the picture.
  const int64_t begin = detail->items[0].token_begin;
  CHECK(detail->reused_tokens > begin);
  CHECK(detail->reused_tokens < begin + kPictureTokens);
  // Other rows of the same grid reuse the text before them alone.
  std::vector<float> other(made->embeddings.begin(), made->embeddings.end());
  other.back() += 1;
  rows.data = {reinterpret_cast<const uint8_t*>(other.data()), other.size() * sizeof(float)};
  second.parts[1] = rows;
  CHECK(Run(*engine, second)->reused_tokens <= begin);
}

TEST_CASE("a request that keeps its embeddings has them all, and reuses nothing") {
  const auto engine = MustCreate(ReuseOptions());
  Conversation conversation;
  conversation.Turn(1);
  Run(*engine, conversation.Ask());
  ModelRequest request = conversation.Ask();
  request.keep_embeddings = true;
  const auto detail = Run(*engine, request);
  CHECK(detail->reused_tokens == 0);
  CHECK(detail->embeddings.size() == size_t{kPictureTokens} * kTinyHidden);
}

TEST_CASE("requests at once, with cancels, in a pool that holds two of them: same bits or an end") {
  std::vector<Conversation> conversations;
  std::vector<std::vector<float>> want;
  {
    const auto plain = MustCreate(TinyOptions());
    for (uint64_t i = 0; i < 5; ++i) {
      // Two begin alike, and one is the beginning of another.
      Conversation& c = conversations.emplace_back();
      c.Turn(i / 2 + 1);
      if (i != 3) c.Turn(10 + i);
      want.push_back(Run(*plain, c.Ask())->logits);
    }
  }
  ModelEngineOptions options = ReuseOptions();
  options.kv_tokens = 240;  // a request takes about 100
  options.token_budget = 24;
  options.media_threads = 2;
  SECTION("streaming") { options.stages = 2; }
  SECTION("whole requests") { options.scheme = Scheme::kEpd; }
  SECTION("colocated") { options.scheme = Scheme::kColocated; }
  const auto engine = MustCreate(options);
  for (int round = 0; round < 4; ++round) {
    std::vector<RequestId> ids;
    for (size_t i = 0; i < 10; ++i) {
      ids.push_back(MustSubmit(*engine, conversations[(i * 3 + round) % 5].Ask()));
      if (i % 4 == 3) engine->Cancel(ids[i - 1]).IgnoreError();  // it may have ended by now
    }
    const auto outcomes = WaitForAll(*engine, ids, [&](const Event& event) {
      if (event.type == EventType::kItemEncoded && event.request % 6 == 1) {
        engine->Cancel(event.request).IgnoreError();
      }
    });
    for (size_t i = 0; i < ids.size(); ++i) {
      const Outcome& outcome = outcomes.at(ids[i]);
      if (outcome.terminal().type == EventType::kCancelled) continue;
      REQUIRE(outcome.terminal().type == EventType::kFinished);
      CHECK(SameBits(outcome.detail->logits, want[(i * 3 + round) % 5]));
    }
  }
  CheckAtRest(*engine);
  CHECK(engine->stats().reused_tokens > 0);
  CHECK(engine->stats().kv_evictions > 0);
}

}  // namespace
}  // namespace rserve::testing
