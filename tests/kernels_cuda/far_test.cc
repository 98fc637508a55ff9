// Offsets that do not fit 32 bits, as caches and tables of large models have them: rows 2^31
// elements apart give the bits of rows side by side.

#include <sys/mman.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/activation/activation_cuda.h"
#include "kernels/argmax/argmax_cuda.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/attention/attention_plan.h"
#include "kernels/convert/convert_cuda.h"
#include "kernels/embedding/embedding_cuda.h"
#include "kernels/kv_write/kv_write_cuda.h"
#include "kernels/patchify/patchify_cuda.h"
#include "kernels/rmsnorm/rmsnorm_cuda.h"
#include "kernels/rotary/rotary_cuda.h"
#include "tests/kernels_cuda/harness.h"

namespace rserve::testing {
namespace {

namespace cuda = kernels::cuda;

constexpr int64_t kRows = 2, kColumns = 4096;
constexpr int64_t kFar = (int64_t{1} << 31) + 64;

// kRows rows of kColumns elements, `stride` apart; of the memory between them none is ever touched,
// so the machine need not have it.
template <typename T>
class Sparse {
 public:
  explicit Sparse(int64_t stride)
      : stride_(stride),
        bytes_(static_cast<size_t>((kRows - 1) * stride + kColumns) * sizeof(T)),
        data_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    REQUIRE(data_ != MAP_FAILED);
  }
  ~Sparse() { munmap(data_, bytes_); }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;

  int64_t stride() const { return stride_; }
  // Column `column` of row 0.
  T* at(int64_t column) { return static_cast<T*>(data_) + column; }
  void Fill(int64_t column, int64_t width, uint32_t seed) {
    Random random(seed);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t i = 0; i < width; ++i) {
        if constexpr (sizeof(T) == sizeof(Bf16)) {
          at(column)[r * stride_ + i] = ToBf16Bits(random.Float(2.0f));
        } else {
          at(column)[r * stride_ + i] = static_cast<T>(random.Float(2.0f));
        }
      }
    }
  }
  void Append(int64_t column, int64_t width, std::vector<uint8_t>* out) {
    for (int64_t r = 0; r < kRows; ++r) {
      const auto* row = reinterpret_cast<const uint8_t*>(at(column) + r * stride_);
      out->insert(out->end(), row, row + static_cast<size_t>(width) * sizeof(T));
    }
  }

 private:
  const int64_t stride_;
  const size_t bytes_;
  void* const data_;
};

struct Place {
  explicit Place(int64_t stride) : bf16(stride), f32(stride) {}
  Sparse<Bf16> bf16;
  Sparse<float> f32;
};

// `run` gives the bytes of what it has computed in a place.
void SameFarAndNear(const std::function<std::vector<uint8_t>(Place&, StreamRef)>& run) {
  Stream stream;
  Place near(kColumns), far(kFar);
  const std::vector<uint8_t> want = run(near, stream.ref());
  CHECK(run(far, stream.ref()) == want);
  CHECK(stream.error() == "");
}

TEST_CASE("rows further apart than 2^31 elements: norms, activations, rotary and conversions") {
  SameFarAndNear([](Place& p, StreamRef stream) {
    Guarded<Bf16> weight(256);
    Random(9).Fill(weight);
    p.bf16.Fill(0, 512, 1);
    const int64_t stride = p.bf16.stride();
    cuda::RmsNormArgs norm;
    norm.x = p.bf16.at(0);
    norm.delta = p.bf16.at(256);
    norm.sum = p.bf16.at(512);
    norm.y = p.bf16.at(768);
    norm.x_stride = norm.delta_stride = norm.sum_stride = norm.y_stride = stride;
    norm.weight = weight.data();
    norm.rows = kRows;
    norm.width = 256;
    CHECK(cuda::RmsNorm(norm, stream).ok());
    CHECK(cuda::SwiGlu({p.bf16.at(0), p.bf16.at(256), stride, p.bf16.at(1024), stride, kRows, 256},
                       stream)
              .ok());
    CHECK(cuda::Gelu({p.bf16.at(0), stride, p.bf16.at(1280), stride, kRows, 256}, stream).ok());
    CHECK(cuda::RowsToF32({p.bf16.at(0), stride, nullptr, p.f32.at(0), stride, kRows, 256}, stream)
              .ok());
    const DeviceVector<int32_t> swapped = {1, 0};
    CHECK(
        cuda::RowsToBf16(
            {p.f32.at(0), stride, swapped.data(), p.bf16.at(1536), stride, kRows, 256, 264}, stream)
            .ok());
    Guarded<float> cosine(kRows * 32), sine(kRows * 32);
    for (int64_t i = 0; i < kRows * 32; ++i) {
      cosine[i] = std::cos(static_cast<float>(i));
      sine[i] = std::sin(static_cast<float>(i));
    }
    CHECK(cuda::Rotary({p.bf16.at(0), stride, 4, 64, 64, cosine.data(), sine.data(), kRows}, stream)
              .ok());
    std::vector<uint8_t> out;
    p.bf16.Append(0, 1800, &out);
    p.f32.Append(0, 256, &out);
    return out;
  });
}

