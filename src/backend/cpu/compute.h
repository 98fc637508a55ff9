// Runs kernels on a worker's threads: who computes which part of the outputs, and with what
// scratch.

#ifndef RSERVE_SRC_BACKEND_CPU_COMPUTE_H_
#define RSERVE_SRC_BACKEND_CPU_COMPUTE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/attention/attention.h"
#include "kernels/cpu/isa.h"
#include "kernels/gemm/gemm.h"
#include "kernels/rmsnorm/rmsnorm.h"
#include "src/backend/cpu/buffer.h"
#include "src/backend/cpu/thread_pool.h"

namespace rserve::cpu {

// Used by one thread at a time (a backend's). Every call returns when its work is done. Parts are
// taken by whichever thread is free; that is safe because parts are disjoint outputs.
class Compute {
 public:
  // `pool` may be null: the caller's thread alone. It must outlive this object.
  Compute(const kernels::KernelTable& isa, ThreadPool* pool);

  const kernels::KernelTable& isa() const { return isa_; }

  // A matrix product; quantises the rows of x for int8 weights.
  void Product(kernels::GemmArgs args);
  // RMSNorm of `rows` rows.
  void Norm(const kernels::RmsNormArgs& args, int64_t rows);
  // fn(begin, end) over [0, rows) in pieces.
  void Rows(int64_t rows, absl::FunctionRef<void(int64_t, int64_t)> fn);
  // fn(task, scratch) for each task; `scratch` serves one matrix product tile or attention task.
  void Tasks(int64_t tasks, absl::FunctionRef<void(int64_t, float*)> fn);

 private:
  const kernels::KernelTable& isa_;
  std::unique_ptr<ThreadPool> own_pool_;
  ThreadPool* pool_;
  int64_t scratch_floats_;
  FloatBuffer scratch_;  // one part a thread
  FloatBuffer int8_words_, int8_scales_;
};

}  // namespace rserve::cpu

#endif  // RSERVE_SRC_BACKEND_CPU_COMPUTE_H_
