#include "src/backend/cpu/buffer.h"

#include <sys/mman.h>

namespace rserve::cpu {

namespace {

constexpr int64_t kLargePage = int64_t{2} << 20;

}  // namespace

AlignedBytes::AlignedBytes(int64_t bytes) : bytes_(bytes) {
  const bool large = bytes >= 2 * kLargePage;
  const AlignedFree free{std::align_val_t{static_cast<size_t>(large ? kLargePage : 64)}};
  const auto size = static_cast<size_t>(bytes);
  data_ = std::unique_ptr<uint8_t[], AlignedFree>(new (free.alignment) uint8_t[size], free);
  // A wish; whole large pages inside only, so that nothing is touched beyond the end.
  if (large) madvise(data_.get(), size / kLargePage * kLargePage, MADV_HUGEPAGE);
}

}  // namespace rserve::cpu
