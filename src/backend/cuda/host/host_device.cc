#include "src/backend/cuda/host/host_device.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/backend/cuda/host/host_attention.h"
#include "src/backend/cuda/host/host_products.h"
#include "src/backend/plan/quiet_thread.h"

namespace rserve::cuda {

using kernels::cuda::host::Order;
using Lock = std::lock_guard<std::mutex>;

namespace {

// Which device's kernels the thread may launch.
thread_local const HostDevice* bound = nullptr;

}  // namespace

HostDevice::HostDevice(const HostDeviceOptions& options)
    : options_(options),
      lost_after_(options.lost_after),
      random_(options.seed * 0x9e3779b97f4a7c15u + 1) {
  if (options.background) thread_ = backend::QuietThread([this] { RunInBackground(); });
}

HostDevice::~HostDevice() {
  if (thread_.joinable()) {
    {
      Lock lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  for (void* memory : live_) std::free(memory);
}

uint64_t HostDevice::Next() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return random_;
}

absl::Status HostDevice::Bind() {
  bound = this;
  return lost();
}

void HostDevice::FailCalls() {
  Lock lock(mutex_);
  lost_ = absl::UnavailableError("a call has failed");
}

bool HostDevice::Owns(StreamRef stream) const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [&](const auto& s) { return s.get() == Of(stream); });
}

absl::Status HostDevice::Misused(const char* what) {
  if (lost_.ok()) lost_ = absl::InternalError(absl::StrCat("device ", options_.number, ": ", what));
  running_ = false;
  return lost_;
}

void HostDevice::LoseAfter(int64_t operations) {
  Lock lock(mutex_);
  lost_after_ = operations_ + operations;
}

int64_t HostDevice::live_allocations() const {
  Lock lock(mutex_);
  return static_cast<int64_t>(live_.size());
}

int64_t HostDevice::operations() const {
  Lock lock(mutex_);
  return operations_;
}

int64_t HostDevice::live_graphs() const {
  Lock lock(mutex_);
  return static_cast<int64_t>(graphs_.size());
}

int64_t HostDevice::replays() const {
  Lock lock(mutex_);
  return replays_;
}

absl::Status HostDevice::lost() const {
  Lock lock(mutex_);
  return lost_;
}

absl::StatusOr<void*> HostDevice::Take(int64_t bytes) {
  Lock lock(mutex_);
  if (absl::Status s = CheckMayCall("allocation"); !s.ok()) return s;
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
  Lock lock(mutex_);
  live_.erase(memory);
  std::free(memory);
}
void HostDevice::FreePinned(void* memory) { Free(memory); }

absl::StatusOr<StreamRef> HostDevice::CreateStream(const Part&) {
  Lock lock(mutex_);
  if (!lost_.ok()) return lost_;
  streams_.push_back(std::make_unique<Stream>(this));
  return streams_.back()->ref();
}

void HostDevice::DestroyStream(StreamRef stream) {
  Quiesce(stream);
  Lock lock(mutex_);
  std::erase_if(streams_, [&](const auto& s) { return s.get() == Of(stream); });
}

absl::StatusOr<EventRef> HostDevice::CreateEvent() {
  Lock lock(mutex_);
  if (!lost_.ok()) return lost_;
  events_.push_back(std::make_unique<Event>());
  return EventRef{events_.back().get()};
}

void HostDevice::DestroyEvent(EventRef event) {
  Lock lock(mutex_);
  std::erase_if(events_, [&](const auto& e) { return e.get() == event.handle; });
}

absl::StatusOr<std::unique_ptr<Products>> HostDevice::CreateProducts(StreamRef stream, bool) {
  if (absl::Status s = lost(); !s.ok()) return s;
  return std::unique_ptr<Products>(std::make_unique<HostProducts>(Of(stream)));
}

absl::StatusOr<std::unique_ptr<FusedAttention>> HostDevice::CreateFusedAttention(StreamRef stream) {
  if (absl::Status s = lost(); !s.ok()) return s;
  return std::unique_ptr<FusedAttention>(std::make_unique<HostAttention>(Of(stream)));
}

void HostDevice::Stream::Enqueue(std::function<void()> work) {
  if (bound != device_) {
    Lock lock(device_->mutex_);
    device_->Misused("work is queued by a thread that has bound another one").IgnoreError();
    return;
  }
  EnqueueTransfer(std::move(work));
}

void HostDevice::Stream::EnqueueTransfer(std::function<void()> work) {
  {
    Lock lock(device_->mutex_);
    if (recording != nullptr) {
      recording->work.push_back(std::move(work));
      return;
    }
    operations.push_back({std::move(work), nullptr, 0});
  }
  device_->changed_.notify_all();
}

absl::Status HostDevice::Copy(void* to, const void* from, int64_t bytes, StreamRef stream) {
  {
    Lock lock(mutex_);
    if (!lost_.ok()) return lost_;
    if (!Owns(stream)) return Misused("a copy on a stream of another one");
  }
  Of(stream)->EnqueueTransfer([=] { std::memcpy(to, from, static_cast<size_t>(bytes)); });
  return absl::OkStatus();
}

absl::Status HostDevice::ConnectTo(Device*) { return lost(); }

absl::Status HostDevice::CopyTo(Device*, void* to, const void* from, int64_t bytes,
                                StreamRef stream) {
  return Copy(to, from, bytes, stream);
}

