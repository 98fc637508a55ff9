// Completion: the engine's end of a Done. It turns whatever the executor does with its Done into
// exactly one *finished input.
//
//   called once                          the status it was called with
//   called again                         ignored
//   destroyed without a call             INTERNAL, "the executor dropped its completion"
//   the executor threw before it called  the exception as a status (the worker calls Finish)
//
// Shared by the Done and, during the call of the executor, by the thread that makes it. It keeps
// the inbox alive, so a Done may outlive the engine.

#ifndef RSERVE_SRC_RUNTIME_COMPLETION_H_
#define RSERVE_SRC_RUNTIME_COMPLETION_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>

#include "absl/status/status.h"
#include "rserve/cc/executor.h"
#include "src/runtime/inbox.h"

namespace rserve::runtime {

class Completion {
 public:
  // `item` holds one item: the finished input with its token, and the span to be filled in.
  Completion(std::shared_ptr<Inbox> inbox, std::list<InboxItem> item);
  ~Completion();
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  // To be filled in before the executor is called; null if nobody traces.
  TraceSpan* span();
  // The action starts now on lane `lane`. Before the executor is called.
  void Begin(int32_t lane);
  // The first call counts. [any-thread]
  void Finish(absl::Status status) noexcept;

  static Done MakeDone(std::shared_ptr<Completion> completion);

 private:
  const std::shared_ptr<Inbox> inbox_;
  std::atomic<bool> finished_{false};
  std::list<InboxItem> item_;  // gone once finished_
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_COMPLETION_H_
