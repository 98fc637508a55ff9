// Unaligned integers out of a byte string, with the bounds checked by the caller.

#ifndef RSERVE_SRC_MEDIA_BYTES_H_
#define RSERVE_SRC_MEDIA_BYTES_H_

#include <cstdint>

namespace rserve::media {

inline uint32_t LoadBe16(const uint8_t* p) { return (uint32_t{p[0]} << 8) | p[1]; }
inline uint32_t LoadLe16(const uint8_t* p) { return (uint32_t{p[1]} << 8) | p[0]; }
inline uint32_t LoadBe32(const uint8_t* p) { return (LoadBe16(p) << 16) | LoadBe16(p + 2); }
inline uint32_t LoadLe32(const uint8_t* p) { return (LoadLe16(p + 2) << 16) | LoadLe16(p); }

}  // namespace rserve::media

#endif  // RSERVE_SRC_MEDIA_BYTES_H_
