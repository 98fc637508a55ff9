#include "src/sim/bounds.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <queue>

#include "absl/functional/function_ref.h"

namespace rserve::sim {
namespace {

constexpr int64_t kChunk = 8192;

class Machine {
 public:
  explicit Machine(const SimConfig& config)
      : config_(config),
        cost_(config.model, config.hardware, config.calibration, config.fitted),
        layers_(config.layout.layers.empty()
                    ? EvenLayers(config.model.language.layers, config.layout.stages)
                    : config.layout.layers),
        serial_host_(config.media_lanes == 0 &&
                     config.policy.trigger == EncodeTrigger::kOnArrival) {}

  int32_t stages() const { return config_.layout.stages; }
  const CostModel& cost() const { return cost_; }

  // Tokens [begin, end) of a request alone on a stage. A micro-batch's own cost is shared by all
  // the tokens it could hold.
  TimeNs StageWork(int32_t stage, int64_t begin, int64_t end) const {
    TimeNs sum = 0;
    for (int64_t at = begin; at < end; at += kChunk) {
      const int64_t tokens = std::min(kChunk, end - at);
      const ChunkWork chunk = {tokens, at, 0, at == 0};
      const ChunkWork none = {0, 0, 0, false};
      const TimeNs whole = cost_.StageNs(Cost(stage), {&chunk, 1}, true);
      const TimeNs fixed = cost_.StageNs(Cost(stage), {&none, 1}, true);
      // What a full batch would take for these tokens is never more than this, even where one
      // small micro-batch alone waits for the weights.
      sum += std::min(whole, PerToken(stage, chunk) + fixed * tokens / kChunk);
    }
    return sum;
  }

  // The encoder's own time for a request; `host` adds the preparation if it is serial.
  TimeNs EncodeWork(const SimRequest& request) const {
    if (request.items.empty()) return 0;
    const std::vector<int64_t> units = UnitTokens(request);
    const bool shares = config_.layout.encoders == 0;
    TimeNs ns = cost_.EncodeNs(units, shares ? config_.layout.ranks : 1) -
                cost_.EncodeNs({}, 1);  // batches may be shared with other requests
    if (serial_host_) {
      for (int64_t tokens : units) ns += cost_.HostNs(tokens);
    }
    return ns / std::max(1, config_.layout.encoders);
  }

  // From the last token's entry into `stage` (not counted) to the first token.
  TimeNs Tail(int32_t stage) const {
    const ChunkWork one = {1, 0, 0, false};
    TimeNs ns = 0;
    for (int32_t s = stage + 1; s < stages(); ++s) ns += cost_.StageNs(Cost(s), {&one, 1}, true);
    return ns;
  }

  // With the machine to itself: item k is ready when all before it are, then what is left of stage
  // 0, then the shortest way through the others.
  TimeNs CriticalPath(const SimRequest& request) const {
    const bool shares = config_.layout.encoders == 0;
    TimeNs ready = 0, done = 0;
    int64_t at = 0;
    size_t next_unit = 0;
    const std::vector<int64_t> units = UnitTokens(request);
    for (const SimItem& item : request.items) {
      done += StageWork(0, at, item.token_begin);
      at = item.token_begin;
      for (int32_t u = 0; u < item.units; ++u) {
        const int64_t tokens = units[next_unit++];
        ready += (cost_.EncodeNs({&tokens, 1}, shares ? config_.layout.ranks : 1) -
                  cost_.EncodeNs({}, 1)) /
                 std::max(1, config_.layout.encoders);
        if (serial_host_) ready += cost_.HostNs(tokens) / std::max(1, config_.layout.encoders);
        done = std::max(done, ready) + StageWork(0, at, at + tokens);
        at += tokens;
      }
    }
    done += StageWork(0, at, request.prompt_tokens);
    return FrontEndNs(config_, cost_, units) + done + Tail(0);
  }

 private:
  StageCost Cost(int32_t stage) const { return {layers_[stage], config_.layout.ranks, stage}; }
  // Of a micro-batch of kChunk tokens, the part that falls to `chunk` without the fixed cost.
  TimeNs PerToken(int32_t stage, const ChunkWork& chunk) const {
    const ChunkWork rest = {kChunk - chunk.tokens, 0, 0, false};
    if (rest.tokens == 0) return cost_.StageNs(Cost(stage), {&chunk, 1}, true);
    const ChunkWork both[] = {chunk, rest};
    return cost_.StageNs(Cost(stage), both, true) - cost_.StageNs(Cost(stage), {&rest, 1}, true);
  }

