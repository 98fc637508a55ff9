// What a micro-batch costs in decisions, and that the cost grows with its entries, not the queue.
//
// A queue of requests with 8 images each; one in a hundred begins with text and can be prefilled
// now, the others wait for an encoder that is busy. Timed is the step that takes a finished stage
// and issues the next micro-batch.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "rserve/cc/orchestrator.h"

namespace rserve {
namespace {

constexpr int64_t kItems = 8;
constexpr int64_t kImageTokens = 256;
constexpr int64_t kTextTokens = 256;

// Remembers the stage action that is out.
class Sink : public ActionSink {
 public:
  void OnPrepare(const PrepareAction&) override {}
  void OnEncode(const EncodeAction&) override {}
  void OnStage(const StageAction& action) override {
    token = action.token;
    entries = action.entries.size();
  }
  void OnMicroBatchDropped(uint64_t) override {}
  void OnReleasePixels(UnitRef) override {}
  void OnReleaseEmbedding(UnitRef) override {}
  void OnEvent(const EventAction&) override {}
  void OnForget(RequestId) override {}

  ActionToken token = 0;
  size_t entries = 0;
};

RequestPlan Plan(RequestId id, bool text_first) {
  RequestPlan plan;
  plan.id = id;
  plan.num_items = kItems;
  plan.prompt_tokens = text_first ? kTextTokens : 0;
  for (int32_t item = 0; item < kItems; ++item) {
    UnitPlan unit;
    unit.item = item;
    unit.tokens = kImageTokens;
    unit.embedding_bytes = unit.pixel_bytes = kImageTokens * 4096;
    plan.units.push_back(unit);
    SpanPlan span;
    span.token_begin = plan.prompt_tokens;
    span.tokens = kImageTokens;
    span.item = item;
    plan.spans.push_back(span);
    plan.prompt_tokens += kImageTokens;
  }
  return plan;
}

// Processor time of this thread: what else runs on the machine does not count.
double ThreadMicros() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

struct Sample {
  double micros = 0;
  size_t entries = 0;
};

// One queue of `requests`, drained of what can be prefilled; appends a sample a micro-batch.
void RunQueue(int64_t requests, std::vector<Sample>* samples) {
  OrchestratorConfig config;
  config.policy = SchemePolicy(Scheme::kRserve);
  config.workers = SchemePlacement(Scheme::kRserve, 1, 1);
  config.budgets.kv_blocks = 1 << 22;
  auto created = Orchestrator::Create(config);
  if (!created.ok()) {
    std::printf("%s\n", created.status().ToString().c_str());
    return;
  }
  const std::unique_ptr<Orchestrator> orchestrator = *std::move(created);
  Sink sink;
  std::vector<Input> inputs;
  for (int64_t i = 1; i <= requests; ++i) {
    inputs.push_back(SubmitInput{Plan(static_cast<RequestId>(i), i % 100 == 50)});
  }
  orchestrator->Step(1, absl::MakeSpan(inputs), sink);
  while (sink.token != 0) {
    inputs.clear();
    inputs.push_back(StageFinishedInput{sink.token, absl::OkStatus()});
    sink.token = 0;
    const double begin = ThreadMicros();
    orchestrator->Step(2, absl::MakeSpan(inputs), sink);
    const double spent = ThreadMicros() - begin;
    if (sink.token != 0) samples->push_back({spent, sink.entries});
  }
}

void Report(int64_t requests, int rounds) {
  std::vector<Sample> samples;
  for (int i = 0; i < rounds; ++i) RunQueue(requests, &samples);
  if (samples.empty()) return;
  std::sort(samples.begin(), samples.end(),
            [](const Sample& a, const Sample& b) { return a.micros < b.micros; });
  double entries = 0;
  for (const Sample& sample : samples) entries += static_cast<double>(sample.entries);
  std::printf("%10lld %12zu %10.1f %14.2f %14.2f\n", static_cast<long long>(requests),
              samples.size(), entries / static_cast<double>(samples.size()),
              samples[samples.size() / 2].micros, samples[samples.size() * 99 / 100].micros);
}

}  // namespace
}  // namespace rserve

int main() {
  std::printf("%10s %12s %10s %14s %14s\n", "queued", "micro-batches", "entries", "median us",
              "99 % us");
  rserve::Report(1000, 60);
  rserve::Report(10000, 8);
  rserve::Report(100000, 1);
  return 0;
}