TEST_CASE("rows further apart than 2^31 elements: the table, logits and pixels") {
  SameFarAndNear([](Place& p, StreamRef stream) {
    p.bf16.Fill(0, 128, 2);
    p.f32.Fill(0, 900, 3);
    const int64_t stride = p.bf16.stride();
    Guarded<Bf16> item(128);
    Random(4).Fill(item);
    const DeviceVector<cuda::ItemRows> items = {{item.data(), 1}};
    const DeviceVector<int32_t> sources = {1, -1};  // the table's second row
    CHECK(cuda::Embedding({p.bf16.at(0), stride, sources.data(), items.data(), 128, p.bf16.at(256),
                           stride, kRows, 128},
                          stream)
              .ok());
    Guarded<cuda::Likeliest> likeliest(kRows);
    CHECK(cuda::ArgMax({p.f32.at(0), p.f32.stride(), likeliest.data(), kRows, 900}, stream).ok());
    // Pixel rows as far apart, in bytes.
    auto* pixels = reinterpret_cast<uint8_t*>(p.f32.at(1024));
    const int64_t row_bytes = p.f32.stride() * int64_t{sizeof(float)};
    for (int64_t y = 0; y < 2; ++y) {
      for (int64_t x = 0; x < 12; ++x) pixels[y * row_bytes + x] = static_cast<uint8_t>(y * 12 + x);
    }
    const DeviceVector<int32_t> places = {0, 0, 0, 1};
    cuda::PatchifyArgs patchify;
    patchify.pixels = pixels;
    patchify.row_bytes = row_bytes;
    patchify.places = places.data();
    patchify.patch_size = 2;
    patchify.frames = 2;
    for (int c = 0; c < 3; ++c) patchify.scale[c] = 1.0f;
    patchify.y = p.bf16.at(512);
    patchify.y_stride = stride;
    patchify.rows = kRows;
    CHECK(cuda::Patchify(patchify, stream).ok());
    std::vector<uint8_t> out;
    p.bf16.Append(256, 128, &out);
    p.bf16.Append(512, 24, &out);
    AppendBytes(likeliest, &out);
    return out;
  });
}

TEST_CASE("rows further apart than 2^31 elements: attention, and a large cache") {
  constexpr int64_t kDim = 64, kTokens = 16, kBlock = 2 * kTokens * kDim;
  SameFarAndNear([](Place& p, StreamRef stream) {
    p.bf16.Fill(0, 3 * kDim, 5);
    const int64_t stride = p.bf16.stride();
    std::vector<cuda::AttentionTile> plan;
    cuda::AttentionArgs args;
    args.q = p.bf16.at(0);
    args.k = p.bf16.at(kDim);
    args.v = p.bf16.at(2 * kDim);
    args.q_stride = args.kv_stride = args.out_stride = stride;
    args.out = p.bf16.at(3 * kDim);
    args.head_stride = args.head_dim = kDim;
    args.kv_heads = 1;
    const DeviceVector<cuda::AttentionSegment> window = {{0, kRows, kRows, 0}};
    cuda::PlanAttention({window[0]}, 1, false, &plan);
    DeviceVector<cuda::AttentionTile> tiles(plan.begin(), plan.end());
    args.segments = window.data();
    args.tiles = tiles.data();
    args.num_tiles = static_cast<int64_t>(tiles.size());
    CHECK(cuda::AttendSegments(args, stream).ok());
    // Both tokens lie in one block, which begins 2^31 elements on, or at once.
    const int64_t far_block = stride > kColumns ? (stride + 1024) / kBlock : 0;
    const DeviceVector<int32_t> table = {static_cast<int32_t>(far_block)};
    const DeviceVector<int64_t> slots = {far_block * kTokens, far_block * kTokens + 1};
    cuda::KvWriteArgs write;
    write.k = p.bf16.at(kDim);
    write.v = p.bf16.at(2 * kDim);
    write.stride = stride;
    write.head_stride = kDim;
    write.kv_heads = 1;
    write.slots = slots.data();
    write.cache = p.bf16.at(1024);
    write.block_tokens = kTokens;
    write.rows = kRows;
    CHECK(cuda::KvWrite(write, stream).ok());
    const DeviceVector<cuda::AttentionSegment> prompt = {{0, kRows, 0, 0}};
    cuda::PlanAttention({prompt[0]}, 1, true, &plan);
    tiles.assign(plan.begin(), plan.end());
    args.segments = prompt.data();
    args.tiles = tiles.data();
    args.num_tiles = static_cast<int64_t>(tiles.size());
    args.cache = write.cache;
    args.cache_stride = kDim;
    args.block_table = table.data();
    args.block_tokens = kTokens;
    args.out = p.bf16.at(4 * kDim);
    CHECK(cuda::AttendPaged(args, stream).ok());
    std::vector<uint8_t> out;
    p.bf16.Append(3 * kDim, 2 * kDim, &out);
    return out;
  });
}

}  // namespace
}  // namespace rserve::testing
