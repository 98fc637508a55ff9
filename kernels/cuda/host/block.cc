#include "kernels/cuda/host/block.h"

#include <cstring>
#include <utility>

namespace rserve::kernels::cuda::host {

namespace {

constexpr int kLanes = 32;
constexpr int kMaxThreads = 1024;
constexpr int kCopyBytes = 16;

// Set while a grid runs; each OS thread runs grids of its own.
thread_local ThreadState* current = nullptr;

std::string Place(uint32_t line, const char* file) {
  return std::string(file) + ":" + std::to_string(line);
}

bool Reversed(Order order) {
  return order == Order::kLockstepReverse || order == Order::kRaceAheadReverse;
}

void MakeCopy(const ThreadState::Copy& copy) {
  if (copy.from == nullptr) {
    std::memset(copy.to, 0, kCopyBytes);
  } else {
    std::memcpy(copy.to, copy.from, kCopyBytes);
  }
}

}  // namespace

ThreadState& Current() { return *current; }

std::string BlockRunner::Run(const Grid& grid, int threads, int shared_bytes,
                             const Schedule& schedule, const std::function<void()>& body) {
  if (threads < kLanes || threads > kMaxThreads || threads % kLanes != 0) {
    return "a block of " + std::to_string(threads) + " threads is not a multiple of 32 up to 1024";
  }
  if (!Prepare(threads, shared_bytes)) return "no memory for the block's stacks";
  schedule_ = schedule;
  random_ = schedule.seed * 0x9e3779b97f4a7c15u + 1;
  body_ = &body;
  error_.clear();
  ThreadState* const outer = current;
  const int64_t blocks = grid.x * grid.y * grid.z;
  for (int64_t i = 0; i < blocks && error_.empty(); ++i) {
    const int64_t b = Reversed(schedule.order) ? blocks - 1 - i : i;
    block_ = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
    std::memset(shared_.get(), 0xff, static_cast<size_t>(shared_bytes));
    RunBlock();
  }
  current = outer;
  body_ = nullptr;
  return error_;
}

bool BlockRunner::Prepare(int threads, int shared_bytes) {
  states_in_use_ = static_cast<size_t>(threads);
  while (states_.size() < states_in_use_) {
    states_.push_back(std::make_unique<ThreadState>());
    states_.back()->thread = static_cast<int>(states_.size()) - 1;
    states_.back()->runner = this;
  }
  warps_.assign(states_in_use_ / kLanes, {});
  ready_.assign(states_in_use_, 0);
  // Exactly as large as asked for, so that AddressSanitizer sees what goes beyond.
  void* memory = nullptr;
  if (posix_memalign(&memory, 128, static_cast<size_t>(shared_bytes) + (shared_bytes == 0)) != 0) {
    return false;
  }
  shared_.reset(static_cast<unsigned char*>(memory));
  shared_bytes_ = shared_bytes;
  return true;
}

void BlockRunner::RunBlock() {
  barrier_ = {};
  for (Meeting& warp : warps_) warp = {};
  ready_begin_ = ready_count_ = 0;
  done_ = 0;
  for (size_t i = 0; i < states_in_use_; ++i) {
    ThreadState& state = *states_[i];
    state.done = false;
    state.copies.clear();
    state.group_end.clear();
    if (!state.fiber.Start(&Entry, &state)) {
      error_ = "no memory for a thread's stack";
      return;
    }
  }
  Release(0, threads());
  while (error_.empty() && ready_count_ > 0) {
    current = states_[static_cast<size_t>(Pop())].get();
    main_.SwitchTo(current->fiber);
  }
  if (error_.empty() && done_ < threads()) error_ = Deadlock();
}

void BlockRunner::Entry(void* arg) {
  auto& state = *static_cast<ThreadState*>(arg);
  BlockRunner& runner = *state.runner;
  (*runner.body_)();
  if (!state.copies.empty()) {
    runner.Fail("thread " + std::to_string(state.thread) + " ends with copies not waited for");
  }
  state.done = true;
  ++runner.done_;
  runner.Yield(state);
}

void BlockRunner::Yield(ThreadState& state) { state.fiber.SwitchTo(main_); }

void BlockRunner::Fail(std::string what) {
  error_ = "block (" + std::to_string(block_.x) + ", " + std::to_string(block_.y) + ", " +
           std::to_string(block_.z) + "): " + std::move(what);
}

std::string BlockRunner::Deadlock() const {
  std::string text = "threads wait for others that never come: " + std::to_string(done_) + " of " +
                     std::to_string(threads()) + " ended";
  if (barrier_.waiting > 0) {
    text += ", " + std::to_string(barrier_.waiting) + " at the barrier " +
            Place(barrier_.line, barrier_.file);
  }
  for (size_t w = 0; w < warps_.size(); ++w) {
    if (warps_[w].waiting == 0) continue;
    text += ", " + std::to_string(warps_[w].waiting) + " of warp " + std::to_string(w) + " at " +
            Place(warps_[w].line, warps_[w].file);
  }
  return text;
}

// ---- Who runs next -----------------------------------------------------------------------------

void BlockRunner::Push(int thread) {
  ready_[(ready_begin_ + ready_count_) % ready_.size()] = thread;
  ++ready_count_;
}

int BlockRunner::Pop() {
  if (schedule_.order == Order::kRandom) {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    const size_t pick = (ready_begin_ + random_ % ready_count_) % ready_.size();
    std::swap(ready_[pick], ready_[ready_begin_]);
  } else if (schedule_.order == Order::kRaceAhead || schedule_.order == Order::kRaceAheadReverse) {
    --ready_count_;
    return ready_[(ready_begin_ + ready_count_) % ready_.size()];
  }
  const int thread = ready_[ready_begin_];
  ready_begin_ = (ready_begin_ + 1) % ready_.size();
  --ready_count_;
  return thread;
}

void BlockRunner::Release(int begin, int end) {
  // The racing orders take from the end, so what shall run first is put in last.
  const bool descending =
      schedule_.order == Order::kLockstepReverse || schedule_.order == Order::kRaceAhead;
  for (int i = 0; i < end - begin; ++i) Push(descending ? end - 1 - i : begin + i);
}

// ---- Meetings ----------------------------------------------------------------------------------

bool BlockRunner::Join(Meeting& meeting, uint32_t line, const char* file, WarpFunction function) {
  if (meeting.waiting == 0) {
    meeting.line = line;
    meeting.file = file;
    meeting.function = function;
  } else if (meeting.line != line || meeting.function != function) {
    Fail("thread " + std::to_string(current->thread) + " arrives at " + Place(line, file) +
         " while others wait at " + Place(meeting.line, meeting.file));
    return false;
  }
  ++meeting.waiting;
  return true;
}

void BlockRunner::SyncThreads(uint32_t line, const char* file) {
  lines_.insert(line);
  if (line == schedule_.skip_line) return;
  ThreadState& state = *current;
  if (Join(barrier_, line, file, nullptr) && barrier_.waiting == threads()) {
    barrier_ = {};
    Release(0, threads());
  }
  Yield(state);
}

void BlockRunner::Collective(WarpFunction function, void* arg, uint32_t line, const char* file) {
  if (function == &Meet) {
    lines_.insert(line);
    if (line == schedule_.skip_line) return;
  }
  ThreadState& state = *current;
  const int warp = state.thread / kLanes;
  Meeting& meeting = warps_[static_cast<size_t>(warp)];
  state.arg = arg;
  if (Join(meeting, line, file, function) && meeting.waiting == kLanes) {
    void* args[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      args[i] = states_[static_cast<size_t>(warp * kLanes + i)]->arg;
    }
    function(args);
    meeting = {};
    Release(warp * kLanes, (warp + 1) * kLanes);
  }
  Yield(state);
}

// ---- Addresses ---------------------------------------------------------------------------------

void BlockRunner::CheckAligned(const void* p, uintptr_t alignment, uint32_t line,
                               const char* file) {
  if (reinterpret_cast<uintptr_t>(p) % alignment == 0) return;
  Fail("thread " + std::to_string(current->thread) + " needs an address of " +
       std::to_string(alignment) + "-byte alignment at " + Place(line, file));
  Yield(*current);
}

void BlockRunner::CheckShared16(const void* p, uint32_t line, const char* file) {
  const auto offset = reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(shared_.get());
  if (offset + kCopyBytes > static_cast<uintptr_t>(shared_bytes_) || offset > offset + kCopyBytes) {
    Fail("thread " + std::to_string(current->thread) + " leaves shared memory at " +
         Place(line, file));
    Yield(*current);
  }
  CheckAligned(p, kCopyBytes, line, file);
}

// ---- Asynchronous copies -----------------------------------------------------------------------

void BlockRunner::CopyAsync(void* to, const void* from, bool valid, uint32_t line,
                            const char* file) {
  CheckShared16(to, line, file);
  CheckAligned(from, kCopyBytes, line, file);
  const ThreadState::Copy copy{to, valid ? from : nullptr};
  if (!schedule_.late_copies) MakeCopy(copy);
  current->copies.push_back(copy);
}

void BlockRunner::CopyCommit() { current->group_end.push_back(current->copies.size()); }

void BlockRunner::CopyWait(int pending, uint32_t line, const char*) {
  lines_.insert(line);
  ThreadState& state = *current;
  const auto groups = static_cast<int>(state.group_end.size());
  if (groups <= pending) return;
  const size_t waited = state.group_end[static_cast<size_t>(groups - 1 - pending)];
  // A wait taken out: the bytes never arrive in time.
  if (schedule_.late_copies && line != schedule_.skip_line) {
    for (size_t i = 0; i < waited; ++i) MakeCopy(state.copies[i]);
  }
  state.copies.erase(state.copies.begin(), state.copies.begin() + static_cast<ptrdiff_t>(waited));
  state.group_end.erase(state.group_end.begin(), state.group_end.end() - pending);
  for (size_t& end : state.group_end) end -= waited;
}

}  // namespace rserve::kernels::cuda::host
