// Create and CheckFits: what is refused, by which option's name, and where exactly the line runs.

#include <functional>
#include <string>

#include "rserve/cc/orchestrator.h"
#include "tests/core/action_text.h"
#include "tests/core/plan_builder.h"
#include "tests/support/catch.h"

namespace rserve::test {
namespace {

OrchestratorConfig Config(Scheme scheme = Scheme::kRserve) {
  OrchestratorConfig config;
  config.policy = SchemePolicy(scheme);
  config.workers = SchemePlacement(scheme, 2, 1);
  config.budgets.kv_blocks = 64;
  return config;
}

bool Names(const absl::Status& status, const std::string& text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

TEST_CASE("Create refuses a bad configuration by the option's name") {
  struct Case {
    std::function<void(OrchestratorConfig*)> damage;
    const char* named;
  };
  const Case cases[] = {
      {[](OrchestratorConfig* c) { c->workers.clear(); }, "workers"},
      {[](OrchestratorConfig* c) { c->workers.erase(c->workers.begin()); }, "stage"},
      {[](OrchestratorConfig* c) { c->workers[1].stage = 2; }, "stage"},
      {[](OrchestratorConfig* c) { c->workers[1].stage = 0; }, "stage"},
      {[](OrchestratorConfig* c) { c->workers[2].encoder = false; }, "workers[2]"},
      {[](OrchestratorConfig* c) { c->workers[0].depth = 0; }, "depth"},
      {[](OrchestratorConfig* c) { c->workers[0].max_passes = 0; }, "max_passes"},
      {[](OrchestratorConfig* c) { c->policy.token_budget = 0; }, "token_budget"},
      {[](OrchestratorConfig* c) { c->policy.encode_batch_tokens = 0; }, "encode_batch_tokens"},
      {[](OrchestratorConfig* c) { c->policy.encode_flush_ns = -1; }, "encode_flush_ns"},
      {[](OrchestratorConfig* c) { c->policy.trigger = EncodeTrigger::kOnChunk; }, "trigger"},
      {[](OrchestratorConfig* c) { c->budgets.embedding_bytes = -1; }, "embedding_bytes"},
      {[](OrchestratorConfig* c) { c->budgets.pixel_bytes = -1; }, "pixel_bytes"},
      {[](OrchestratorConfig* c) { c->budgets.units_in_flight = -1; }, "units_in_flight"},
      {[](OrchestratorConfig* c) { c->budgets.encoder_batch_tokens = 0; }, "encoder_batch_tokens"},
      {[](OrchestratorConfig* c) { c->budgets.kv_blocks = 0; }, "kv_blocks"},
      {[](OrchestratorConfig* c) { c->budgets.kv_block_tokens = 0; }, "kv_block_tokens"},
      {[](OrchestratorConfig* c) { c->budgets.queue_requests = 0; }, "queue_requests"},
      {[](OrchestratorConfig* c) { c->budgets.input_bytes = -1; }, "input_bytes"},
      {[](OrchestratorConfig* c) { c->prepare_lanes = -1; }, "prepare_lanes"},
      {[](OrchestratorConfig* c) { c->max_micro_batches = -1; }, "max_micro_batches"},
      {[](OrchestratorConfig* c) { c->max_encode_attempts = 0; }, "max_encode_attempts"},
  };
  REQUIRE(Orchestrator::Create(Config()).ok());
  for (const Case& test : cases) {
    OrchestratorConfig config = Config();
    test.damage(&config);
    INFO(test.named);
    const absl::Status status = Orchestrator::Create(config).status();
    REQUIRE(status.code() == absl::StatusCode::kInvalidArgument);
    INFO(status.ToString());
    CHECK(Names(status, test.named));
  }
}

// A plan whose need is exactly `limit` of the option fits; with one less it is refused, and the
// message tells size, limit and option.
TEST_CASE("CheckFits draws the line exactly and names size, limit and option") {
  struct Case {
    const char* option;
    std::function<void(OrchestratorConfig*, int64_t)> set;
    RequestPlan plan;
    int64_t need;
    Scheme scheme;
  };
  const auto embedding = [](OrchestratorConfig* c, int64_t v) { c->budgets.embedding_bytes = v; };
  const auto pixels = [](OrchestratorConfig* c, int64_t v) { c->budgets.pixel_bytes = v; };
  const auto units = [](OrchestratorConfig* c, int64_t v) { c->budgets.units_in_flight = v; };
  const RequestPlan two = PlanBuilder(1).Image(5).Text(2).Image(7).Build();
  const Case cases[] = {
      // Streaming: the largest unit; whole-request gate: all of it (vllm#26223).
      {"embedding_bytes", embedding, two, 7, Scheme::kRserve},
      {"embedding_bytes", embedding, two, 12, Scheme::kEpd},
      {"embedding_bytes", embedding, two, 12, Scheme::kColocated},
      // What is read again behind a later unit must be held together with it.
      {"embedding_bytes", embedding, PlanBuilder(1).Image(5).Image(7).Span(0, 0, 1).Build(), 12,
       Scheme::kRserve},
      // An atomic span needs all its units at once.
      {"embedding_bytes", embedding, PlanBuilder(1).Item({5, 7}, true).Build(), 12,
       Scheme::kRserve},
      {"embedding_bytes", embedding, PlanBuilder(1).Item({5, 7}).Build(), 7, Scheme::kRserve},
      // Pixels go with the encode, whatever the gate.
      {"pixel_bytes", pixels, two, 7, Scheme::kRserve},
      {"pixel_bytes", pixels, two, 7, Scheme::kEpd},
      {"units_in_flight", units, two, 1, Scheme::kRserve},
      {"units_in_flight", units, two, 2, Scheme::kEpd},
      {"units_in_flight", units, PlanBuilder(1).Item({1, 1, 1}, true).Build(), 3, Scheme::kRserve},
      {"encoder_batch_tokens",
       [](OrchestratorConfig* c, int64_t v) { c->budgets.encoder_batch_tokens = v; }, two, 7,
       Scheme::kRserve},
      {"token_budget", [](OrchestratorConfig* c, int64_t v) { c->policy.token_budget = v; },
       PlanBuilder(1).Text(9).Item({2, 4}, true).Build(), 6, Scheme::kRserve},
      // 14 prompt tokens and 1 new one in blocks of 4.
      {"kv_blocks",
       [](OrchestratorConfig* c, int64_t v) {
         c->budgets.kv_blocks = static_cast<int32_t>(v);
         c->budgets.kv_block_tokens = 4;
       },
       two, 4, Scheme::kRserve},
  };
  for (const Case& test : cases) {
    INFO(test.option << " " << SchemeName(test.scheme) << " " << PlanText(test.plan));
    OrchestratorConfig config = Config(test.scheme);
    test.set(&config, test.need);
    auto orchestrator = Orchestrator::Create(config);
    REQUIRE(orchestrator.ok());
    CHECK((*orchestrator)->CheckFits(test.plan).ok());
    test.set(&config, test.need - 1);
    orchestrator = Orchestrator::Create(config);
    if (!orchestrator.ok()) continue;  // a limit of 0 that Create refuses
    const absl::Status status = (*orchestrator)->CheckFits(test.plan);
    REQUIRE(status.code() == absl::StatusCode::kResourceExhausted);
    INFO(status.ToString());
    CHECK(Names(status, test.option));
    CHECK(Names(status, std::to_string(test.need)));
    CHECK(Names(status, std::to_string(test.need - 1)));
  }
}

TEST_CASE("input bytes that can never fit are refused by CheckFits") {
  OrchestratorConfig config = Config();
  config.budgets.input_bytes = 100;
  auto orchestrator = Orchestrator::Create(config);
  REQUIRE(orchestrator.ok());
  RequestPlan plan = PlanBuilder(1).Text(1).Build();
  plan.input_bytes = 100;
  CHECK((*orchestrator)->CheckFits(plan).ok());
  plan.input_bytes = 101;
  const absl::Status status = (*orchestrator)->CheckFits(plan);
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(Names(status, "input_bytes"));
  CHECK(Names(status, "101"));
}

TEST_CASE("no more KV block keys are taken than the prompt fills blocks") {
  OrchestratorConfig config = Config();
  config.budgets.kv_block_tokens = 4;
  const auto orchestrator = *Orchestrator::Create(config);
  RequestPlan plan = PlanBuilder(1).Text(11).Build();
  plan.kv_block_keys.resize(2);
  CHECK(orchestrator->CheckFits(plan).ok());
  plan.kv_block_keys.resize(3);
  const absl::Status status = orchestrator->CheckFits(plan);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(Names(status, "kv_block_keys has 3"));
}

TEST_CASE("items without an encoder and readers behind the last stage are refused") {
  OrchestratorConfig config = Config();
  config.workers.pop_back();
  auto orchestrator = Orchestrator::Create(config);
  REQUIRE(orchestrator.ok());
  CHECK((*orchestrator)->CheckFits(PlanBuilder(1).Text(4).Build()).ok());
  CHECK(Names((*orchestrator)->CheckFits(PlanBuilder(1).Image(4).Build()), "encoder"));
  RequestPlan plan = PlanBuilder(1).Text(4).Build();
  plan.last_reader_stage = 1;
  CHECK((*orchestrator)->CheckFits(plan).ok());
  plan.last_reader_stage = 2;
  CHECK((*orchestrator)->CheckFits(plan).code() == absl::StatusCode::kInvalidArgument);
}

// An encoder that reports fewer or more statuses than its batch has units must not corrupt
// anything; each request still ends once.
TEST_CASE("a wrong number of unit statuses ends requests, once each") {
  for (const size_t count : {1, 2, 5}) {
    CAPTURE(count);
    OrchestratorConfig config = Config();
    config.policy.encode_batch_tokens = kEncodeAll;
    auto orchestrator = Orchestrator::Create(config);
    REQUIRE(orchestrator.ok());
    ActionLog log(ActionLog::Options{});
    std::vector<Input> inputs = {SubmitInput{PlanBuilder(1).Image(2).Image(2).Image(2).Build()}};
    (*orchestrator)->Step(1, absl::MakeSpan(inputs), log);
    REQUIRE(log.text.find("encode #1") != std::string::npos);
    inputs = {EncodeFinishedInput{1, absl::OkStatus(),
                                  std::vector<absl::Status>(count, absl::OkStatus())}};
    (*orchestrator)->Step(2, absl::MakeSpan(inputs), log);
    inputs = {AbortInput{}};
    (*orchestrator)->Step(3, absl::MakeSpan(inputs), log);
    inputs = {StageFinishedInput{2, absl::OkStatus()}};
    (*orchestrator)->Step(4, absl::MakeSpan(inputs), log);
    CHECK((*orchestrator)->idle());
    const OrchestratorStats stats = (*orchestrator)->stats();
    CHECK(stats.failed + stats.cancelled == 1);
    CHECK(stats.embedding_bytes == 0);
  }
}

}  // namespace
}  // namespace rserve::test
