#include "src/runtime/inbox.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rserve::runtime {
namespace {

std::list<InboxItem> MakeItem(Input input) {
  std::list<InboxItem> item(1);
  item.front().input = std::move(input);
  return item;
}

// Accepted, first token and terminal, and for each item encoded and released.
size_t EventsOf(const RequestPlan& plan) { return 3 + 2 * static_cast<size_t>(plan.num_items); }

}  // namespace

Inbox::Inbox(int64_t max_requests, int64_t max_input_bytes)
    : max_requests_(max_requests), max_input_bytes_(max_input_bytes) {}

absl::Status Inbox::Submit(RequestPlan plan, uint64_t user_data, TimeNs now_ns) {
  const RequestId id = plan.id;
  const int64_t input_bytes = plan.input_bytes;
  std::map<RequestId, RequestRecord> entry;
  RequestRecord& record = entry[id];
  record.id = id;
  record.user_data = user_data;
  record.input_bytes = input_bytes;
  record.submitted_ns = now_ns;
  record.item_tokens.resize(static_cast<size_t>(plan.num_items));
  for (const UnitPlan& unit : plan.units) record.item_tokens[unit.item] += unit.tokens;
  record.slots.resize(EventsOf(plan));
  std::list<InboxItem> item = MakeItem(SubmitInput{std::move(plan)});
  item.front().submitted = &record;  // extracted and inserted, the node stays where it is

  std::unique_lock<std::mutex> lock(mu_);
  if (absl::Status status = CheckAdmission(id, input_bytes); !status.ok()) return status;
  requests_.insert(entry.extract(entry.begin()));
  open_requests_ += 1;
  input_bytes_ += input_bytes;
  Queue(std::move(item), std::move(lock));
  return absl::OkStatus();
}

absl::Status Inbox::CheckAdmission(RequestId request, int64_t input_bytes) const {
  if (closed_ != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("request ", request, ": the engine ", closed_));
  }
  if (requests_.contains(request)) {
    return absl::AlreadyExistsError(absl::StrCat("request ", request, ": the id is in use"));
  }
  if (open_requests_ >= max_requests_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("request ", request, ": ", open_requests_,
                     " requests are open; queue_requests = ", max_requests_));
  }
  if (input_bytes > max_input_bytes_ - input_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "request ", request, " holds ", input_bytes, " input bytes and open requests hold ",
        input_bytes_, "; input_bytes = ", max_input_bytes_));
  }
  return absl::OkStatus();
}

absl::Status Inbox::Cancel(RequestId request) {
  std::list<InboxItem> item = MakeItem(CancelInput{request});
  std::unique_lock<std::mutex> lock(mu_);
  const auto it = requests_.find(request);
  if (it == requests_.end() || !it->second.open) {
    lock.unlock();
    return absl::NotFoundError(absl::StrCat("request ", request, " is not open"));
  }
  if (std::exchange(it->second.cancel_asked, true)) return absl::OkStatus();
  Queue(std::move(item), std::move(lock));
  return absl::OkStatus();
}

void Inbox::Close(Input last, const char* why) {
  std::list<InboxItem> item = MakeItem(std::move(last));
  std::unique_lock<std::mutex> lock(mu_);
  closed_ = why;
  Queue(std::move(item), std::move(lock));
}

void Inbox::Stop() {
  std::list<InboxItem> item = MakeItem(AbortInput{});
  std::unique_lock<std::mutex> lock(mu_);
  closed_ = "is being destroyed";
  stopping_ = true;
  Queue(std::move(item), std::move(lock));
}

void Inbox::Post(std::list<InboxItem> item) noexcept {
  Queue(std::move(item), std::unique_lock<std::mutex>(mu_));
}

void Inbox::Queue(std::list<InboxItem> item, std::unique_lock<std::mutex> lock) {
  // The driver takes all there is before it waits, so only the first item has to wake it.
  const bool wake = queue_.empty();
  queue_.splice(queue_.end(), item);
  lock.unlock();
  if (wake) queued_.notify_one();
}

bool Inbox::idle() const {
  std::lock_guard<std::mutex> lock(mu_);
  return !driver_busy_ && queue_.empty() && requests_.empty();
}

void Inbox::Take(TimeNs wake_ns, std::list<InboxItem>* items) {
  using SteadyTime = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;
  const auto queued = [&] { return !queue_.empty(); };
  std::unique_lock<std::mutex> lock(mu_);
  driver_busy_ = false;
  if (wake_ns == kNever) {
    queued_.wait(lock, queued);
  } else {
    queued_.wait_until(lock, SteadyTime(std::chrono::nanoseconds(wake_ns)), queued);
  }
  driver_busy_ = true;
  items->splice(items->end(), queue_);
}

bool Inbox::stopped() const {
  std::lock_guard<std::mutex> lock(mu_);
  return stopping_ && queue_.empty() && requests_.empty();
}

void Inbox::Settle(RequestRecord* touched) {
  if (touched == nullptr) return;
  std::map<RequestId, RequestRecord> forgotten;  // freed without the lock
  std::lock_guard<std::mutex> lock(mu_);
  while (touched != nullptr) {
    RequestRecord& record = *touched;
    touched = std::exchange(record.next_touched, nullptr);
    record.touched = false;
    if (record.ended && record.open) Release(record);
    if (record.forgotten) forgotten.insert(requests_.extract(record.id));
  }
}

void Inbox::Release(RequestRecord& record) {
  record.open = false;
  open_requests_ -= 1;
  input_bytes_ -= record.input_bytes;
}

void Inbox::Refuse(const char* why) {
  std::lock_guard<std::mutex> lock(mu_);
  closed_ = why;
}

void Inbox::EndAll(absl::FunctionRef<void(RequestRecord&)> end) {
  std::map<RequestId, RequestRecord> requests;
  std::lock_guard<std::mutex> lock(mu_);
  for (auto& [id, record] : requests_) {
    if (!record.open) continue;
    end(record);
    Release(record);
  }
  requests.swap(requests_);
}

}  // namespace rserve::runtime
