#include "rserve/cc/policy.h"

#include <string>

#include "tests/support/catch.h"

namespace rserve::test {
namespace {

TEST_CASE("a scheme's name is parsed back, an unknown one is refused by name") {
  for (const Scheme scheme : {Scheme::kRserve, Scheme::kRserveIntra, Scheme::kEpd,
                              Scheme::kColocated, Scheme::kAdaptive}) {
    const auto parsed = ParseScheme(SchemeName(scheme));
    REQUIRE(parsed.ok());
    CHECK(*parsed == scheme);
  }
  for (const char* name : {"", "Rserve", "rserve ", "gllm"}) {
    const auto parsed = ParseScheme(name);
    REQUIRE(parsed.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(std::string(parsed.status().message()).find("rserve") != std::string::npos);
  }
}

TEST_CASE("schemes differ in gate, sharing and trigger as the table in the header says") {
  const Policy rserve = SchemePolicy(Scheme::kRserve);
  CHECK(rserve.gate == Gate::kStreaming);
  CHECK(rserve.sharing == Sharing::kMany);
  CHECK(rserve.trigger == EncodeTrigger::kOnArrival);
  const Policy intra = SchemePolicy(Scheme::kRserveIntra);
  CHECK(intra.gate == Gate::kStreaming);
  CHECK(intra.sharing == Sharing::kOneRequest);
  const Policy epd = SchemePolicy(Scheme::kEpd);
  CHECK(epd.gate == Gate::kWholeRequest);
  CHECK(epd.sharing == Sharing::kMany);
  CHECK(epd.trigger == EncodeTrigger::kOnArrival);
  const Policy colocated = SchemePolicy(Scheme::kColocated);
  CHECK(colocated.gate == Gate::kWholeRequest);
  CHECK(colocated.trigger == EncodeTrigger::kOnFirstChunk);
  for (const Policy& policy : {rserve, intra, epd, colocated}) {
    CHECK(policy.encode_batch_tokens == Policy().encode_batch_tokens);
    CHECK(policy.token_budget == Policy().token_budget);
    CHECK_FALSE(policy.one_chunk_in_flight);
  }
}

TEST_CASE("adaptive is streaming with order, B and C that follow the load; no other scheme is") {
  const Policy adaptive = SchemePolicy(Scheme::kAdaptive);
  CHECK(adaptive.gate == Gate::kStreaming);
  CHECK(adaptive.order == Order::kShortestFirst);
  CHECK(adaptive.square_root_budget);
  CHECK(adaptive.adaptive_encode_batch);
  for (const Scheme scheme :
       {Scheme::kRserve, Scheme::kRserveIntra, Scheme::kEpd, Scheme::kColocated}) {
    const Policy policy = SchemePolicy(scheme);
    CHECK(policy.order == Order::kArrival);
    CHECK_FALSE(policy.square_root_budget);
    CHECK_FALSE(policy.adaptive_encode_batch);
  }
  // Without an encoder worker the encoder lies beside stage 0, which goes first.
  const auto shared = SchemePlacement(Scheme::kAdaptive, 3, 0);
  REQUIRE(shared.size() == 3);
  CHECK(shared[0].encoder);
  CHECK(shared[0].first == Role::kStage);
  CHECK_FALSE(shared[1].encoder);
}

TEST_CASE("placements: stages first, then encoders; colocated puts its encoder on stage 0") {
  const auto rserve = SchemePlacement(Scheme::kRserve, 4, 2, 3);
  REQUIRE(rserve.size() == 6);
  for (int32_t w = 0; w < 6; ++w) {
    CHECK(rserve[w].stage == (w < 4 ? w : -1));
    CHECK(rserve[w].encoder == (w >= 4));
    CHECK(rserve[w].depth == 3);
  }
  const auto colocated = SchemePlacement(Scheme::kColocated, 3, 5);
  REQUIRE(colocated.size() == 3);
  for (int32_t w = 0; w < 3; ++w) CHECK(colocated[w].encoder == (w == 0));
}

TEST_CASE("topologies are written as in the paper") {
  CHECK(TopologyName(SchemePlacement(Scheme::kRserve, 4, 1)) == "PP4+E1");
  CHECK(TopologyName(SchemePlacement(Scheme::kEpd, 1, 1)) == "TP1+E1");
  CHECK(TopologyName(SchemePlacement(Scheme::kColocated, 3, 1)) == "PP3");
  CHECK(TopologyName(SchemePlacement(Scheme::kRserve, 2, 3)) == "PP2+E3");
}

}  // namespace
}  // namespace rserve::test
