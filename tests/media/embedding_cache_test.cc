// Reuse of embeddings across requests: the same bits, verified hits, bounded bytes, one encode for
// equal pictures in flight, and a switch.

#include <cstring>
#include <string>

#include "rserve/cc/model_engine.h"
#include "src/runtime/model/embedding_cache.h"
#include "src/runtime/model/sha256.h"
#include "tests/core/rng.h"
#include "tests/engine/harness.h"
#include "tests/engine/tiny_model.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

using runtime::Digest;
using runtime::EmbeddingCache;
using runtime::Sha256;
using runtime::Sha256Blocks;

constexpr int32_t kWidth = 40, kHeight = 24;
constexpr int64_t kPictureBytes = 15 * kTinyRowBytes;  // 5 x 3 tokens

ModelEngineOptions CachedOptions(int64_t bytes = 1 << 20) {
  ModelEngineOptions options = TinyOptions();
  options.embedding_cache_bytes = bytes;
  return options;
}

struct Picture {
  std::vector<uint8_t> pixels;
  explicit Picture(uint64_t seed) : pixels(TestPixels(kWidth, kHeight, seed)) {}
  ModelRequest Ask(const std::string& salt = "") const {
    ModelRequest request;
    request.parts = {PixelImage{PixelLayout::kRgb8, pixels, kWidth, kHeight, 0, false},
                     UserText{"What is this?"}};
    request.keep_logits = true;
    request.cache_salt = salt;
    return request;
  }
};

std::vector<float> Logits(ModelEngine& engine, const ModelRequest& request) {
  const RequestId id = MustSubmit(engine, request);
  const Outcome outcome = WaitForAll(engine, {id}).at(id);
  INFO(outcome.terminal().status.ToString());
  REQUIRE(outcome.terminal().type == EventType::kFinished);
  return outcome.detail->logits;
}

