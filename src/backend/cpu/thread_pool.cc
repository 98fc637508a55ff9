#include "src/backend/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace rserve::cpu {

namespace {

// Turns spent looking for work before a thread sleeps: some microseconds, about the gap between
// two jobs of one forward pass. Longer spinning would take the core from others.
constexpr int kSpins = 256;
// Tasks of one round; a job with more runs in rounds.
constexpr uint32_t kMaxTasks = 1u << 31;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A place to wait for an atomic condition: spin, then sleep. `Wake` costs one load when nobody
// sleeps.
class Gate {
 public:
  template <typename Ready>
  void Wait(const Ready& ready) {
    for (int i = 0; i < kSpins; ++i) {
      if (ready()) return;
      Pause();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    // Sequentially consistent with the waker's write-then-read: either it sees the sleeper or the
    // sleeper sees what it wrote.
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    condition_.wait(lock, ready);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }

  void Wake() {
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
    { std::lock_guard<std::mutex> lock(mutex_); }
    condition_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  std::atomic<int> sleepers_{0};
};

}  // namespace

// A task is claimed by advancing `next` in the word {tasks, next}. Only after its claim does a
// thread read `fn`, and the caller cannot leave ParallelFor, let alone write `fn` again, before
// that task is counted in `done`. So a thread that wakes late claims either nothing or a task of
// the job that is then running.
struct ThreadPool::Impl {
  std::vector<std::thread> workers;
  std::atomic<uint64_t> claim{0};  // tasks << 32 | next
  std::atomic<uint32_t> done{0};
  std::atomic<uint32_t> epoch{0};  // jobs published; the last step of stopping
  std::atomic<bool> stop{false};
  const absl::FunctionRef<void(int64_t)>* fn = nullptr;
  int64_t first_task = 0;
  Gate work;
  Gate finished;

  // Runs tasks until none is left to claim.
  void RunTasks() {
    uint64_t word = claim.load(std::memory_order_acquire);
    for (;;) {
      const uint32_t tasks = static_cast<uint32_t>(word >> 32);
      const uint32_t next = static_cast<uint32_t>(word);
      if (next >= tasks) return;
      if (!claim.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
        continue;
      }
      (*fn)(first_task + next);
      if (done.fetch_add(1, std::memory_order_seq_cst) + 1 == tasks) finished.Wake();
      word = claim.load(std::memory_order_acquire);
    }
  }

  void Work() {
    uint32_t seen = 0;
    while (!stop.load(std::memory_order_acquire)) {
      RunTasks();
      work.Wait([&] { return epoch.load(std::memory_order_seq_cst) != seen; });
      seen = epoch.load(std::memory_order_acquire);
    }
  }

  void Publish() {
    epoch.fetch_add(1, std::memory_order_seq_cst);
    work.Wake();
  }

  void RunRound(int64_t first, uint32_t tasks, const absl::FunctionRef<void(int64_t)>& function) {
    fn = &function;
    first_task = first;
    done.store(0, std::memory_order_relaxed);
    claim.store(uint64_t{tasks} << 32, std::memory_order_release);
    Publish();
    RunTasks();
    finished.Wait([&] { return done.load(std::memory_order_seq_cst) == tasks; });
  }
};

ThreadPool::ThreadPool(int threads, std::vector<int> cores) : impl_(std::make_unique<Impl>()) {
  for (int i = 1; i < threads; ++i) {
    impl_->workers.emplace_back([impl = impl_.get()] { impl->Work(); });
    if (cores.empty()) continue;
    const int core = cores[static_cast<size_t>(i) % cores.size()];
    cpu_set_t set;
    CPU_ZERO(&set);
    if (core < 0 || core >= CPU_SETSIZE) continue;
    CPU_SET(core, &set);
    // A core that is not there leaves the thread where the system puts it: slower, not wrong.
    pthread_setaffinity_np(impl_->workers.back().native_handle(), sizeof(set), &set);
  }
}

ThreadPool::~ThreadPool() {
  impl_->stop.store(true, std::memory_order_release);
  impl_->Publish();
  for (std::thread& worker : impl_->workers) worker.join();
}

int ThreadPool::threads() const { return static_cast<int>(impl_->workers.size()) + 1; }

void ThreadPool::ParallelFor(int64_t tasks, absl::FunctionRef<void(int64_t)> fn) {
  if (impl_->workers.empty() || tasks <= 1) {
    for (int64_t task = 0; task < tasks; ++task) fn(task);
    return;
  }
  for (int64_t first = 0; first < tasks; first += kMaxTasks) {
    impl_->RunRound(first, static_cast<uint32_t>(std::min<int64_t>(kMaxTasks, tasks - first)), fn);
  }
}

}  // namespace rserve::cpu
