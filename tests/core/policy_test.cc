#include "rserve/cc/policy.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rserve/cc/orchestrator.h"
#include "tests/core/plan_builder.h"
#include "tests/core/rng.h"
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

// What a machine takes for a chunk, and what is asked of it. Prompts are of `sizes` tokens in turn,
// or, where there are none, of many sizes.
struct AdaptiveLoad {
  std::vector<WorkerSpec> workers = SchemePlacement(Scheme::kAdaptive, 2, 1);
  TimeNs fixed_ns = 8'000'000;
  TimeNs pair_ns = 4;  // for each token before a chunk
  std::vector<int64_t> sizes;
};

// Text prompts come with gaps in which the machine idles. Steps `extra` more times wherever
// something happens.
class AdaptiveRun final : public ActionSink {
 public:
  explicit AdaptiveRun(int extra, AdaptiveLoad load = {}) : extra_(extra), load_(std::move(load)) {
    OrchestratorConfig config;
    config.policy = SchemePolicy(Scheme::kAdaptive);
    config.workers = load_.workers;
    config.max_micro_batches = AdaptiveMicroBatches(config.workers);
    auto made = Orchestrator::Create(config);
    REQUIRE(made.ok());
    core_ = *std::move(made);
  }

  // The sizes of all micro-batches in order.
  std::vector<int64_t> Go() {
    Rng rng(7);
    TimeNs arrival_ns = 0;
    for (RequestId id = 1; id <= 120; ++id) {
      arrival_ns += rng.In(100'000'000, 1'500'000'000);
      const int64_t tokens =
          load_.sizes.empty() ? rng.In(100, 9000) : load_.sizes[id % load_.sizes.size()];
      due_.emplace(arrival_ns, SubmitInput{PlanBuilder(id).Text(tokens).Build()});
    }
    while (!due_.empty()) {
      now_ns_ = due_.begin()->first;
      std::vector<Input> inputs = {due_.begin()->second};
      due_.erase(due_.begin());
      core_->Step(now_ns_, absl::MakeSpan(inputs), *this);
      for (int i = 0; i < extra_; ++i) core_->Step(now_ns_, {}, *this);
    }
    CHECK(core_->idle());
    return std::move(sizes_);
  }

  void OnStage(const StageAction& action) override {
    TimeNs ns = load_.fixed_ns + 40'000 * action.tokens;
    for (const StageEntryAction& entry : action.entries) {
      ns += load_.pair_ns * entry.chunk.tokens * entry.chunk.begin;
      if (entry.chunk.begin > 0) ++cuts_;
    }
    if (action.stage == 0) sizes_.push_back(action.tokens);
    due_.emplace(now_ns_ + ns, StageFinishedInput{action.token, absl::OkStatus()});
  }
  int64_t cuts() const { return cuts_; }

  void OnPrepare(const PrepareAction&) override {}
  void OnEncode(const EncodeAction&) override {}
  void OnMicroBatchDropped(uint64_t) override {}
  void OnReleasePixels(UnitRef) override {}
  void OnReleaseEmbedding(UnitRef) override {}
  void OnEvent(const EventAction&) override {}
  void OnForget(RequestId) override {}

 private:
  const int extra_;
  const AdaptiveLoad load_;
  int64_t cuts_ = 0;
  std::unique_ptr<Orchestrator> core_;
  std::multimap<TimeNs, Input> due_;
  TimeNs now_ns_ = 0;
  std::vector<int64_t> sizes_;
};

TEST_CASE("B depends on the micro-batches there were, not on how often one was asked for") {
  const std::vector<int64_t> sizes = AdaptiveRun(0).Go();
  CHECK(std::set<int64_t>(sizes.begin(), sizes.end()).size() > 20);  // it did follow the load
  CHECK(AdaptiveRun(1).Go() == sizes);
  CHECK(AdaptiveRun(5).Go() == sizes);
}

TEST_CASE(
    "one worker never cuts a prompt of less than twice the least B, whatever it has learned") {
  // No fixed costs: the square root is 0 as soon as two sizes were seen.
  AdaptiveLoad load;
  load.workers = SchemePlacement(Scheme::kAdaptive, 1, 0);
  load.fixed_ns = load.pair_ns = 0;
  const int64_t least = Policy().min_token_budget;
  load.sizes = {least + 22, 2 * least - 1, 3 * least + 5};
  AdaptiveRun run(0, load);
  const std::vector<int64_t> sizes = run.Go();
  // The longest ones only, and into equal parts; the first of them came before anything was known.
  CHECK(run.cuts() > 0);
  for (const int64_t size : sizes) CHECK(size >= least);
}

}  // namespace
}  // namespace rserve::test
