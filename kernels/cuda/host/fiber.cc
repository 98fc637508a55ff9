#include "kernels/cuda/host/fiber.h"

#include <sys/mman.h>

#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace rserve::kernels::cuda::host {

namespace {
constexpr size_t kGuardBytes = 4096;
}

#if defined(__x86_64__)
// Saves what a call must keep (System V ABI) on this stack and takes it from the other one.
extern "C" void rserve_change_stack(void** save, void* load);
asm(R"(
.text
.type rserve_change_stack,@function
.hidden rserve_change_stack
.globl rserve_change_stack
rserve_change_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size rserve_change_stack,.-rserve_change_stack

.type rserve_begin_stack,@function
rserve_begin_stack:
  movq %r12, %rdi
  callq *%r13
  ud2
.size rserve_begin_stack,.-rserve_begin_stack
)");
extern "C" void rserve_begin_stack();
#endif

Fiber::~Fiber() {
  if (memory_ == nullptr) return;
  Unpoison();  // what is mapped here next is no stack
  munmap(memory_, kGuardBytes + kStackBytes);
}

bool Fiber::Start(void (*entry)(void*), void* arg) {
  if (memory_ == nullptr) {
    void* memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    memory_ = memory;
    mprotect(memory_, kGuardBytes, PROT_NONE);
    bottom_ = static_cast<const char*>(memory_) + kGuardBytes;
    bytes_ = kStackBytes;
  }
  Unpoison();
  entry_ = entry;
  arg_ = arg;
  fake_stack_ = nullptr;
#if defined(__x86_64__)
  auto* top = reinterpret_cast<void**>(static_cast<char*>(memory_) + kGuardBytes + kStackBytes);
  *--top = nullptr;  // two words, so that the stack is 16-byte aligned where `entry_` is called
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&rserve_begin_stack);
  *--top = nullptr;                          // rbp
  *--top = nullptr;                          // rbx
  *--top = this;                             // r12
  *--top = reinterpret_cast<void*>(&Begin);  // r13
  *--top = nullptr;                          // r14
  *--top = nullptr;                          // r15
  stack_pointer_ = top;
#else
  getcontext(&context_);
  context_.uc_stack.ss_sp = static_cast<char*>(memory_) + kGuardBytes;
  context_.uc_stack.ss_size = kStackBytes;
  context_.uc_link = nullptr;
  const auto address = reinterpret_cast<uintptr_t>(this);
  makecontext(&context_, reinterpret_cast<void (*)()>(+[](unsigned low, unsigned high) {
    Begin(reinterpret_cast<Fiber*>(uintptr_t{low} | uintptr_t{high} << 32));
  }),
              2, static_cast<unsigned>(address), static_cast<unsigned>(uint64_t{address} >> 32));
#endif
  return true;
}

void Fiber::Unpoison() {
#if defined(__SANITIZE_ADDRESS__)
  // Frames that were left without unwinding have marked their variables' surroundings.
  ASAN_UNPOISON_MEMORY_REGION(bottom_, bytes_);
#endif
}

void Fiber::Begin(Fiber* fiber) {
  fiber->Arrived();
  fiber->entry_(fiber->arg_);
}

void Fiber::SwitchTo(Fiber& to) {
  to.from_ = this;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fake_stack_, to.bottom_, to.bytes_);
#endif
#if defined(__x86_64__)
  rserve_change_stack(&stack_pointer_, to.stack_pointer_);
#else
  swapcontext(&context_, &to.context_);
#endif
  Arrived();
}

void Fiber::Arrived() {
#if defined(__SANITIZE_ADDRESS__)
  // Also tells where the stack of a thread's own fibre lies.
  __sanitizer_finish_switch_fiber(fake_stack_, &from_->bottom_, &from_->bytes_);
#endif
}

}  // namespace rserve::kernels::cuda::host
