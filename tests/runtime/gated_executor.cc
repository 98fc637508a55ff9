#include "tests/runtime/gated_executor.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace rserve::testing {
namespace {

std::string Name(UnitRef unit) { return absl::StrCat(unit.request, ":", unit.unit); }

template <typename Value>
const Value* LongestPrefix(const std::map<std::string, Value>& table, const std::string& name) {
  const Value* best = nullptr;
  size_t length = 0;
  for (const auto& [prefix, value] : table) {
    if (absl::StartsWith(name, prefix) && prefix.size() >= length) {
      best = &value;
      length = prefix.size();
    }
  }
  return best;
}

}  // namespace

ActionGate::~ActionGate() {
  for (std::thread& thread : threads_) thread.join();
}

void ActionGate::Set(const std::string& prefix, Behaviour behaviour) {
  std::lock_guard<std::mutex> lock(mu_);
  behaviours_[prefix] = behaviour;
}

void ActionGate::SetStatus(const std::string& prefix, absl::Status status) {
  std::lock_guard<std::mutex> lock(mu_);
  statuses_[prefix] = std::move(status);
}

absl::Status ActionGate::StatusFor(const std::string& name) {
  const absl::Status* status = LongestPrefix(statuses_, name);
  return status == nullptr ? absl::OkStatus() : *status;
}

Behaviour ActionGate::BehaviourFor(const std::string& name) {
  const Behaviour* behaviour = LongestPrefix(behaviours_, name);
  return behaviour == nullptr ? Behaviour::kHold : *behaviour;
}

void ActionGate::Await(const std::string& name) {
  std::unique_lock<std::mutex> lock(mu_);
  changed_.wait(lock, [&] { return std::count(log_.begin(), log_.end(), name) > 0; });
}

bool ActionGate::Began(const std::string& name) {
  std::lock_guard<std::mutex> lock(mu_);
  return std::count(log_.begin(), log_.end(), name) > 0;
}

void ActionGate::Release(const std::string& name, absl::Status status) {
  std::unique_lock<std::mutex> lock(mu_);
  auto held = active_.end();
  changed_.wait(lock, [&] {
    held = std::find_if(active_.begin(), active_.end(),
                        [&](const auto& h) { return h->name == name && !h->released; });
    return held != active_.end();
  });
  const std::shared_ptr<Held> action = *held;
  action->released = true;
  action->status = status;
  changed_.notify_all();
  if (action->done == nullptr) return;  // its thread goes on
  active_.erase(held);
  lock.unlock();
  std::move (*action->done)(std::move(status));
}

void ActionGate::Open() {
  std::vector<std::shared_ptr<Held>> returned;
  {
    std::lock_guard<std::mutex> lock(mu_);
    behaviours_.clear();
    behaviours_[""] = Behaviour::kFinish;
    for (const auto& held : active_) {
      held->released = true;
      if (held->done != nullptr) returned.push_back(held);
    }
    for (const auto& held : returned)
      active_.erase(std::find(active_.begin(), active_.end(), held));
    changed_.notify_all();
  }
  for (const auto& held : returned) std::move (*held->done)(absl::OkStatus());
}

void ActionGate::ExpectAgain(RequestId request) {
  std::lock_guard<std::mutex> lock(mu_);
  forgotten_.erase(request);
}

std::vector<std::string> ActionGate::log() {
  std::lock_guard<std::mutex> lock(mu_);
  return log_;
}

std::vector<std::string> ActionGate::violations() {
  std::lock_guard<std::mutex> lock(mu_);
  return violations_;
}

void ActionGate::Log(const std::string& line) {
  log_.push_back(line);
  changed_.notify_all();
}

void ActionGate::CheckUnused(const std::string& line, UnitRef unit) {
  for (const auto& held : active_) {
    if (std::count(held->units.begin(), held->units.end(), unit) > 0) {
      violations_.push_back(absl::StrCat(line, " during ", held->name));
    }
  }
}

