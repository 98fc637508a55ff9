#include "src/runtime/model/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace rserve::runtime {

void PortableSha256Blocks(uint32_t* state, const uint8_t* data, size_t blocks) {
  for (; blocks > 0; --blocks, data += 64) {
    uint32_t w[64];
    for (int i = 0; i < 16; ++i) {
      const uint8_t* p = data + 4 * i;
      w[i] = uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | p[3];
    }
    for (int i = 16; i < 64; ++i) {
      const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
      const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; ++i) {
      const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + internal::kSha256Round[i] + w[i];
      const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const uint32_t add[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; ++i) state[i] += add[i];
  }
}

void Sha256::Add(absl::Span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const size_t held = size_ % buffer_.size();
    if (held == 0 && bytes.size() >= buffer_.size()) {
      const size_t blocks = bytes.size() / buffer_.size();
      blocks_(state_.data(), bytes.data(), blocks);
      bytes.remove_prefix(blocks * buffer_.size());
      size_ += blocks * buffer_.size();
      continue;
    }
    const size_t take = std::min(bytes.size(), buffer_.size() - held);
    std::memcpy(buffer_.data() + held, bytes.data(), take);
    bytes.remove_prefix(take);
    size_ += take;
    if (size_ % buffer_.size() == 0) blocks_(state_.data(), buffer_.data(), 1);
  }
}

void Sha256::AddInt(uint64_t value) {
  uint8_t bytes[8];
  for (uint8_t& byte : bytes) {
    byte = static_cast<uint8_t>(value);
    value >>= 8;
  }
  Add(bytes);
}

void Sha256::AddText(const std::string& text) {
  AddInt(text.size());
  Add({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

const Digest& SharedDigest::Of(absl::Span<const uint8_t> bytes) {
  std::call_once(once_, [&] {
    Sha256 hash;
    hash.Add(bytes);
    digest_ = hash.Finish();
  });
  return digest_;
}

Digest Sha256::Finish() {
  const uint64_t bits = size_ * 8;
  const uint8_t one = 0x80, zero = 0;
  Add(absl::MakeConstSpan(&one, 1));
  while (size_ % buffer_.size() != 56) Add(absl::MakeConstSpan(&zero, 1));
  uint8_t length[8];
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  Add(length);
  Digest digest;
  for (size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

}  // namespace rserve::runtime
