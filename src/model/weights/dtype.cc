#include <bit>
#include <cstring>

#include "src/model/weights/checkpoint.h"
#include "src/model/weights/half.h"

namespace rserve::model {

static_assert(std::endian::native == std::endian::little, "files are read as they lie");

int64_t DTypeSize(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

std::string_view DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kF16:
      return "F16";
    case DType::kBF16:
      return "BF16";
  }
  return "?";
}

void WidenToF32(const TensorView& view, int64_t begin, int64_t count, float* out) {
  if (count <= 0) return;
  const uint8_t* in = view.data + begin * DTypeSize(view.dtype);
  if (view.dtype == DType::kF32) {
    std::memcpy(out, in, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  const bool bf16 = view.dtype == DType::kBF16;
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, in + 2 * i, sizeof(bits));  // may be unaligned
    out[i] = bf16 ? BF16ToF32(bits) : F16ToF32(bits);
  }
}

}  // namespace rserve::model