std::string Hex(const Digest& digest) {
  std::string text;
  for (const uint8_t byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string HashOf(const std::string& text, size_t piece) {
  Sha256 hash;
  const auto* data = reinterpret_cast<const uint8_t*>(text.data());
  for (size_t at = 0; at < text.size(); at += piece) {
    hash.Add({data + at, std::min(piece, text.size() - at)});
  }
  return Hex(hash.Finish());
}

TEST_CASE("SHA-256 gives the standard's examples, in whatever pieces the message comes") {
  CHECK(HashOf("", 1) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::string two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  const std::string million(1000000, 'a');
  for (const size_t piece : {1, 3, 63, 64, 65, 1000}) {
    CHECK(HashOf("abc", piece) ==
          "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(HashOf(two, piece) == "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    CHECK(HashOf(million, piece) ==
          "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
}

TEST_CASE("SHA-256 by the processor's own instructions gives the portable one's state") {
  const Sha256Blocks hardware = runtime::HardwareSha256Blocks();
  CHECK(runtime::BestSha256Blocks() != nullptr);
  if (hardware == nullptr) return;  // a processor without
  CHECK(runtime::BestSha256Blocks() == hardware);
  test::Rng rng(5);
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    // Any alignment; a copy of exactly this size shows a read past its end.
    const auto blocks = static_cast<size_t>(rng.In(0, 9));
    const auto shift = static_cast<size_t>(rng.In(0, 15));
    std::vector<uint8_t> data(shift + 64 * blocks);
    for (uint8_t& byte : data) byte = static_cast<uint8_t>(rng.Next());
    uint32_t want[8], got[8];
    for (size_t i = 0; i < 8; ++i) want[i] = got[i] = static_cast<uint32_t>(rng.Next());
    runtime::PortableSha256Blocks(want, data.data() + shift, blocks);
    hardware(got, data.data() + shift, blocks);
    for (size_t i = 0; i < 8; ++i) CHECK(got[i] == want[i]);
  }
}

TEST_CASE("a picture that was seen before is neither decoded nor encoded, and gives equal bits") {
  const Picture a(1), b(2);
  const auto plain = MustCreate(TinyOptions());
  const auto engine = MustCreate(CachedOptions());
  const std::vector<float> want_a = Logits(*plain, a.Ask());
  const std::vector<float> want_b = Logits(*plain, b.Ask());
  CHECK_FALSE(SameBits(want_a, want_b));
  for (int round = 0; round < 3; ++round) {
    CHECK(SameBits(Logits(*engine, a.Ask()), want_a));
    CHECK(SameBits(Logits(*engine, b.Ask()), want_b));
  }
  CHECK(engine->embedding_cache_stats().misses == 2);
  CHECK(engine->embedding_cache_stats().hits == 4);
  CHECK(engine->embedding_cache_stats().bytes == 2 * kPictureBytes);
  // Off by default: nothing is kept and nothing is counted.
  CHECK(plain->embedding_cache_stats().misses == 0);
  CHECK(plain->embedding_cache_stats().capacity_bytes == 0);
}

TEST_CASE("equal pictures of requests in flight are encoded once") {
  const Picture a(3);
  const std::vector<float> want = Logits(*MustCreate(TinyOptions()), a.Ask());
  ModelEngineOptions options = CachedOptions();
  options.encoders = 2;
  options.media_threads = 3;
  options.encode_batch_tokens = GENERATE(int64_t{1}, int64_t{1024});
  const auto engine = MustCreate(options);
  std::vector<RequestId> ids;
  for (int i = 0; i < 12; ++i) {
    ModelRequest request = a.Ask();
    // Twice in one request, so in one encode batch.
    if (i % 3 == 0) request.parts.insert(request.parts.begin(), request.parts[0]);
    ids.push_back(MustSubmit(*engine, request));
  }
  const auto outcomes = WaitForAll(*engine, ids);
  for (size_t i = 0; i < ids.size(); ++i) {
    REQUIRE(outcomes.at(ids[i]).terminal().type == EventType::kFinished);
    if (i % 3 != 0) CHECK(SameBits(outcomes.at(ids[i]).detail->logits, want));
  }
  const EmbeddingCacheStats stats = engine->embedding_cache_stats();
  CHECK(stats.misses == 1);
  CHECK(stats.hits + stats.shared == 15);
}

TEST_CASE("what differs in content, layout, size or salt shares nothing") {
  const auto engine = MustCreate(CachedOptions());
  const Picture a(4);
  Logits(*engine, a.Ask());
  Logits(*engine, a.Ask("tenant 1"));
  Logits(*engine, a.Ask("tenant 2"));
  Picture last = a;
  last.pixels.back() ^= 1;  // the last of all bytes
  Logits(*engine, last.Ask());
  ModelRequest turned = a.Ask();
  std::get<PixelImage>(turned.parts[0]).width = kHeight;
  std::get<PixelImage>(turned.parts[0]).height = kWidth;
  Logits(*engine, turned);
  CHECK(engine->embedding_cache_stats().hits == 0);
  CHECK(engine->embedding_cache_stats().misses == 5);
  // The same bytes as gray pixels, and padded rows of the same pixels.
  ModelRequest gray = a.Ask();
  auto& pixels = std::get<PixelImage>(gray.parts[0]);
  pixels.layout = PixelLayout::kGray8;
  pixels.row_stride_bytes = kWidth * 3;
  Logits(*engine, gray);
  CHECK(engine->embedding_cache_stats().misses == 6);
  std::vector<uint8_t> padded(static_cast<size_t>(kHeight * 128), 7);
  for (int32_t y = 0; y < kHeight; ++y) {
    std::memcpy(padded.data() + y * 128, a.pixels.data() + y * kWidth * 3, kWidth * 3);
  }
  ModelRequest strided = a.Ask();
  std::get<PixelImage>(strided.parts[0]).pixels = padded;
  std::get<PixelImage>(strided.parts[0]).row_stride_bytes = 128;
  Logits(*engine, strided);
  CHECK(engine->embedding_cache_stats().hits == 1);
}

TEST_CASE("the cache stays within its bytes and drops what is used least") {
  const auto plain = MustCreate(TinyOptions());
  const auto engine = MustCreate(CachedOptions(3 * kPictureBytes + 8));
  const Picture kept(50);
  for (uint64_t i = 0; i < 20; ++i) {
    const Picture passing(100 + i);
    CHECK(SameBits(Logits(*engine, passing.Ask()), Logits(*plain, passing.Ask())));
    Logits(*engine, kept.Ask());
  }
  const EmbeddingCacheStats stats = engine->embedding_cache_stats();
  CHECK(stats.peak_bytes <= 3 * kPictureBytes);
  CHECK(stats.evictions == 21 - 3);
  CHECK(stats.hits == 19);  // `kept`, each time but the first

  // A cache that is smaller than a picture keeps nothing and disturbs nothing.
  const auto tiny = MustCreate(CachedOptions(kPictureBytes - 1));
  CHECK(SameBits(Logits(*tiny, kept.Ask()), Logits(*plain, kept.Ask())));
  CHECK(tiny->embedding_cache_stats().bytes == 0);
}

TEST_CASE("a request that ends early, or whose picture is corrupt, leaves the others theirs") {
  const Picture a(6);
  const std::vector<float> want = Logits(*MustCreate(TinyOptions()), a.Ask());
  ModelEngineOptions options = CachedOptions();
  options.media_threads = 2;
  const auto engine = MustCreate(options);
  for (int round = 0; round < 5; ++round) {
    const RequestId first = MustSubmit(*engine, a.Ask("round " + std::to_string(round)));
    const RequestId second = MustSubmit(*engine, a.Ask("round " + std::to_string(round)));
    (void)engine->Cancel(first);
    const auto outcomes = WaitForAll(*engine, {first, second});
    REQUIRE(outcomes.at(second).terminal().type == EventType::kFinished);
    CHECK(SameBits(outcomes.at(second).detail->logits, want));
  }
  std::vector<uint8_t> png = TestPng(kWidth, kHeight, 6);
  png[png.size() / 2] ^= 0x40;
  ModelRequest corrupt;
  corrupt.parts = {EncodedImage{png, false}, UserText{"What is this?"}};
  std::vector<RequestId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(MustSubmit(*engine, corrupt));
  ids.push_back(MustSubmit(*engine, a.Ask()));
  const auto outcomes = WaitForAll(*engine, ids);
  for (int i = 0; i < 4; ++i) CHECK(outcomes.at(ids[i]).terminal().type == EventType::kFailed);
  CHECK(outcomes.at(ids[4]).terminal().type == EventType::kFinished);
  CHECK(engine->stats().pixel_bytes == 0);
  CHECK(engine->stats().embedding_bytes == 0);
}

TEST_CASE("an entry of other rows than the plan's is no hit") {
  EmbeddingCache cache(1 << 20, 4);
  EmbeddingCache::Handle entry;
  std::shared_ptr<runtime::PooledBuffer> patches;
  const Digest key = {1, 2, 3};
  REQUIRE(cache.Join(key, 2, &entry, &patches) == EmbeddingCache::Found::kFirst);
  cache.SetPatches(entry, std::make_shared<runtime::PooledBuffer>());
  REQUIRE(cache.Begin(entry) == EmbeddingCache::Work::kEncode);
  const std::vector<float> rows(8, 1.0f);
  cache.SetRows(entry, rows);
  CHECK(cache.Join(key, 3, &entry, &patches) == EmbeddingCache::Found::kFirst);
  CHECK(cache.Join(key, 2, &entry, &patches) == EmbeddingCache::Found::kHit);
  CHECK(cache.stats().bytes == 32);
}

TEST_CASE("an entry that every request gave up is made anew") {
  EmbeddingCache cache(1 << 20, 4);
  std::shared_ptr<runtime::PooledBuffer> patches;
  const Digest key = {9};
  for (int round = 0; round < 3; ++round) {
    EmbeddingCache::Handle entry;
    REQUIRE(cache.Join(key, 2, &entry, &patches) == EmbeddingCache::Found::kFirst);
    cache.SetPatches(entry, std::make_shared<runtime::PooledBuffer>());
    EmbeddingCache::Handle other;
    CHECK(cache.Join(key, 2, &other, &patches) == EmbeddingCache::Found::kShared);
    CHECK(patches != nullptr);
  }
  // A failed encode is taken over by who shares the entry.
  EmbeddingCache::Handle entry, other;
  cache.Join(key, 2, &entry, &patches);
  cache.SetPatches(entry, std::make_shared<runtime::PooledBuffer>());
  cache.Join(key, 2, &other, &patches);
  REQUIRE(cache.Begin(entry) == EmbeddingCache::Work::kEncode);
  REQUIRE(cache.Begin(other) == EmbeddingCache::Work::kBusy);
  cache.Fail(entry);
  cache.Wait(other);
  CHECK(cache.Begin(other) == EmbeddingCache::Work::kEncode);
  CHECK(cache.stats().bytes == 0);
}

}  // namespace
}  // namespace rserve::testing
