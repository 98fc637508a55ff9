// The promise that makes scheduling testable: a request's logits do not depend on how it was
// scheduled.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rserve/cc/model_engine.h"
#include "tests/engine/harness.h"
#include "tests/engine/tiny_model.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

const std::vector<std::unique_ptr<OwnedRequest>>& Requests() {
  static const auto requests = [] {
    std::vector<std::unique_ptr<OwnedRequest>> made;
    uint64_t seed = 1;
    for (const char* layout : {"t", "tpt", "pxt", "cptpxtppt", "xxxxxxt"}) {
      made.push_back(MakeRequest(layout, seed++));
    }
    return made;
  }();
  return requests;
}

const std::vector<Outcome>& Reference() {
  static const std::vector<Outcome> outcomes = [] {
    ModelEngineOptions options = TinyOptions();
    options.scheme = Scheme::kColocated;
    return RunAll(*MustCreate(options), Requests(), /*together=*/false);
  }();
  return outcomes;
}

void CheckAgainstReference(const ModelEngineOptions& options, bool together) {
  const std::vector<Outcome> outcomes = RunAll(*MustCreate(options), Requests(), together);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    CAPTURE(i, outcomes[i].terminal().status.ToString());
    REQUIRE(outcomes[i].terminal().type == EventType::kFinished);
    const RequestDetail& expected = *Reference()[i].detail;
    const RequestDetail& actual = *outcomes[i].detail;
    CHECK(actual.token_ids == expected.token_ids);
    CHECK(actual.first_token.token == expected.first_token.token);
    CHECK(actual.first_token.logprob == expected.first_token.logprob);
    CHECK(SameBits(actual.embeddings, expected.embeddings));
    CHECK(SameBits(actual.logits, expected.logits));
  }
}

TEST_CASE("the reference run tells requests apart") {
  for (size_t i = 0; i < Reference().size(); ++i) {
    REQUIRE(Reference()[i].detail->logits.size() == static_cast<size_t>(kTinyVocab));
    for (size_t j = 0; j < i; ++j) {
      CHECK_FALSE(SameBits(Reference()[i].detail->logits, Reference()[j].detail->logits));
    }
  }
}

TEST_CASE("logits have the same bits under every scheme, C, B, PP, E and company") {
  for (const Scheme scheme :
       {Scheme::kRserve, Scheme::kRserveIntra, Scheme::kEpd, Scheme::kColocated}) {
    for (const int64_t c : {int64_t{1}, int64_t{1024}, kEncodeAll}) {
      for (const int64_t b : {3, 64, 2048}) {
        for (const int32_t stages : {1, 2, 3}) {
          for (const int32_t encoders : {1, 2}) {
            if (scheme == Scheme::kColocated && encoders == 2) continue;  // has none of its own
            for (const bool together : {false, true}) {
              ModelEngineOptions options = TinyOptions();
              options.scheme = scheme;
              options.encode_batch_tokens = c;
              options.token_budget = b;
              options.stages = stages;
              options.encoders = encoders;
              CAPTURE(SchemeName(scheme), c, b, stages, encoders, together);
              CheckAgainstReference(options, together);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("logits have the same bits when order, B, C and placement follow measured rates") {
  for (const int32_t encoders : {kSharedEncoder, 0, 1, 2}) {
    for (const int32_t stages : {1, 2, 3}) {
      for (const Order order : {Order::kShortestFirst, Order::kFeasibleFirst}) {
        ModelEngineOptions options = TinyOptions();
        options.scheme = Scheme::kAdaptive;
        options.threads = 2;
        options.order = order;
        options.slo_ns = 1'000'000;
        options.token_budget = 64;
        options.min_token_budget = 3;
        options.stages = stages;
        options.encoders = encoders;
        CAPTURE(encoders, stages, static_cast<int>(order));
        CheckAgainstReference(options, /*together=*/true);
      }
    }
  }
}

TEST_CASE("logits have the same bits with other cuts, threads, triggers and pipelines") {
  ModelEngineOptions options = TinyOptions();
  options.token_budget = 5;
  SECTION("uneven stages") {
    options.stages = 3;
    options.stage_layers = {1, 3, 1};
  }
  SECTION("several threads a worker") {
    options.worker_threads = {3, 2};
    options.media_threads = 3;
  }
  SECTION("vanilla pipeline parallelism") {
    options.stages = 2;
    options.one_chunk_in_flight = true;
  }
  SECTION("encode batches across requests") {
    options.encode_across_requests = true;
    options.encode_batch_tokens = 40;
  }
  SECTION("encoded just before the chunk") {
    options.scheme = Scheme::kColocated;
    options.gate = Gate::kStreaming;
    options.trigger = EncodeTrigger::kOnChunk;
    options.stages = 2;
  }
  SECTION("a thin stage on the encoder's worker, stage first") {
    options.scheme = Scheme::kAdaptive;
    options.encoders = kSharedEncoder;
    options.stages = 2;
    options.stage_layers = {1, 4};
    options.order_stretch = 1000;
    options.embedding_bytes = 40 * kTinyRowBytes;
  }
  SECTION("small blocks and hardly any budget") {
    options.kv_block_tokens = 1;
    options.kv_tokens = 700;
    options.embedding_bytes = 40 * kTinyRowBytes;
    options.units_in_flight = 2;
    options.encoder_batch_tokens = 40;
  }
  CheckAgainstReference(options, /*together=*/true);
}

TEST_CASE("a request of 64 pictures runs on an embedding budget of 4") {
  auto request = MakeRequest("t", 3);
  std::vector<std::vector<uint8_t>> pictures;
  for (uint64_t i = 0; i < 64; ++i) pictures.push_back(TestPixels(32, 24, 100 + i));
  for (const auto& pixels : pictures) {
    request->request.parts.insert(request->request.parts.begin(),
                                  PixelImage{PixelLayout::kRgb8, pixels, 32, 24, 0, true});
  }
  std::vector<std::unique_ptr<OwnedRequest>> requests;
  requests.push_back(std::move(request));
  const std::vector<Outcome> roomy =
      RunAll(*MustCreate(TinyOptions()), requests, /*together=*/false);

  ModelEngineOptions options = TinyOptions();
  options.embedding_bytes = 4 * 12 * kTinyRowBytes;  // 32 x 24 pixels are 12 tokens
  options.encode_batch_tokens = GENERATE(int64_t{1}, int64_t{24}, kEncodeAll);
  options.stages = 2;
  CAPTURE(options.encode_batch_tokens);
  const auto engine = MustCreate(options);
  const std::vector<Outcome> tight = RunAll(*engine, requests, /*together=*/false);
  REQUIRE(tight[0].terminal().type == EventType::kFinished);
  CHECK(SameBits(tight[0].detail->logits, roomy[0].detail->logits));
  CHECK(engine->stats().peak_embedding_bytes <= options.embedding_bytes);
  CHECK(engine->stats().peak_embedding_bytes > 0);
  CHECK(engine->stats().embedding_bytes == 0);
}

}  // namespace
}  // namespace rserve::testing
