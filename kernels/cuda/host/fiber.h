// Fibres: call stacks that one thread changes between. Only what running a block's threads needs.

#ifndef RSERVE_KERNELS_CUDA_HOST_FIBER_H_
#define RSERVE_KERNELS_CUDA_HOST_FIBER_H_

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace rserve::kernels::cuda::host {

// One call stack. All fibres of a set are used by one thread; the thread's own stack is a fibre
// that was never started. x86-64 changes stacks in some nanoseconds; elsewhere the C library's
// contexts do it, more slowly. AddressSanitizer is told of every change.
class Fiber {
 public:
  Fiber() = default;
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Makes entry(arg) what runs when this fibre is next changed to. Whatever ran on it before is
  // forgotten, without unwinding. `entry` must not return. False when there is no memory.
  bool Start(void (*entry)(void*), void* arg);

  // Leaves this fibre, which is running, for `to`. Returns when this one is changed to again.
  void SwitchTo(Fiber& to);

 private:
  static void Begin(Fiber* fiber);
  void Unpoison();  // the whole stack, for AddressSanitizer
  void Arrived();

  static constexpr size_t kStackBytes = 128 * 1024;
  void* memory_ = nullptr;  // a guard page and the stack
  void (*entry_)(void*) = nullptr;
  void* arg_ = nullptr;
  void* fake_stack_ = nullptr;  // AddressSanitizer's
  Fiber* from_ = nullptr;       // who changed to this one last
  const void* bottom_ = nullptr;
  size_t bytes_ = 0;
#if defined(__x86_64__)
  void* stack_pointer_ = nullptr;
#else
  ucontext_t context_;
#endif
};

}  // namespace rserve::kernels::cuda::host

#endif  // RSERVE_KERNELS_CUDA_HOST_FIBER_H_
