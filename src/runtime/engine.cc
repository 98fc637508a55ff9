#include "rserve/cc/engine.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/runtime/clock.h"
#include "src/runtime/driver.h"
#include "src/runtime/event_queue.h"
#include "src/runtime/exception_guard.h"
#include "src/runtime/inbox.h"
#include "src/runtime/logger.h"
#include "src/runtime/media_pool.h"
#include "src/runtime/thread.h"
#include "src/runtime/worker.h"

namespace rserve {
namespace {

absl::Status CheckOptions(const EngineOptions& options, const Executor* executor) {
  if (executor == nullptr) return absl::InvalidArgumentError("executor is null");
  // Not left to the orchestrator, which is created without these two limits.
  const Budgets& budgets = options.core.budgets;
  if (budgets.queue_requests < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "budgets.queue_requests is ", budgets.queue_requests, "; it must be at least 1"));
  }
  if (budgets.input_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("budgets.input_bytes is ", budgets.input_bytes, "; it must be at least 0"));
  }
  if (options.worker_cores.size() > options.core.workers.size()) {
    return absl::InvalidArgumentError(absl::StrCat("worker_cores names ",
                                                   options.worker_cores.size(), " workers of ",
                                                   options.core.workers.size()));
  }
  for (const std::vector<int>& cores : options.worker_cores) {
    if (absl::Status status = runtime::ValidateCores(cores); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

// The order of the members is the order of construction and, backwards, of the end: threads that
// use something end before it does.
class Engine::Impl {
 public:
  Impl(EngineOptions options, std::unique_ptr<Executor> executor,
       std::unique_ptr<Orchestrator> orchestrator, std::unique_ptr<runtime::EventQueue> events)
      : trace_(std::move(options.trace)),
        logger_(std::move(options.log)),
        executor_(std::move(executor)),
        orchestrator_(std::move(orchestrator)),
        events_(std::move(events)),
        inbox_(std::make_shared<runtime::Inbox>(options.core.budgets.queue_requests,
                                                options.core.budgets.input_bytes)),
        media_(*executor_, logger_),
        driver_({*orchestrator_, *executor_, inbox_, *events_, workers_, media_, logger_, trace_}) {
  }

  ~Impl() {
    inbox_->Stop();
    driver_thread_.reset();
    // A step that ran out of memory can leave a hash table in a state that even its destructor
    // cannot stand (Abseil's are not exception-safe). Better lost than freed wrongly.
    if (driver_.failed()) static_cast<void>(orchestrator_.release());
  }

  // May throw; the object can then only be destroyed.
  void StartThreads(const EngineOptions& options) {
    for (size_t w = 0; w < options.core.workers.size(); ++w) {
      workers_.push_back(std::make_unique<runtime::Worker>(
          static_cast<int32_t>(w),
          w < options.worker_cores.size() ? options.worker_cores[w] : std::vector<int>{},
          *executor_, logger_));
    }
    media_.Start(options.core.prepare_lanes);
    driver_thread_ = std::make_unique<runtime::Thread>("rserve-driver", [this] { driver_.Run(); });
  }

  std::atomic<RequestId> last_id_{0};
  std::atomic<int64_t> refused_{0};
  const std::function<void(const TraceSpan&)> trace_;
  const runtime::Logger logger_;
  const std::unique_ptr<Executor> executor_;
  std::unique_ptr<Orchestrator> orchestrator_;
  const std::unique_ptr<runtime::EventQueue> events_;
  const std::shared_ptr<runtime::Inbox> inbox_;
  std::vector<std::unique_ptr<runtime::Worker>> workers_;
  runtime::MediaPool media_;
  runtime::Driver driver_;
  std::unique_ptr<runtime::Thread> driver_thread_;
};

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(EngineOptions options,
                                                       std::unique_ptr<Executor> executor) {
  if (absl::Status status = CheckOptions(options, executor.get()); !status.ok()) return status;
  // Queue and input bytes are counted where requests are accepted. What was accepted must not be
  // refused by the orchestrator, which may still hold a request whose place was given back.
  OrchestratorConfig core = options.core;
  core.budgets.queue_requests = Budgets{}.queue_requests;
  core.budgets.input_bytes = Budgets{}.input_bytes;
  auto orchestrator = Orchestrator::Create(core);
  if (!orchestrator.ok()) return orchestrator.status();
  auto events = runtime::EventQueue::Create();
  if (!events.ok()) return events.status();

  std::unique_ptr<Impl> impl;
  absl::Status started = runtime::RunGuarded("Engine::Create", [&] {
    impl = std::make_unique<Impl>(options, std::move(executor), *std::move(orchestrator),
                                  *std::move(events));
    impl->StartThreads(options);
  });
  if (!started.ok()) return started;
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Engine::~Engine() = default;

RequestId Engine::NewRequestId() { return ++impl_->last_id_; }

absl::Status Engine::Submit(RequestPlan plan, uint64_t user_data) {
  absl::Status status = impl_->orchestrator_->CheckFits(plan);
  if (status.ok()) status = impl_->inbox_->Submit(std::move(plan), user_data, now_ns());
  if (!status.ok()) ++impl_->refused_;
  return status;
}

absl::Status Engine::Cancel(RequestId request) { return impl_->inbox_->Cancel(request); }

void Engine::Drain() { impl_->inbox_->Close(DrainInput{}, "is draining"); }

void Engine::Abort() { impl_->inbox_->Close(AbortInput{}, "was aborted"); }

int64_t Engine::Poll(int64_t capacity, std::vector<Event>* events) {
  return impl_->events_->Poll(capacity, events);
}

int Engine::wait_fd() const { return impl_->events_->fd(); }

// Deadlines and flushes are the driver's: whatever comes of them arrives through the fd.
TimeNs Engine::next_deadline_ns() const { return kNever; }

TimeNs Engine::now_ns() { return runtime::MonotonicNow(); }

OrchestratorStats Engine::stats() const {
  OrchestratorStats stats = impl_->driver_.stats();
  stats.refused += impl_->refused_.load();
  return stats;
}

bool Engine::idle() const { return impl_->inbox_->idle(); }

Executor& Engine::executor() { return *impl_->executor_; }

}  // namespace rserve
