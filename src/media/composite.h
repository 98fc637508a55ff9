// Transparent pixels onto the one background that all formats share: white.

#ifndef RSERVE_SRC_MEDIA_COMPOSITE_H_
#define RSERVE_SRC_MEDIA_COMPOSITE_H_

#include <cstddef>
#include <cstdint>

namespace rserve::media {

// `count` RGBA pixels over white, to RGB. `rgb` may be `rgba`: the shorter row never overtakes the
// longer one. Rounds (c * a + 255 * (255 - a)) / 255 to nearest, as Pillow's paste with a mask
// does.
void CompositeOnWhite(const uint8_t* rgba, size_t count, uint8_t* rgb);

}  // namespace rserve::media

#endif  // RSERVE_SRC_MEDIA_COMPOSITE_H_