void ActionGate::Act(std::shared_ptr<Held> held, Done done) {
  std::unique_lock<std::mutex> lock(mu_);
  for (RequestId request : held->requests) {
    if (forgotten_.contains(request)) violations_.push_back(held->name + " after forget");
  }
  const Behaviour behaviour = BehaviourFor(held->name);
  held->status = StatusFor(held->name);
  if (behaviour == Behaviour::kHold || behaviour == Behaviour::kReturn) active_.push_back(held);
  if (behaviour == Behaviour::kReturn) held->done = std::make_unique<Done>(std::move(done));
  Log(held->name);
  switch (behaviour) {
    case Behaviour::kHold:
      changed_.wait(lock, [&] { return held->released; });
      active_.erase(std::find(active_.begin(), active_.end(), held));
      break;
    case Behaviour::kReturn:
    case Behaviour::kDrop:
      return;
    case Behaviour::kOtherThread:
      threads_.emplace_back([done = std::move(done), status = held->status]() mutable {
        std::move(done)(std::move(status));
      });
      return;
    case Behaviour::kThrow:
      throw std::runtime_error("boom");
    case Behaviour::kBadAlloc:
      throw std::bad_alloc();
    case Behaviour::kFinish:
    case Behaviour::kTwice:
      break;
  }
  lock.unlock();
  std::move(done)(held->status);
  if (behaviour == Behaviour::kTwice) std::move(done)(absl::InternalError("again"));
}

absl::Status GatedExecutor::Prepare(UnitRef unit) {
  auto held = std::make_shared<ActionGate::Held>();
  held->name = "prepare " + Name(unit);
  held->units = {unit};
  held->requests = {unit.request};
  absl::Status prepared;
  gate_->Act(held, [&](absl::Status status) { prepared = std::move(status); });
  return prepared;
}

void GatedExecutor::Encode(EncodeJob job, Done done) {
  auto held = std::make_shared<ActionGate::Held>();
  held->name = "encode";
  for (UnitRef unit : job.units) {
    absl::StrAppend(&held->name, " ", Name(unit));
    held->requests.insert(unit.request);
  }
  held->units = std::move(job.units);
  gate_->Act(held, std::move(done));
}

void GatedExecutor::Forward(StageJob job, Done done) {
  auto held = std::make_shared<ActionGate::Held>();
  held->name = absl::StrCat("forward s", job.stage);
  for (const StageJobEntry& entry : job.entries) {
    const BatchEntry& chunk = entry.chunk;
    absl::StrAppend(&held->name, " ", chunk.request, "[", chunk.begin, ",",
                    chunk.begin + chunk.tokens, ")");
    held->requests.insert(chunk.request);
    for (const EmbeddingSlice& slice : entry.embeddings) {
      held->units.push_back({chunk.request, slice.unit});
    }
  }
  gate_->Act(held, std::move(done));
}

void GatedExecutor::DropMicroBatch(uint64_t) {
  std::lock_guard<std::mutex> lock(gate_->mu_);
  gate_->Log("drop");
}

void GatedExecutor::ReleasePixels(UnitRef unit) {
  std::lock_guard<std::mutex> lock(gate_->mu_);
  gate_->CheckUnused("release pixels " + Name(unit), unit);
  gate_->Log("release pixels " + Name(unit));
}

void GatedExecutor::ReleaseEmbedding(UnitRef unit) {
  std::lock_guard<std::mutex> lock(gate_->mu_);
  gate_->CheckUnused("release embedding " + Name(unit), unit);
  gate_->Log("release embedding " + Name(unit));
}

absl::Status GatedExecutor::TakeFirstToken(RequestId request, FirstToken* out) {
  std::lock_guard<std::mutex> lock(gate_->mu_);
  const std::string name = absl::StrCat("take ", request);
  gate_->Log(name);
  if (gate_->BehaviourFor(name) == Behaviour::kThrow) throw std::runtime_error("boom");
  out->token = static_cast<int32_t>(100 + request);
  return gate_->StatusFor(name);
}

void GatedExecutor::Forget(RequestId request) {
  std::lock_guard<std::mutex> lock(gate_->mu_);
  const std::string name = absl::StrCat("forget ", request);
  for (const auto& held : gate_->active_) {
    if (held->requests.contains(request)) {
      gate_->violations_.push_back(absl::StrCat(name, " during ", held->name));
    }
  }
  if (!gate_->forgotten_.insert(request).second) gate_->violations_.push_back(name + " twice");
  gate_->Log(name);
  if (gate_->BehaviourFor(name) == Behaviour::kThrow) throw std::runtime_error("boom");
}

}  // namespace rserve::testing
