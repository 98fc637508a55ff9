#include "tools/rserve/spans.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/rserve/text.h"

namespace rserve::tool {
namespace {

using Kind = TraceSpan::Kind;

const TracedRequest* FindRequest(const TracedRequests& requests, RequestId id) {
  const auto it = requests.find(id);
  return it == requests.end() ? nullptr : &it->second;
}

int32_t ItemOf(const TracedRequests& requests, UnitRef unit) {
  const TracedRequest* request = FindRequest(requests, unit.request);
  const auto at = static_cast<size_t>(unit.unit);
  return request != nullptr && at < request->unit_item.size() ? request->unit_item[at] : unit.unit;
}

std::string Prefix(const TracedRequests& requests, RequestId id) {
  const TracedRequest* request = FindRequest(requests, id);
  if (request == nullptr) return absl::StrCat("request ", id, ": ");
  return request->name.empty() ? "" : absl::StrCat(request->name, ": ");
}

// "picture 2", "pictures 1, 2", "request 3: pictures 1, 2; request 4: picture 1".
std::string Pictures(const TracedRequests& requests, const std::vector<UnitRef>& units) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < units.size();) {
    std::vector<std::string> numbers;
    const RequestId id = units[i].request;
    for (; i < units.size() && units[i].request == id; ++i) {
      numbers.push_back(absl::StrCat(ItemOf(requests, units[i]) + 1));
    }
    parts.push_back(absl::StrCat(Prefix(requests, id),
                                 numbers.size() == 1 ? "picture " : "pictures ",
                                 absl::StrJoin(numbers, ", ")));
  }
  return absl::StrJoin(parts, "; ");
}

std::string PictureNumbers(const TracedRequests& requests, const std::vector<UnitRef>& units) {
  return absl::StrJoin(units, ",", [&](std::string* out, UnitRef unit) {
    absl::StrAppend(out, ItemOf(requests, unit) + 1);
  });
}

std::string Range(const BatchEntry& entry) {
  return absl::StrCat(entry.begin, "-", entry.begin + entry.tokens - 1);
}

std::string Chunks(const TracedRequests& requests, const std::vector<BatchEntry>& entries) {
  return absl::StrJoin(entries, "; ", [&](std::string* out, const BatchEntry& entry) {
    absl::StrAppend(out, Prefix(requests, entry.request), "tokens ", Range(entry));
  });
}

std::string SpanName(const TracedRequests& requests, const TraceSpan& span) {
  switch (span.kind) {
    case Kind::kPrepare:
      return absl::StrCat("pixels ", Pictures(requests, span.units));
    case Kind::kEncode:
      return absl::StrCat("encode ", Pictures(requests, span.units));
    case Kind::kStage:
      return absl::StrCat("prefill ", Chunks(requests, span.entries));
  }
  return "";
}

std::string WorkerName(const std::vector<WorkerSpec>& workers, int32_t worker) {
  const auto at = static_cast<size_t>(worker);
  if (at >= workers.size()) return absl::StrCat("worker ", worker);
  const WorkerSpec& spec = workers[at];
  if (spec.stage < 0) {
    const auto encoders = std::count_if(workers.begin(), workers.end(),
                                        [](const WorkerSpec& w) { return w.encoder; });
    const auto before = std::count_if(workers.begin(), workers.begin() + worker,
                                      [](const WorkerSpec& w) { return w.encoder; });
    return encoders > 1 ? absl::StrCat("encoder ", before) : "encoder";
  }
  return absl::StrCat("stage ", spec.stage, spec.encoder ? " + encoder" : "");
}

std::string LaneName(const std::vector<WorkerSpec>& workers, const TraceSpan& span) {
  return span.worker < 0 ? absl::StrCat("pixels ", span.lane) : WorkerName(workers, span.worker);
}

// Lanes in the order in which data flows through them: media threads, encoders, stages.
std::pair<int, int> LaneOrder(const std::vector<WorkerSpec>& workers, const TraceSpan& span) {
  if (span.worker < 0) return {0, span.lane};
  const auto at = static_cast<size_t>(span.worker);
  const int32_t stage = at < workers.size() ? workers[at].stage : 0;
  return stage < 0 ? std::pair(1, span.worker) : std::pair(2, stage);
}

std::vector<const TraceSpan*> ByTime(const std::vector<TraceSpan>& spans) {
  std::vector<const TraceSpan*> sorted;
  for (const TraceSpan& span : spans) sorted.push_back(&span);
  std::stable_sort(sorted.begin(), sorted.end(), [](const TraceSpan* a, const TraceSpan* b) {
    return a->begin_ns < b->begin_ns;
  });
  return sorted;
}

TimelineBar MakeBar(const TracedRequests& requests, const TraceSpan& span) {
  TimelineBar bar;
  bar.begin_ns = span.begin_ns;
  bar.end_ns = span.end_ns;
  if (span.kind == Kind::kStage) {
    bar.kind = BarKind::kPrefill;
    const auto ranges = absl::StrJoin(span.entries, ",", [](std::string* out, const BatchEntry& e) {
      absl::StrAppend(out, Range(e));
    });
    bar.labels = {Chunks(requests, span.entries), ranges, absl::StrCat(span.tokens)};
  } else {
    bar.kind = span.kind == Kind::kEncode ? BarKind::kEncode : BarKind::kPixels;
    bar.labels = {Pictures(requests, span.units), PictureNumbers(requests, span.units)};
  }
  return bar;
}

}  // namespace

