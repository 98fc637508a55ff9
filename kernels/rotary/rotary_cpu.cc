#include "kernels/rotary/rotary.h"

#include <cmath>

namespace rserve::kernels {

void Rotary(const KernelTable& isa, const RotaryArgs& args, int64_t row_begin, int64_t row_end) {
  isa.rotary(args, row_begin, row_end);
}

void InverseFrequencies(double base, int64_t width, float* inverse) {
  for (int64_t i = 0; 2 * i < width; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(width);
    inverse[i] = 1.0f / static_cast<float>(std::pow(base, static_cast<double>(exponent)));
  }
}

void MropeAngles(const int32_t positions[3], const int32_t* sections, int num_sections,
                 const float* inverse, int64_t pairs, float* cosine, float* sine) {
  int64_t i = 0;
  for (int section = 0; section < num_sections; ++section) {
    const float position = static_cast<float>(positions[section % 3]);
    const int64_t end = i + sections[section] < pairs ? i + sections[section] : pairs;
    for (; i < end; ++i) {
      const float angle = position * inverse[i];
      cosine[i] = std::cos(angle);
      sine[i] = std::sin(angle);
    }
  }
}

void VisionAngles(int32_t row, int32_t column, const float* inverse, int64_t pairs, float* cosine,
                  float* sine) {
  const int64_t half = pairs / 2;
  for (int64_t i = 0; i < pairs; ++i) {
    const float angle = static_cast<float>(i < half ? row : column) * inverse[i % half];
    cosine[i] = std::cos(angle);
    sine[i] = std::sin(angle);
  }
}

}  // namespace rserve::kernels
