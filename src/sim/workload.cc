#include "src/sim/workload.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rserve::sim {
namespace {

constexpr struct {
  WorkloadKind kind;
  std::string_view name;
} kKinds[] = {
    {WorkloadKind::kMmmu1k, "mmmu-1k"},       {WorkloadKind::kMmmu2k, "mmmu-2k"},
    {WorkloadKind::kHeavyTail, "heavy-tail"}, {WorkloadKind::kTinyItems, "tiny-items"},
    {WorkloadKind::kVideo, "video"},          {WorkloadKind::kTextOnly, "text-only"},
    {WorkloadKind::kTextMix, "text-mix"},     {WorkloadKind::kDuplicates, "duplicates"},
    {WorkloadKind::kFixed, "fixed"},
};

int64_t Rounded(double value, int64_t least, int64_t most) {
  return std::clamp(static_cast<int64_t>(std::llround(value)), least, most);
}

// Text of `text` tokens cut at random places around the items.
void Place(Random& rng, int64_t text, std::vector<SimItem> items, SimRequest* request) {
  std::vector<int64_t> cuts;
  for (size_t i = 0; i < items.size(); ++i) cuts.push_back(rng.Below(text + 1));
  std::sort(cuts.begin(), cuts.end());
  int64_t before = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].token_begin = cuts[i] + before;
    before += items[i].tokens;
  }
  request->prompt_tokens = text + before;
  request->items = std::move(items);
}

void MakeMmmu(Random& rng, WorkloadKind kind, SimRequest* request) {
  const bool large = kind == WorkloadKind::kMmmu2k;
  const int64_t count = 1 + (kind == WorkloadKind::kHeavyTail ? rng.Geometric(6) : rng.Poisson(4));
  std::vector<SimItem> items(static_cast<size_t>(count));
  for (SimItem& item : items) {
    item.tokens = large ? Rounded(rng.LogNormal(1800, 0.55), 4, 5329)
                        : Rounded(rng.LogNormal(1000, 0.25), 4, 1369);
    item.content = rng.Next() >> 1;
    if (kind == WorkloadKind::kDuplicates && rng.Uniform() < 0.3) {
      // A known picture has a known size.
      const int64_t known = rng.Below(32);
      item.content = static_cast<uint64_t>(known) + 1;
      item.tokens = 700 + known * 20;
    }
  }
  Place(rng, Rounded(rng.LogNormal(3000, 0.5), 16, 30000), std::move(items), request);
}

void MakeFixed(const WorkloadSpec& spec, SimRequest* request) {
  const int64_t n = spec.fixed_items;
  for (int64_t i = 0; i < n; ++i) {
    SimItem item;
    item.tokens = spec.fixed_item_tokens;
    // The text comes before each picture in equal parts, with one part behind the last.
    item.token_begin = spec.fixed_text_tokens * (i + 1) / (n + 1) + i * spec.fixed_item_tokens;
    request->items.push_back(item);
  }
  request->prompt_tokens = spec.fixed_text_tokens + n * spec.fixed_item_tokens;
}

void MakeRequest(const WorkloadSpec& spec, Random& rng, SimRequest* request) {
  switch (spec.kind) {
    case WorkloadKind::kMmmu1k:
    case WorkloadKind::kMmmu2k:
    case WorkloadKind::kHeavyTail:
    case WorkloadKind::kDuplicates:
      MakeMmmu(rng, spec.kind, request);
      break;
    case WorkloadKind::kTinyItems: {
      std::vector<SimItem> items(20);
      for (SimItem& item : items) item.tokens = 64;
      Place(rng, 2000, std::move(items), request);
      break;
    }
    case WorkloadKind::kVideo: {
      SimItem item;
      item.units = static_cast<int32_t>(16 + rng.Below(49));
      item.tokens = item.units * int64_t{180};
      Place(rng, 300, {item}, request);
      break;
    }
    case WorkloadKind::kTextMix:
      if (rng.Uniform() < 0.5) {
        MakeMmmu(rng, WorkloadKind::kMmmu1k, request);
        break;
      }
      [[fallthrough]];
    case WorkloadKind::kTextOnly:
      request->prompt_tokens = Rounded(rng.LogNormal(3000, 0.5), 16, 30000);
      break;
    case WorkloadKind::kFixed:
      MakeFixed(spec, request);
      break;
  }
}

