// Runs a grid of blocks on the host: the threads of a block are fibres that change at barriers and
// warp collectives, in an order that is chosen to be unkind.
//
// What it finds:
//   - shared memory used before it was written: every block begins with all bytes 0xff (a NaN);
//   - a missing barrier: in some order a thread runs ahead, or behind, until it must wait, so that
//     it reads what is not yet there or overwrites what is still needed; results then differ;
//   - a missing wait for CopyAsync16: with `late_copies` bytes move only when they are waited for;
//   - barriers and collectives that not all threads reach, or reach at different places;
//   - copies that nobody waited for; out-of-bounds shared memory (under AddressSanitizer);
//   - addresses that a device faults at: vector loads and stores, cp.async and ldmatrix that are
//   not
//     aligned, or outside of shared memory where they must be inside.
// It runs blocks one after another; kernels whose blocks talk to each other are not for it.

#ifndef RSERVE_KERNELS_CUDA_HOST_BLOCK_H_
#define RSERVE_KERNELS_CUDA_HOST_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kernels/cuda/host/fiber.h"

namespace rserve::kernels::cuda::host {

// Which thread of the block runs next.
enum class Order : int32_t {
  kLockstep = 0,          // in order, everyone to the next stop, then on
  kLockstepReverse = 1,   // the same from the last thread down
  kRaceAhead = 2,         // whoever was let go last runs on: one warp far ahead of the others
  kRaceAheadReverse = 3,  // the same, beginning with the last warp
  kRandom = 4,
};

struct Schedule {
  Order order = Order::kLockstep;
  uint64_t seed = 1;         // of kRandom
  bool late_copies = false;  // CopyAsync16 moves its bytes when waited for, else at once
  // A source line whose barriers and copy waits do nothing (0: none), to show that they are missed.
  uint32_t skip_line = 0;
};

struct Grid {
  int64_t x = 1;
  int64_t y = 1;
  int64_t z = 1;
};

class BlockRunner;

// What a fibre knows of itself.
struct ThreadState {
  int thread = 0;
  BlockRunner* runner = nullptr;
  Fiber fiber;
  bool done = false;
  void* arg = nullptr;  // of the collective it waits at
  struct Copy {
    void* to;
    const void* from;  // null: zeros
  };
  std::vector<Copy> copies;       // not yet made, oldest first
  std::vector<size_t> group_end;  // of the committed groups, as indices into copies
};

// The thread that is running. Only inside a kernel.
ThreadState& Current();

// Works on all lanes of a warp at once: the arguments of the 32 calls.
using WarpFunction = void (*)(void* const* lanes);

// Used by one thread at a time; keeps its stacks from one grid to the next.
class BlockRunner {
 public:
  BlockRunner() = default;
  ~BlockRunner() = default;
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  // Calls `body` once a thread. Empty when all went well, else what went wrong, and the rest of the
  // grid has not run. `threads`: a multiple of 32 up to 1024.
  std::string Run(const Grid& grid, int threads, int shared_bytes, const Schedule& schedule,
                  const std::function<void()>& body);

  // Lines of the barriers, warp barriers and copy waits that have been met since the last clear.
  const std::set<uint32_t>& lines() const { return lines_; }
  void ClearLines() { lines_.clear(); }

  // For the wrappers of device_host.h, called by a thread of the block.
  int threads() const { return static_cast<int>(states_in_use_); }
  const Grid& block() const { return block_; }
  unsigned char* shared() const { return shared_.get(); }
  void SyncThreads(uint32_t line, const char* file);
  void Collective(WarpFunction function, void* arg, uint32_t line, const char* file);
  void CopyAsync(void* to, const void* from, bool valid, uint32_t line, const char* file);
  void CopyCommit();
  void CopyWait(int pending, uint32_t line, const char* file);
  // Fails where a device would fault: `p` is no multiple of `alignment` bytes.
  void CheckAligned(const void* p, uintptr_t alignment, uint32_t line, const char* file);
  // 16 bytes of the block's shared memory, aligned to them.
  void CheckShared16(const void* p, uint32_t line, const char* file);

 private:
  struct Free {
    void operator()(unsigned char* p) const { std::free(p); }
  };
  struct Meeting {  // of the block's threads at a barrier, or a warp's at a collective
    int waiting = 0;
    uint32_t line = 0;
    const char* file = "";
    WarpFunction function = nullptr;
  };

  static void Entry(void* state);
  bool Prepare(int threads, int shared_bytes);
  void RunBlock();
  void Yield(ThreadState& state);
  // Counts this thread in; false when the others wait elsewhere.
  bool Join(Meeting& meeting, uint32_t line, const char* file, WarpFunction function);
  void Release(int begin, int end);
  void Push(int thread);
  int Pop();
  // The block ends here: whoever fails yields next, with nothing on its stack that owns memory, and
  // is not come back to.
  void Fail(std::string what);
  std::string Deadlock() const;

  std::vector<std::unique_ptr<ThreadState>> states_;
  size_t states_in_use_ = 0;
  std::vector<Meeting> warps_;
  Meeting barrier_;
  Fiber main_;
  std::unique_ptr<unsigned char, Free> shared_;
  int shared_bytes_ = 0;
  Grid block_;
  Schedule schedule_;
  const std::function<void()>* body_ = nullptr;
  std::vector<int> ready_;  // a ring
  size_t ready_begin_ = 0, ready_count_ = 0;
  uint64_t random_ = 0;
  int done_ = 0;
  std::string error_;
  std::set<uint32_t> lines_;
};

// The collectives' arguments, one a lane, and functions (warp_ops.cc).
struct VoteArg {
  bool value;
  bool result;
};
struct MatrixArg {
  const void* row;
  uint32_t* r;  // [4]
};
struct MmaArg {
  float* d;           // [4]
  const uint32_t* a;  // [4]
  uint32_t b[2];
};
void Meet(void* const* lanes);  // nothing but the meeting
void VoteAny(void* const* lanes);
void LoadMatrices(void* const* lanes);
void LoadMatricesTransposed(void* const* lanes);
void Mma(void* const* lanes);

}  // namespace rserve::kernels::cuda::host

#endif  // RSERVE_KERNELS_CUDA_HOST_BLOCK_H_