  const SimConfig& config_;
  const CostModel cost_;
  const std::vector<int64_t> layers_;
  const bool serial_host_;  // the encoder's worker prepares
};

}  // namespace

double MeanFlowFcfs(absl::Span<const Job> jobs) {
  TimeNs now = 0;
  double sum = 0;
  for (const Job& job : jobs) {
    now = std::max(now, job.release_ns) + job.work_ns;
    sum += static_cast<double>(now - job.release_ns);
  }
  return jobs.empty() ? 0 : sum / static_cast<double>(jobs.size());
}

double MeanFlowShortest(absl::Span<const Job> jobs) {
  struct Open {
    TimeNs left = 0;
    TimeNs release = 0;
    bool operator<(const Open& other) const { return left > other.left; }
  };
  std::priority_queue<Open> open;
  TimeNs now = 0;
  double sum = 0;
  size_t next = 0;
  while (next < jobs.size() || !open.empty()) {
    if (open.empty()) now = std::max(now, jobs[next].release_ns);
    while (next < jobs.size() && jobs[next].release_ns <= now) {
      open.push({jobs[next].work_ns, jobs[next].release_ns});
      ++next;
    }
    Open first = open.top();
    open.pop();
    const TimeNs until = next < jobs.size() ? jobs[next].release_ns : kNever;
    if (until - now >= first.left) {
      now += first.left;
      sum += static_cast<double>(now - first.release);
    } else {
      first.left -= until - now;
      now = until;
      open.push(first);
    }
  }
  return jobs.empty() ? 0 : sum / static_cast<double>(jobs.size());
}

namespace {

// Calls its argument with each request, the same ones every time.
using ForEach = absl::FunctionRef<void(absl::FunctionRef<void(const SimRequest&)>)>;

Bounds BoundsOf(const SimConfig& config, ForEach for_each) {
  Bounds bounds;
  const Machine machine(config);
  double n = 0, critical = 0, front = 0, tokens = 0;
  for_each([&](const SimRequest& request) {
    n += 1;
    critical += static_cast<double>(machine.CriticalPath(request));
    front += static_cast<double>(FrontEndNs(config, machine.cost(), UnitTokens(request)));
    tokens += static_cast<double>(request.prompt_tokens);
  });
  if (n == 0) return bounds;
  bounds.critical_path_s = critical / n * 1e-9;
  const bool shares = config.layout.encoders == 0;
  double busiest = 0;
  std::vector<Job> jobs;
  // Device -1 is the encoder's own.
  for (int32_t device = shares ? 0 : -1; device < machine.stages(); ++device) {
    jobs.clear();
    double work = 0;
    for_each([&](const SimRequest& request) {
      Job job;
      job.release_ns = request.arrival_ns + FrontEndNs(config, machine.cost(), UnitTokens(request));
      if (device >= 0) job.work_ns = machine.StageWork(device, 0, request.prompt_tokens);
      if (device < 0 || (shares && device == 0)) job.work_ns += machine.EncodeWork(request);
      work += static_cast<double>(job.work_ns);
      jobs.push_back(job);
    });
    std::stable_sort(jobs.begin(), jobs.end(),
                     [](const Job& a, const Job& b) { return a.release_ns < b.release_ns; });
    const double around = front / n + static_cast<double>(machine.Tail(device));
    bounds.fcfs_s = std::max(bounds.fcfs_s, (MeanFlowFcfs(jobs) + around) * 1e-9);
    bounds.shortest_s = std::max(bounds.shortest_s, (MeanFlowShortest(jobs) + around) * 1e-9);
    busiest = std::max(busiest, work);
  }
  if (busiest > 0) bounds.tokens_per_s = tokens / (busiest * 1e-9);
  return bounds;
}

}  // namespace

Bounds ComputeBounds(const SimConfig& config, absl::Span<const SimRequest> requests) {
  return BoundsOf(config, [&](absl::FunctionRef<void(const SimRequest&)> visit) {
    for (const SimRequest& request : requests) visit(request);
  });
}

Bounds ComputeBounds(const SimConfig& config,
                     const std::function<std::unique_ptr<RequestSource>()>& requests) {
  return BoundsOf(config, [&](absl::FunctionRef<void(const SimRequest&)> visit) {
    const std::unique_ptr<RequestSource> source = requests();
    while (const std::optional<SimRequest> request = source->Next()) visit(*request);
  });
}

}  // namespace rserve::sim
