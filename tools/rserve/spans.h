// Names and views of what the engine traced: lanes of the terminal's timeline, Chrome trace JSON.

#ifndef RSERVE_TOOLS_RSERVE_SPANS_H_
#define RSERVE_TOOLS_RSERVE_SPANS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "rserve/cc/engine.h"
#include "tools/rserve/timeline.h"

namespace rserve::tool {

// What the views need to know of the requests behind the spans.
struct TracedRequest {
  std::string name;                 // "request 3"; empty: the only one, left out of labels
  std::vector<int64_t> item_begin;  // first prompt token of each item
  std::vector<int32_t> unit_item;   // item of each unit
};
using TracedRequests = std::map<RequestId, TracedRequest>;

// Collects spans from an engine's driver thread.
class SpanRecorder {
 public:
  // For EngineOptions::trace; may outlive the recorder.
  std::function<void(const TraceSpan&)> Sink();
  // What has come so far. [any-thread]
  std::vector<TraceSpan> Take();

 private:
  struct State {
    std::mutex mutex;
    std::vector<TraceSpan> spans;  // guarded by mutex
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// One lane a media thread that did something, then the workers in the order data flows: encoders,
// stages. Names: "pixels 0", "encoder", "stage 0", "stage 0 + encoder".
std::vector<TimelineLane> TimelineLanes(const std::vector<TraceSpan>& spans,
                                        const std::vector<WorkerSpec>& workers,
                                        const TracedRequests& requests);

// Every span as a line of a table: what, where, begin, end, duration, tokens. Times count from
// `origin_ns`.
std::string SpanTable(const std::vector<TraceSpan>& spans, const std::vector<WorkerSpec>& workers,
                      const TracedRequests& requests, int64_t origin_ns);

// Chrome trace event format, as Perfetto and chrome://tracing open it: one thread a lane, complete
// events with tokens and pictures as arguments, and arrows from an item's pixels to its encode and
// on to the first chunk that reads it. Times count from `origin_ns`.
nlohmann::json ChromeTrace(const std::vector<TraceSpan>& spans,
                           const std::vector<WorkerSpec>& workers, const TracedRequests& requests,
                           int64_t origin_ns);

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_SPANS_H_
