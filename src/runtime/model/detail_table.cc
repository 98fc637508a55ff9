#include "src/runtime/model/detail_table.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rserve::runtime {

namespace {

absl::Status Unknown(RequestId request) {
  return absl::NotFoundError(
      absl::StrCat("request ", request, " was never accepted or is acknowledged"));
}

}  // namespace

bool DetailTable::Add(RequestDetail detail, bool discard) {
  const RequestId request = detail.request;
  auto entry = std::make_unique<Entry>();
  entry->detail = std::move(detail);
  entry->discard = discard;
  std::lock_guard<std::mutex> lock(mutex_);
  return entries_.try_emplace(request, std::move(entry)).second;
}

void DetailTable::Remove(RequestId request) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = entries_.find(request);
  if (it == entries_.end()) return;
  if (it->second->ended) --ended_;
  entries_.erase(it);
}

void DetailTable::SetFirstToken(RequestId request, const FirstToken& first,
                                std::vector<float> logits, std::vector<float> embeddings) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = entries_.find(request);
  if (it == entries_.end() || it->second->ended) return;
  RequestDetail& detail = it->second->detail;
  detail.first_token = first;
  detail.logits = std::move(logits);
  detail.embeddings = std::move(embeddings);
}

void DetailTable::Record(const Event& event) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = entries_.find(event.request);
  if (it == entries_.end() || it->second->ended) return;
  Entry& entry = *it->second;
  RequestDetail& detail = entry.detail;
  detail.last_event = event.type;
  if (event.type == EventType::kFirstToken || !event.more) detail.times = event.times;
  detail.reused_tokens = event.reused_tokens;
  if (event.more) return;
  if (entry.discard) {
    entries_.erase(it);
    return;
  }
  detail.status = event.status;
  detail.ended_ns = event.time_ns;
  entry.ended = true;
  ++ended_;
}

absl::StatusOr<std::shared_ptr<const RequestDetail>> DetailTable::Get(RequestId request) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = entries_.find(request);
  if (it == entries_.end()) return Unknown(request);
  return std::make_shared<const RequestDetail>(it->second->detail);
}

absl::Status DetailTable::Acknowledge(RequestId request) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = entries_.find(request);
  if (it == entries_.end()) return Unknown(request);
  if (!it->second->ended) {
    return absl::FailedPreconditionError(
        absl::StrCat("request ", request, " has not ended: its terminal event was not polled yet"));
  }
  --ended_;
  entries_.erase(it);
  return absl::OkStatus();
}

int64_t DetailTable::ended() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return ended_;
}

}  // namespace rserve::runtime
