#include "capi/events.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "capi/engine_handle.h"
#include "capi/structs.h"

// A published layout: bindings in other languages repeat it.
static_assert(sizeof(rserve_event) == 64);
static_assert(offsetof(rserve_event, request_id) == 0);
static_assert(offsetof(rserve_event, user_data) == 8);
static_assert(offsetof(rserve_event, type) == 16);
static_assert(offsetof(rserve_event, flags) == 20);
static_assert(offsetof(rserve_event, status) == 24);
static_assert(offsetof(rserve_event, reserved) == 28);
static_assert(offsetof(rserve_event, t_mono_ns) == 32);
static_assert(offsetof(rserve_event, u) == 40);
static_assert(sizeof(rserve_event::u) == 24);

static_assert(RSERVE_EVENT_ACCEPTED == static_cast<int>(rserve::EventType::kAccepted));
static_assert(RSERVE_EVENT_ITEM_ENCODED == static_cast<int>(rserve::EventType::kItemEncoded));
static_assert(RSERVE_EVENT_INPUT_RELEASED == static_cast<int>(rserve::EventType::kInputReleased));
static_assert(RSERVE_EVENT_FIRST_TOKEN == static_cast<int>(rserve::EventType::kFirstToken));
static_assert(RSERVE_EVENT_FINISHED == static_cast<int>(rserve::EventType::kFinished));
static_assert(RSERVE_EVENT_FAILED == static_cast<int>(rserve::EventType::kFailed));
static_assert(RSERVE_EVENT_CANCELLED == static_cast<int>(rserve::EventType::kCancelled));

namespace rserve::capi {

rserve_event MakeEvent(const Event& from) {
  rserve_event event{};
  event.request_id = from.request;
  event.user_data = from.user_data;
  event.type = static_cast<rserve_event_type_t>(from.type);
  event.flags = from.more ? RSERVE_EVENT_F_MORE : 0;
  event.status = static_cast<rserve_status_t>(from.status.code());
  event.t_mono_ns = from.time_ns;
  if (!from.more) {
    event.u.terminal.elapsed_ns = from.time_ns - from.times.submitted_ns;
  } else if (from.type == EventType::kFirstToken) {
    event.u.first_token.token = from.first_token.token;
    event.u.first_token.logprob = from.first_token.logprob;
    event.u.first_token.ttft_ns = from.times.first_token_ns - from.times.submitted_ns;
  } else if (from.item >= 0) {
    event.u.item.item = from.item;
    event.u.item.tokens = from.item_tokens;
  }
  return event;
}

namespace {

// Only one poll at a time may use the handle's scratch.
class PollTurn {
 public:
  explicit PollTurn(rserve_engine* handle)
      : handle_(handle), mine_(!handle->polling.exchange(true, std::memory_order_acquire)) {}
  ~PollTurn() {
    if (mine_) handle_->polling.store(false, std::memory_order_release);
  }
  bool mine() const { return mine_; }

 private:
  rserve_engine* const handle_;
  const bool mine_;
};

template <typename AnyEngine>
absl::Status PollInto(rserve_engine* handle, AnyEngine& engine, rserve_event* events,
                      size_t capacity, size_t event_size, size_t* count) {
  absl::Status status = CheckNotNull(count, "count");
  if (capacity > 0) status.Update(CheckNotNull(events, "events"));
  status.Update(CheckStructSize("rserve_event", event_size, sizeof(rserve_event)));
  if (!status.ok()) return status;
  const PollTurn turn(handle);
  if (!turn.mine()) {
    return absl::FailedPreconditionError("another poll of this engine is running");
  }
  size_t written = 0;
  auto* at = reinterpret_cast<char*>(events);
  while (written < capacity) {
    const auto room =
        static_cast<int64_t>(std::min<size_t>(capacity - written, static_cast<size_t>(kPollStep)));
    handle->events.clear();
    engine.Poll(room, &handle->events);
    for (const Event& from : handle->events) {
      const rserve_event event = MakeEvent(from);
      std::memcpy(at, &event, sizeof(event));
      std::memset(at + sizeof(event), 0, event_size - sizeof(event));
      at += event_size;
      ++written;
    }
    if (static_cast<int64_t>(handle->events.size()) < room) break;
  }
  handle->events.clear();
  *count = written;
  return absl::OkStatus();
}

}  // namespace

}  // namespace rserve::capi

using namespace rserve::capi;  // NOLINT(google-build-using-namespace): the shim of that namespace

extern "C" {

rserve_status_t rserve_engine_poll(rserve_engine* engine, rserve_event* events, size_t capacity,
                                   size_t event_size, size_t* count, rserve_error** err) {
  return WithEngine(engine, err, [&](auto& any) {
    return PollInto(engine, any, events, capacity, event_size, count);
  });
}

int rserve_engine_wait_fd(const rserve_engine* engine) {
  int fd = -1;
  WithEngine(engine, nullptr, [&](const auto& any) {
    fd = any.wait_fd();
    return absl::OkStatus();
  });
  return fd;
}

int64_t rserve_engine_next_deadline_ns(const rserve_engine* engine) {
  int64_t deadline_ns = INT64_MAX;
  WithEngine(engine, nullptr, [&](const auto& any) {
    deadline_ns = any.next_deadline_ns();
    return absl::OkStatus();
  });
  return deadline_ns;
}

}  // extern "C"
