#include "src/runtime/completion.h"

#include <utility>
#include <variant>

#include "src/runtime/clock.h"
#include "src/runtime/exception_guard.h"

namespace rserve::runtime {

Completion::Completion(std::shared_ptr<Inbox> inbox, std::list<InboxItem> item)
    : inbox_(std::move(inbox)), item_(std::move(item)) {}

Completion::~Completion() {
  if (finished_.load(std::memory_order_acquire)) return;
  Finish(StatusWithoutThrow(absl::StatusCode::kInternal, "the executor dropped its completion"));
}

TraceSpan* Completion::span() {
  auto& span = item_.front().span;
  return span.has_value() ? &*span : nullptr;
}

void Completion::Begin(int32_t lane) {
  if (TraceSpan* const traced = span()) {
    traced->lane = lane;
    traced->begin_ns = MonotonicNow();
  }
}

void Completion::Finish(absl::Status status) noexcept {
  if (finished_.exchange(true, std::memory_order_acq_rel)) return;
  InboxItem& item = item_.front();
  if (TraceSpan* const traced = span()) traced->end_ns = MonotonicNow();
  std::visit(
      [&](auto& input) {
        if constexpr (requires { input.token, input.status; }) input.status = std::move(status);
      },
      item.input);
  inbox_->Post(std::move(item_));
}

Done Completion::MakeDone(std::shared_ptr<Completion> completion) {
  return [completion = std::move(completion)](absl::Status status) mutable {
    // Let go at once: the Done itself may be kept longer than the engine lives.
    if (const std::shared_ptr<Completion> taken = std::move(completion)) {
      taken->Finish(std::move(status));
    }
  };
}

}  // namespace rserve::runtime
