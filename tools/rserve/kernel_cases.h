// The kernels at the shapes of Qwen2.5-VL-3B, one at a time, for their speed: what a prefill and an
// encode are made of.

#ifndef RSERVE_TOOLS_RSERVE_KERNEL_CASES_H_
#define RSERVE_TOOLS_RSERVE_KERNEL_CASES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "src/backend/cpu/compute.h"

namespace rserve::tool {

// One kernel on one size of work. `make` sets the arrays aside and returns what runs it once.
struct KernelCase {
  std::string group;    // "prefill" or "encode": whose shapes
  std::string op;       // "product", "attention", "rmsnorm", ...
  std::string detail;   // "gate_up 22016 x 2048, SwiGLU"
  std::string weights;  // of products: "f32", ...; else empty
  int64_t rows = 0;
  double flop = 0;   // 0: counted by its bytes only
  double bytes = 0;  // that must be read and written: weights, inputs and outputs once each
  std::function<std::function<void()>(cpu::Compute*)> make;
};

// Names of kernels::WeightType.
inline constexpr const char* kWeightNames[] = {"f32", "f16", "bf16", "int8"};

// Products of `rows` tokens with one layer's four matrices.
std::vector<KernelCase> PrefillProducts(kernels::WeightType type, int64_t rows);
// Products of `rows` patches in one vision block, and the merger's.
std::vector<KernelCase> EncodeProducts(kernels::WeightType type, int64_t rows);
// Window, full and chunked causal attention.
std::vector<KernelCase> AttentionCases();
// What passes over rows once: norms, rotary, and the elementwise functions.
std::vector<KernelCase> RowCases();

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_KERNEL_CASES_H_