absl::Status HostDevice::CheckNotRecording(StreamRef stream) const {
  if (Of(stream)->recording == nullptr) return lost_;
  return absl::FailedPreconditionError("an event or a host function is queued while recording");
}

absl::Status HostDevice::CheckMayCall(const char* what) const {
  for (const auto& stream : streams_) {
    if (stream->recording != nullptr && stream->recorder == std::this_thread::get_id()) {
      return absl::FailedPreconditionError(absl::StrCat(what, " while this thread records"));
    }
  }
  return absl::OkStatus();
}

absl::Status HostDevice::BeginRecording(StreamRef stream) {
  Lock lock(mutex_);
  if (!options_.can_record) return absl::UnavailableError("the device cannot record");
  if (absl::Status s = CheckNotRecording(stream); !s.ok()) return s;
  Of(stream)->recording = std::make_unique<Graph>();
  Of(stream)->recorder = std::this_thread::get_id();
  return absl::OkStatus();
}

absl::StatusOr<GraphRef> HostDevice::EndRecording(StreamRef stream) {
  Lock lock(mutex_);
  std::unique_ptr<Graph> graph = std::move(Of(stream)->recording);
  if (!lost_.ok()) return lost_;
  graphs_.push_back(std::move(graph));
  return GraphRef{graphs_.back().get()};
}

absl::Status HostDevice::Replay(GraphRef graph, StreamRef stream) {
  {
    Lock lock(mutex_);
    if (absl::Status s = CheckNotRecording(stream); !s.ok()) return s;
    ++replays_;
    for (const std::function<void()>& work : static_cast<Graph*>(graph.handle)->work) {
      Of(stream)->operations.push_back({work, nullptr, 0});
    }
  }
  changed_.notify_all();
  return absl::OkStatus();
}

void HostDevice::DestroyGraph(GraphRef graph) {
  Lock lock(mutex_);
  std::erase_if(graphs_, [&](const auto& g) { return g.get() == graph.handle; });
}

absl::Status HostDevice::Record(EventRef event, StreamRef stream) {
  auto* e = static_cast<Event*>(event.handle);
  uint64_t mark = 0;
  {
    Lock lock(mutex_);
    const bool own =
        Owns(stream) && std::any_of(events_.begin(), events_.end(),
                                    [&](const auto& other) { return other.get() == e; });
    if (!own) return Misused("an event or a stream of another one");
    if (absl::Status s = CheckNotRecording(stream); !s.ok()) return s;
    mark = ++e->recorded;
  }
  Of(stream)->EnqueueTransfer([e, mark] { e->reached = mark; });
  return absl::OkStatus();
}

absl::Status HostDevice::WaitFor(EventRef event, StreamRef stream) {
  Lock lock(mutex_);
  if (absl::Status s = CheckNotRecording(stream); !s.ok()) return s;
  const auto* e = static_cast<const Event*>(event.handle);
  Of(stream)->operations.push_back({nullptr, e, e->recorded});
  return absl::OkStatus();
}

absl::Status HostDevice::Notify(StreamRef stream, void (*fn)(void* arg), void* arg) {
  {
    Lock lock(mutex_);
    if (absl::Status s = CheckNotRecording(stream); !s.ok()) return s;
  }
  if (!options_.skip_host_functions) Of(stream)->EnqueueTransfer([=] { fn(arg); });
  return absl::OkStatus();
}

absl::StatusOr<bool> HostDevice::Reached(EventRef event) {
  Lock lock(mutex_);
  if (!lost_.ok()) return lost_;
  if (absl::Status s = CheckMayCall("a question for an event"); !s.ok()) return s;
  const auto* e = static_cast<const Event*>(event.handle);
  return e->reached >= e->recorded;
}

absl::Status HostDevice::Synchronize(EventRef event) {
  const auto* e = static_cast<const Event*>(event.handle);
  std::unique_lock<std::mutex> lock(mutex_);
  if (absl::Status s = CheckMayCall("a wait"); !s.ok()) return s;
  const uint64_t until = e->recorded;
  while (lost_.ok() && e->reached < until) {
    if (!StepLocked()) return absl::InternalError("all streams wait for each other");
  }
  return lost_;
}

void HostDevice::Quiesce(StreamRef stream) {
  Lock lock(mutex_);
  while (running_ && !Of(stream)->operations.empty()) {
    if (!StepLocked()) return;  // all streams wait for each other
  }
}

void HostDevice::RunInBackground() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    if (!running_ || !StepLocked()) {
      changed_.wait(lock);
      continue;
    }
    // Whoever queues gets its turn, now and then for long.
    const bool yield = Next() % 4 == 0;
    lock.unlock();
    if (yield) sched_yield();
    lock.lock();
  }
}

bool HostDevice::Step() {
  Lock lock(mutex_);
  return running_ && StepLocked();
}

bool HostDevice::StepLocked() {
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
  if (lost_after_ >= 0 && operations_ >= lost_after_) {
    running_ = false;
    if (lost_.ok()) {
      lost_ = absl::UnavailableError(
          absl::StrCat("the device was lost after ", operations_, " operations"));
    }
    return true;
  }
  ++operations_;
  stream.schedule() = {static_cast<Order>(Next() % 5), Next(), Next() % 2 == 0};
  operation.work();
  if (!stream.error().empty()) {
    running_ = false;
    if (lost_.ok()) lost_ = absl::InternalError(stream.error());
  }
  return true;
}

}  // namespace rserve::cuda
