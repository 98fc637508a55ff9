#include "kernels/cpu/isa.h"

#include <initializer_list>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernels/cpu/isa_tables.h"

namespace rserve::kernels {

#if defined(__x86_64__)
namespace {

// Not every compiler's __builtin_cpu_supports knows this name.
bool HasF16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace
#endif

const KernelTable* TableFor(Isa isa) {
  switch (isa) {
    case Isa::kGeneric:
      return &generic::kTable;
#if defined(__x86_64__)
    case Isa::kAvx2:
      if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c()) {
        return &avx2::kTable;
      }
      return nullptr;
    case Isa::kAvx512:
      if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        return &avx512::kTable;
      }
      return nullptr;
    case Isa::kAvx512Vnni:
      return TableFor(Isa::kAvx512) != nullptr && __builtin_cpu_supports("avx512vnni")
                 ? &avx512::kVnniTable
                 : nullptr;
#else
    case Isa::kAvx2:
    case Isa::kAvx512:
    case Isa::kAvx512Vnni:
      return nullptr;
#endif
  }
  return nullptr;
}

const KernelTable& BestIsa() {
  for (Isa isa : {Isa::kAvx512Vnni, Isa::kAvx512, Isa::kAvx2}) {
    if (const KernelTable* table = TableFor(isa)) return *table;
  }
  return generic::kTable;
}

}  // namespace rserve::kernels
