// Sends a set of requests to an engine at given times and gathers how each ended.

#ifndef RSERVE_TOOLS_RSERVE_DRIVER_H_
#define RSERVE_TOOLS_RSERVE_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rserve/cc/engine.h"
#include "rserve/cc/model_engine.h"

namespace rserve::tool {

// What requests are sent to: an engine with a model, or one with a stand-in.
class Target {
 public:
  virtual ~Target() = default;
  // Submits the request with this index of the set.
  virtual absl::StatusOr<RequestId> Submit(size_t index) = 0;
  virtual int64_t Poll(int64_t capacity, std::vector<Event>* events) = 0;
  virtual int wait_fd() const = 0;
  virtual TimeNs next_deadline_ns() const = 0;
  virtual OrchestratorStats stats() const = 0;
  virtual std::string topology() const = 0;  // "TP1+E1": workers as they are
};

struct Outcome {
  absl::Status status;  // of the submit or of the terminal event
  RequestId id = 0;     // 0: the submit was refused
  FirstToken first_token;
  RequestTimes times;
  TimeNs ttft_ns() const { return times.first_token_ns - times.submitted_ns; }
};

// Submits request i at `arrival_ns[i]` after the start (ascending) and returns when all have ended.
// `ended` is called once for each request that was accepted, after its terminal event; it may be
// empty.
std::vector<Outcome> Drive(Target& target, absl::Span<const TimeNs> arrival_ns,
                           const std::function<void(size_t index, RequestId id)>& ended);

// The set of requests of a ModelEngine. Both are borrowed.
class ModelTarget : public Target {
 public:
  ModelTarget(ModelEngine* engine, absl::Span<const ModelRequest> requests)
      : engine_(engine), requests_(requests) {}
  absl::StatusOr<RequestId> Submit(size_t index) override {
    return engine_->Submit(requests_[index]);
  }
  int64_t Poll(int64_t capacity, std::vector<Event>* events) override {
    return engine_->Poll(capacity, events);
  }
  int wait_fd() const override { return engine_->wait_fd(); }
  TimeNs next_deadline_ns() const override { return engine_->next_deadline_ns(); }
  OrchestratorStats stats() const override { return engine_->stats(); }
  std::string topology() const override { return engine_->info().topology; }

 private:
  ModelEngine* const engine_;
  const absl::Span<const ModelRequest> requests_;
};

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_DRIVER_H_
