#include "src/media/composite.h"

namespace rserve::media {

void CompositeOnWhite(const uint8_t* rgba, size_t count, uint8_t* rgb) {
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* in = rgba + i * 4;
    uint8_t* out = rgb + i * 3;
    const uint32_t alpha = in[3];
    const uint32_t white = 255 * (255 - alpha) + 128;
    const uint32_t color[3] = {in[0], in[1], in[2]};
    for (int c = 0; c < 3; ++c) {
      const uint32_t sum = color[c] * alpha + white;
      out[c] = static_cast<uint8_t>(((sum >> 8) + sum) >> 8);
    }
  }
}

}  // namespace rserve::media