class GeneratedSource final : public RequestSource {
 public:
  // Sizes and gaps come from two streams: the same requests arrive at every rate.
  explicit GeneratedSource(const WorkloadSpec& spec)
      : spec_(spec), sizes_(spec.seed * 2 + 1), gaps_(spec.seed * 2 + 2) {}

  std::optional<SimRequest> Next() override {
    if (given_ >= spec_.requests) return std::nullopt;
    SimRequest request;
    request.arrival_ns = clock_ns_;
    MakeRequest(spec_, sizes_, &request);
    ++given_;
    const bool bursty = spec_.arrivals == ArrivalKind::kBursty;
    const int64_t group = bursty ? spec_.burst : 1;
    if (spec_.arrivals != ArrivalKind::kAtOnce && given_ % group == 0) {
      const double mean = static_cast<double>(group) / spec_.rate;
      clock_ns_ += static_cast<TimeNs>(std::llround(gaps_.Exponential(mean) * 1e9));
    }
    return request;
  }

 private:
  const WorkloadSpec spec_;
  Random sizes_, gaps_;
  int64_t given_ = 0;
  TimeNs clock_ns_ = 0;
};

class ListSource final : public RequestSource {
 public:
  explicit ListSource(std::vector<SimRequest> requests) : requests_(std::move(requests)) {
    std::stable_sort(
        requests_.begin(), requests_.end(),
        [](const SimRequest& a, const SimRequest& b) { return a.arrival_ns < b.arrival_ns; });
  }
  std::optional<SimRequest> Next() override {
    if (next_ >= requests_.size()) return std::nullopt;
    return requests_[next_++];
  }

 private:
  std::vector<SimRequest> requests_;
  size_t next_ = 0;
};

}  // namespace

absl::StatusOr<WorkloadKind> ParseWorkloadKind(std::string_view name) {
  std::string known;
  for (const auto& kind : kKinds) {
    if (kind.name == name) return kind.kind;
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(kind.name));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("workload is \"", std::string(name), "\"; known are ", known));
}

std::string_view WorkloadKindName(WorkloadKind kind) {
  for (const auto& known : kKinds) {
    if (known.kind == kind) return known.name;
  }
  return "unknown";
}

std::vector<std::string> WorkloadKindNames() {
  std::vector<std::string> names;
  for (const auto& known : kKinds) names.emplace_back(known.name);
  return names;
}

std::unique_ptr<RequestSource> MakeSource(const WorkloadSpec& spec) {
  return std::make_unique<GeneratedSource>(spec);
}
std::unique_ptr<RequestSource> MakeSource(std::vector<SimRequest> requests) {
  return std::make_unique<ListSource>(std::move(requests));
}

std::vector<SimRequest> DrainSource(RequestSource& source) {
  std::vector<SimRequest> requests;
  while (std::optional<SimRequest> request = source.Next()) {
    requests.push_back(*std::move(request));
  }
  return requests;
}

std::vector<int64_t> UnitTokens(const SimRequest& request) {
  std::vector<int64_t> tokens;
  for (const SimItem& item : request.items) {
    for (int64_t u = 0; u < item.units; ++u) {
      tokens.push_back(item.tokens * (u + 1) / item.units - item.tokens * u / item.units);
    }
  }
  return tokens;
}

RequestPlan MakePlan(const SimRequest& request, RequestId id, int64_t embedding_bytes_per_token) {
  RequestPlan plan;
  plan.id = id;
  plan.prompt_tokens = request.prompt_tokens;
  plan.num_items = static_cast<int32_t>(request.items.size());
  const std::vector<int64_t> unit_tokens = UnitTokens(request);
  size_t next = 0;
  for (int32_t i = 0; i < plan.num_items; ++i) {
    const SimItem& item = request.items[i];
    SpanPlan span;
    span.token_begin = item.token_begin;
    span.tokens = item.tokens;
    span.item = i;
    plan.spans.push_back(span);
    for (int32_t u = 0; u < item.units; ++u) {
      UnitPlan unit;
      unit.item = i;
      unit.tokens = unit_tokens[next++];
      unit.embedding_bytes = unit.tokens * embedding_bytes_per_token;
      unit.pixel_bytes = unit.tokens * 4 * 1176 * 2;  // four patches a token, 16 bit
      plan.units.push_back(unit);
    }
  }
  return plan;
}

}  // namespace rserve::sim
