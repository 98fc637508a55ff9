// SHA-256 (FIPS 180-4), for the keys of what is kept across requests.

#ifndef RSERVE_SRC_RUNTIME_MODEL_SHA256_H_
#define RSERVE_SRC_RUNTIME_MODEL_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "absl/types/span.h"
#include "src/runtime/model/sha256_blocks.h"

namespace rserve::runtime {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  explicit Sha256(Sha256Blocks blocks = BestSha256Blocks()) : blocks_(blocks) {}
  void Add(absl::Span<const uint8_t> bytes);
  // The value's eight bytes, least significant first.
  void AddInt(uint64_t value);
  // Its length, then its bytes.
  void AddText(const std::string& text);
  // Ends the message; nothing may be added after it.
  Digest Finish();

 private:
  Sha256Blocks blocks_;
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> buffer_ = {};
  uint64_t size_ = 0;  // bytes added
};

// The digest of bytes that several share, made by the first that asks. Thread-safe.
class SharedDigest {
 public:
  // `bytes` are the same in every call.
  const Digest& Of(absl::Span<const uint8_t> bytes);

 private:
  std::once_flag once_;
  Digest digest_ = {};
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_SHA256_H_
