// The simulator against what can be worked out by hand.

#include "src/sim/simulator.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/sim/bounds.h"
#include "src/sim/experiment.h"
#include "src/sim/scheme.h"
#include "src/sim/summary.h"
#include "tests/support/catch.h"

namespace rserve::sim {
namespace {

SimConfig Config(const char* scheme, const char* layout, const char* calibration = "b") {
  SimConfig config;
  config.model = *FindModelShape("72b");
  config.hardware = *FindHardware("h100");
  config.calibration = *FindCalibration(calibration);
  config.layout = *ParseLayout(layout);
  REQUIRE(ApplyScheme(scheme, &config).ok());
  return config;
}

std::vector<SimRequest> Requests(WorkloadKind kind, double rate, int64_t count, uint64_t seed) {
  WorkloadSpec spec;
  spec.kind = kind;
  spec.rate = rate;
  spec.requests = count;
  spec.seed = seed;
  return DrainSource(*MakeSource(spec));
}

SimResult RunOf(const SimConfig& config, const std::vector<SimRequest>& requests,
                bool spans = false) {
  auto source = MakeSource(requests);
  SimOptions options;
  options.spans = spans;
  auto result = Simulate(config, *source, options);
  REQUIRE(result.ok());
  return *std::move(result);
}

// Chunked pipeline parallelism: a chunk enters a stage when it has left the one before and the
// chunk before it has left this one; as many chunks are under way as there are stages.
TimeNs ClosedForm(const SimConfig& config, int64_t prompt) {
  const CostModel cost(config.model, config.hardware, config.calibration);
  const std::vector<int64_t> layers =
      EvenLayers(config.model.language.layers, config.layout.stages);
  const size_t stages = layers.size();
  std::vector<std::vector<TimeNs>> done;  // by chunk and stage
  for (int64_t at = 0; at < prompt; at += config.policy.token_budget) {
    const int64_t tokens = std::min(config.policy.token_budget, prompt - at);
    const size_t k = done.size();
    TimeNs now = cost.FrontEndNs();
    if (k >= stages) now = std::max(now, done[k - stages][stages - 1]);
    done.emplace_back();
    for (size_t s = 0; s < stages; ++s) {
      if (k > 0) now = std::max(now, done[k - 1][s]);
      const ChunkWork chunk = {tokens, at, 0, at == 0};
      now += cost.StageNs({layers[s], config.layout.ranks, static_cast<int32_t>(s)}, {&chunk, 1},
                          false);
      done[k].push_back(now);
    }
  }
  return done.back().back();
}

TEST_CASE("a lone text request takes what the recurrence of chunked pipelining says") {
  for (const char* layout : {"PP4+E1", "TP4+E1", "PP8+E1", "TP1+E1"}) {
    for (int64_t prompt : {1, 500, 2048, 2049, 8000, 20000}) {
      const SimConfig config = Config("rserve", layout, "a");
      SimRequest request;
      request.prompt_tokens = prompt;
      const SimResult result = RunOf(config, {request});
      CAPTURE(layout, prompt);
      CHECK(result.requests[0].ttft_ns == ClosedForm(config, prompt));
    }
  }
}

TEST_CASE("two runs of the same requests are the same to the nanosecond") {
  for (const char* scheme : {"rserve", "epd", "rserve_intra", "adaptive"}) {
    const SimConfig config = Config(scheme, "PP4+E1");
    const auto requests = Requests(WorkloadKind::kMmmu1k, 1.3, 60, 7);
    const SimResult a = RunOf(config, requests, true);
    const SimResult b = RunOf(config, requests, true);
    REQUIRE(a.requests.size() == b.requests.size());
    for (size_t i = 0; i < a.requests.size(); ++i) {
      CHECK(a.requests[i].ttft_ns == b.requests[i].ttft_ns);
    }
    REQUIRE(a.spans.size() == b.spans.size());
    for (size_t i = 0; i < a.spans.size(); ++i) {
      CHECK(a.spans[i].begin_ns == b.spans[i].begin_ns);
      CHECK(a.spans[i].end_ns == b.spans[i].end_ns);
      CHECK(a.spans[i].first_request == b.spans[i].first_request);
    }
    CHECK(a.events == b.events);
  }
}

TEST_CASE("a worker does one thing at a time and every request gets its first token") {
  for (const char* layout : {"PP4+E1", "PP3+E2"}) {
    const SimConfig config = Config("rserve", layout);
    const SimResult result = RunOf(config, Requests(WorkloadKind::kMmmu2k, 1.5, 40, 3), true);
    CHECK(result.failed == 0);
    for (const RequestOutcome& outcome : result.requests) CHECK(outcome.ttft_ns > 0);
    std::vector<TimeNs> free_at(result.busy_ns.size(), 0);
    for (const SimSpan& span : result.spans) {
      if (span.worker < 0) continue;
      CHECK(span.begin_ns >= free_at[span.worker]);
      free_at[span.worker] = span.end_ns;
    }
  }
}

TEST_CASE("no scheme is below the bounds of its layout") {
  const struct {
    const char* scheme;
    const char* layout;
  } cases[] = {{"rserve", "PP4+E1"}, {"epd", "PP4+E1"},    {"rserve_intra", "PP4+E1"},
               {"colocated", "PP4"}, {"colocated", "PP5"}, {"vllm", "TP4"},
               {"rserve", "TP1+E1"}, {"rserve", "PP3+E2"}};
  for (const auto& one : cases) {
    for (WorkloadKind kind :
         {WorkloadKind::kMmmu1k, WorkloadKind::kTextMix, WorkloadKind::kVideo}) {
      for (double rate : {0.2, 1.2, 4.0}) {
        const SimConfig config = Config(one.scheme, one.layout);
        const auto requests = Requests(kind, rate, 60, 11);
        const Summary summary = Summarise(RunOf(config, requests), 0);
        const Bounds bounds = ComputeBounds(config, requests);
        CAPTURE(one.scheme, one.layout, WorkloadKindName(kind), rate);
        CHECK(summary.ttft_mean_s >= bounds.critical_path_s);
        CHECK(summary.ttft_mean_s >= bounds.shortest_s);
        CHECK(summary.tokens_per_s <= bounds.tokens_per_s * 1.0001);
        CHECK(bounds.shortest_s <= bounds.fcfs_s * 1.0001);
      }
    }
  }
}

TEST_CASE("bounds of requests that are made as they are asked for are those of the list") {
  WorkloadSpec spec;
  spec.kind = WorkloadKind::kVideo;
  spec.requests = 40;
  for (const auto& [scheme, layout] :
       {std::pair{"rserve", "PP3+E2"}, {"colocated", "PP4"}, {"adaptive", "PP5"}}) {
    const SimConfig config = Config(scheme, layout);
    const Bounds list = ComputeBounds(config, DrainSource(*MakeSource(spec)));
    const Bounds made = ComputeBounds(config, [&] { return MakeSource(spec); });
    CAPTURE(scheme, layout);
    CHECK(list.critical_path_s == made.critical_path_s);
    CHECK(list.fcfs_s == made.fcfs_s);
    CHECK(list.shortest_s == made.shortest_s);
    CHECK(list.tokens_per_s == made.tokens_per_s);
  }
}

TEST_CASE("flow on one machine is what a hand-made schedule gives") {
  // 10 s at 0, 1 s at 2: first come ends at 10 and 11; shortest first ends at 11 and 3.
  const std::vector<Job> jobs = {{0, 10}, {2, 1}};
  CHECK(MeanFlowFcfs(jobs) == Approx((10 + 9) / 2.0));
  CHECK(MeanFlowShortest(jobs) == Approx((11 + 1) / 2.0));
}

TEST_CASE("a layout that does not suit its scheme or its model is refused by name") {
  SimConfig config = Config("rserve", "PP4+E1");
  CHECK_FALSE(ApplyScheme("colocated", &config).ok());
  config.layout = *ParseLayout("PP4");
  CHECK_FALSE(ApplyScheme("epd", &config).ok());
  config.layout = *ParseLayout("PP4+E1");
  config.layout.layers = {20, 20, 20, 21};
  auto source = MakeSource(std::vector<SimRequest>());
  auto result = Simulate(config, *source);
  REQUIRE_FALSE(result.ok());
  CHECK(std::string(result.status().message()).find("80") != std::string::npos);
  for (const char* bad : {"", "PP", "PP0", "QQ4", "PP4+E", "PP4+E0", "PP99", "PP4E1", "PPx"}) {
    CHECK_FALSE(ParseLayout(bad).ok());
  }
}

TEST_CASE("attention, products and encoding cost what the shapes say") {
  const ModelShape model = *FindModelShape("72b");
  CHECK(static_cast<double>(MatmulParams(model.language)) == Approx(70.21e9).epsilon(0.001));
  CHECK(KvBytesPerToken(model.language) == 327680);
  CHECK(EmbeddingBytesPerToken(model.language) == 16384);
  CHECK(EncodeFlops(model.vision, 1024) / 1024 == Approx(5.60e9).epsilon(0.01));
  CHECK(EncodeFlops(model.vision, 5329) / 5329 == Approx(7.01e9).epsilon(0.01));
  // Attention of a prompt is the same whole or in chunks.
  CHECK(
      AttentionFlops(model.language, 5000, 0) ==
      Approx(AttentionFlops(model.language, 2000, 0) + AttentionFlops(model.language, 3000, 2000)));
}

// The same costs from a test's point of view: three times as much from the 100th arrival on.
TEST_CASE(
    "when all costs triple in mid-run, what comes 30 requests later is served as by one that "
    "always knew") {
  const auto requests = Requests(WorkloadKind::kMmmu1k, 0.4, 180, 5);
  SimConfig changed = Config("adaptive", "PP4+E1");
  changed.cost_scale = 3;
  SimConfig always = changed;
  always.scale_from_ns = 0;
  changed.scale_from_ns = requests[100].arrival_ns;
  const SimResult a = RunOf(changed, requests), b = RunOf(always, requests);
  double after = 0, known = 0;
  for (size_t i = 130; i < requests.size(); ++i) {
    after += static_cast<double>(a.requests[i].ttft_ns);
    known += static_cast<double>(b.requests[i].ttft_ns);
  }
  CHECK(after / known < 1.05);
}

TEST_CASE(
    "adaptive has a lower mean than rserve at low, middle and high load, and no worse p99 by a "
    "quarter") {
  for (double rate : {0.4, 1.2, 2.0}) {
    const auto requests = Requests(WorkloadKind::kMmmu1k, rate, 200, 9);
    const Summary paper = Summarise(RunOf(Config("rserve", "PP4+E1"), requests), 0);
    const Summary ours = Summarise(RunOf(Config("adaptive", "PP4+E1"), requests), 0);
    CAPTURE(rate);
    CHECK(ours.ttft_mean_s < 0.95 * paper.ttft_mean_s);
    CHECK(ours.ttft_p99_s < 1.25 * paper.ttft_p99_s);
  }
}

TEST_CASE("a thin first stage is chosen that balances the encoder beside it") {
  SimConfig config = Config("adaptive", "PP5");
  WorkloadSpec spec;
  const std::vector<int64_t> layers = BalancedLayers(config, spec);
  REQUIRE(layers.size() == 5);
  CHECK(layers[0] < layers[1]);
  CHECK(layers[0] >= 8);
  spec.kind = WorkloadKind::kTextOnly;
  CHECK(BalancedLayers(config, spec)[0] == 16);
  config.layout = *ParseLayout("PP4+E1");
  CHECK(BalancedLayers(config, spec).empty());
}

}  // namespace
}  // namespace rserve::sim