std::function<void(const TraceSpan&)> SpanRecorder::Sink() {
  return [state = state_](const TraceSpan& span) {
    const std::lock_guard<std::mutex> lock(state->mutex);
    state->spans.push_back(span);
  };
}

std::vector<TraceSpan> SpanRecorder::Take() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return std::exchange(state_->spans, {});
}

std::vector<TimelineLane> TimelineLanes(const std::vector<TraceSpan>& spans,
                                        const std::vector<WorkerSpec>& workers,
                                        const TracedRequests& requests) {
  std::map<std::pair<int, int>, TimelineLane> lanes;
  // Workers that did nothing are shown as well: an idle worker is news.
  for (size_t worker = 0; worker < workers.size(); ++worker) {
    TraceSpan span;
    span.worker = static_cast<int32_t>(worker);
    lanes[LaneOrder(workers, span)].name = LaneName(workers, span);
  }
  for (const TraceSpan* span : ByTime(spans)) {
    TimelineLane& lane = lanes[LaneOrder(workers, *span)];
    lane.name = LaneName(workers, *span);
    lane.bars.push_back(MakeBar(requests, *span));
  }
  std::vector<TimelineLane> out;
  for (auto& [order, lane] : lanes) out.push_back(std::move(lane));
  return out;
}

std::string SpanTable(const std::vector<TraceSpan>& spans, const std::vector<WorkerSpec>& workers,
                      const TracedRequests& requests, int64_t origin_ns) {
  TextTable table({"what", "where", "begin", "end", "took", "tokens"});
  for (const TraceSpan* span : ByTime(spans)) {
    table.Row({SpanName(requests, *span), LaneName(workers, *span),
               FormatMs(span->begin_ns - origin_ns), FormatMs(span->end_ns - origin_ns),
               FormatMs(span->end_ns - span->begin_ns),
               span->tokens > 0 ? absl::StrCat(span->tokens) : ""});
  }
  return table.ToString();
}

nlohmann::json ChromeTrace(const std::vector<TraceSpan>& spans,
                           const std::vector<WorkerSpec>& workers, const TracedRequests& requests,
                           int64_t origin_ns) {
  using nlohmann::json;
  const auto micros = [origin_ns](int64_t ns) { return static_cast<double>(ns - origin_ns) / 1e3; };
  json events = json::array();
  events.push_back(
      {{"ph", "M"}, {"pid", 1}, {"name", "process_name"}, {"args", {{"name", "rserve"}}}});

  std::map<std::pair<int, int>, int> thread_ids;
  std::map<std::pair<int, int>, std::string> names;
  for (const TraceSpan& span : spans) names[LaneOrder(workers, span)] = LaneName(workers, span);
  for (const auto& [order, name] : names) {
    const int id = static_cast<int>(thread_ids.size()) + 1;
    thread_ids[order] = id;
    events.push_back({{"ph", "M"},
                      {"pid", 1},
                      {"tid", id},
                      {"name", "thread_name"},
                      {"args", {{"name", name}}}});
    events.push_back({{"ph", "M"},
                      {"pid", 1},
                      {"tid", id},
                      {"name", "thread_sort_index"},
                      {"args", {{"sort_index", id}}}});
  }

  // Arrows: an item's flow begins at its pixels (or its encode) and ends at the first chunk that
  // holds one of its tokens.
  std::map<std::pair<RequestId, int32_t>, int> flows;
  std::set<int> ended;
  const auto arrow = [&](const char* phase, int id, int tid, double ts) {
    json event = {{"ph", phase},   {"pid", 1},       {"tid", tid}, {"ts", ts},
                  {"cat", "item"}, {"name", "item"}, {"id", id}};
    if (*phase == 'f') event["bp"] = "e";
    events.push_back(std::move(event));
  };
  for (const TraceSpan* span : ByTime(spans)) {
    const int tid = thread_ids[LaneOrder(workers, *span)];
    const double begin = micros(span->begin_ns);
    json args = {{"tokens", span->tokens}};
    static constexpr const char* kCategories[] = {"pixels", "encode", "prefill"};
    if (span->kind == Kind::kStage) {
      args["stage"] = span->stage;
      args["micro_batch"] = span->micro_batch;
      args["chunks"] = Chunks(requests, span->entries);
    } else {
      args["pictures"] = Pictures(requests, span->units);
    }
    events.push_back({{"ph", "X"},
                      {"pid", 1},
                      {"tid", tid},
                      {"ts", begin},
                      {"dur", static_cast<double>(span->end_ns - span->begin_ns) / 1e3},
                      {"cat", kCategories[static_cast<int>(span->kind)]},
                      {"name", SpanName(requests, *span)},
                      {"args", std::move(args)}});
    for (const UnitRef& unit : span->units) {
      const auto key = std::pair(unit.request, ItemOf(requests, unit));
      const auto [flow, first] = flows.emplace(key, static_cast<int>(flows.size()) + 1);
      arrow(first ? "s" : "t", flow->second, tid, begin);
    }
    if (span->kind != Kind::kStage || span->stage != 0) continue;
    for (const BatchEntry& entry : span->entries) {
      const TracedRequest* request = FindRequest(requests, entry.request);
      if (request == nullptr) continue;
      for (size_t item = 0; item < request->item_begin.size(); ++item) {
        const int64_t token = request->item_begin[item];
        const auto flow = flows.find({entry.request, static_cast<int32_t>(item)});
        if (token < entry.begin || token >= entry.begin + entry.tokens || flow == flows.end()) {
          continue;
        }
        if (ended.insert(flow->second).second) arrow("f", flow->second, tid, begin);
      }
    }
  }
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
}

}  // namespace rserve::tool
