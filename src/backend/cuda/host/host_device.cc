#include "src/backend/cuda/host/host_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/backend/cuda/host/host_products.h"

namespace rserve::cuda {

using kernels::cuda::host::Order;

HostDevice::~HostDevice() {
  for (void* memory : live_) std::free(memory);
}

uint64_t HostDevice::Next() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return random_;
}

absl::StatusOr<void*> HostDevice::Take(int64_t bytes) {
  void* memory = nullptr;
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  if (taken_bytes_ + bytes > options_.memory_bytes || posix_memalign(&memory, 256, size) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the device has no ", bytes, " bytes more than the ", taken_bytes_, " that are taken"));
  }
  std::memset(memory, 0xff, size);
  taken_bytes_ += bytes;
  live_.insert(memory);
  return memory;
}

absl::StatusOr<void*> HostDevice::Allocate(int64_t bytes) { return Take(bytes); }
absl::StatusOr<void*> HostDevice::AllocatePinned(int64_t bytes) { return Take(bytes); }

void HostDevice::Free(void* memory) {
  live_.erase(memory);
  std::free(memory);
}
void HostDevice::FreePinned(void* memory) { Free(memory); }

absl::StatusOr<StreamRef> HostDevice::CreateStream() {
  if (!lost_.ok()) return lost_;
  streams_.push_back(std::make_unique<Stream>());
  return streams_.back()->ref();
}

void HostDevice::DestroyStream(StreamRef stream) {
  std::erase_if(streams_, [&](const auto& s) { return s.get() == Of(stream); });
}

absl::StatusOr<EventRef> HostDevice::CreateEvent() {
  if (!lost_.ok()) return lost_;
  events_.push_back(std::make_unique<Event>());
  return EventRef{events_.back().get()};
}

void HostDevice::DestroyEvent(EventRef event) {
  std::erase_if(events_, [&](const auto& e) { return e.get() == event.handle; });
}

absl::StatusOr<std::unique_ptr<Products>> HostDevice::CreateProducts(StreamRef stream, bool) {
  if (!lost_.ok()) return lost_;
  return std::unique_ptr<Products>(std::make_unique<HostProducts>(Of(stream)));
}

absl::Status HostDevice::Copy(void* to, const void* from, int64_t bytes, StreamRef stream) {
  if (!lost_.ok()) return lost_;
  Of(stream)->Enqueue([=] { std::memcpy(to, from, static_cast<size_t>(bytes)); });
  return absl::OkStatus();
}

absl::Status HostDevice::Record(EventRef event, StreamRef stream) {
  if (!lost_.ok()) return lost_;
  auto* e = static_cast<Event*>(event.handle);
  const uint64_t mark = ++e->recorded;
  Of(stream)->Enqueue([e, mark] { e->reached = mark; });
  return absl::OkStatus();
}

absl::Status HostDevice::WaitFor(EventRef event, StreamRef stream) {
  if (!lost_.ok()) return lost_;
  const auto* e = static_cast<const Event*>(event.handle);
  Of(stream)->operations.push_back({nullptr, e, e->recorded});
  return absl::OkStatus();
}

absl::Status HostDevice::Synchronize(EventRef event) {
  const auto* e = static_cast<const Event*>(event.handle);
  const uint64_t until = e->recorded;
  while (lost_.ok() && e->reached < until) {
    if (!Step()) return absl::InternalError("all streams wait for each other");
  }
  return lost_;
}

bool HostDevice::Step() {
  const auto ready = [](const Stream& s) {
    if (s.operations.empty()) return false;
    const Operation& next = s.operations.front();
    return next.event == nullptr || next.event->reached >= next.until;
  };
  std::vector<Stream*> able;
  for (const auto& s : streams_) {
    if (ready(*s)) able.push_back(s.get());
  }
  if (able.empty()) return false;
  Stream& stream = *able[Next() % able.size()];
  const Operation operation = std::move(stream.operations.front());
  stream.operations.pop_front();
  if (operation.work == nullptr) return true;
  if (options_.lost_after >= 0 && operations_ >= options_.lost_after) {
    lost_ = absl::UnavailableError(
        absl::StrCat("the device was lost after ", operations_, " operations"));
    return true;
  }
  ++operations_;
  stream.schedule() = {static_cast<Order>(Next() % 5), Next(), Next() % 2 == 0};
  operation.work();
  if (!stream.error().empty()) lost_ = absl::InternalError(stream.error());
  return true;
}

}  // namespace rserve::cuda
