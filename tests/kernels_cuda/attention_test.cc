// Attention over segments and over the paged cache against a naive reference in f64.

#include <numeric>

#include "kernels/attention/attention_cuda.h"
#include "kernels/attention/attention_plan.h"
#include "kernels/kv_write/kv_write_cuda.h"
#include "tests/kernels_cuda/harness.h"

namespace rserve::testing {
namespace {

namespace cuda = kernels::cuda;
using cuda::AttentionArgs;
using cuda::AttentionSegment;
using cuda::AttentionTile;

// Values are below 1: rounding p to bf16 moves an output by 2^-9 at most, twice that for both
// factors of the bound.
constexpr double kSlack = 0x1p-8;

// One query over `keys` keys; key(j) and value(j) give pointers.
template <typename Key, typename Value>
std::vector<double> Reference(const Bf16* q, int64_t dim, int64_t keys, float scale, Key key,
                              Value value) {
  std::vector<double> p(static_cast<size_t>(keys)), out(static_cast<size_t>(dim));
  double largest = -1e300, total = 0.0;
  for (int64_t j = 0; j < keys; ++j) {
    double s = 0.0;
    for (int64_t d = 0; d < dim; ++d) s += double{ToF32(q[d])} * ToF32(key(j)[d]);
    p[static_cast<size_t>(j)] = s * scale;
    largest = std::max(largest, s * scale);
  }
  for (double& x : p) total += x = std::exp(x - largest);
  for (int64_t j = 0; j < keys; ++j) {
    for (int64_t d = 0; d < dim; ++d) {
      out[static_cast<size_t>(d)] += p[static_cast<size_t>(j)] / total * ToF32(value(j)[d]);
    }
  }
  return out;
}

// Vision: q, k and v of all heads side by side in rows, as the product leaves them.
struct Segments {
  Segments(Random& random, std::vector<int64_t> lengths, int32_t heads, int32_t dim)
      : lengths(lengths),
        heads(heads),
        dim(dim),
        stride(3 * heads * dim + 8),
        rows(std::accumulate(lengths.begin(), lengths.end(), int64_t{0})),
        qkv(std::max<int64_t>(rows, 1) * stride) {
    random.Fill(qkv);
    int64_t row = 0;
    for (int64_t n : lengths) {
      segments.push_back({row, static_cast<int32_t>(n), static_cast<int32_t>(n), row});
      row += n;
    }
    cuda::PlanAttention(segments, 1, false, &tiles);
  }
  std::vector<uint8_t> Run(Stream& stream) {
    Guarded<Bf16> out(std::max<int64_t>(rows, 1) * heads * dim);
    AttentionArgs args;
    args.q = qkv.data();
    args.k = qkv.data() + heads * dim;
    args.v = qkv.data() + 2 * heads * dim;
    args.q_stride = args.kv_stride = stride;
    args.out = out.data();
    args.out_stride = int64_t{heads} * dim;
    args.head_stride = dim;
    args.head_dim = dim;
    args.kv_heads = heads;
    args.scale = 0.5f;
    const DeviceVector<AttentionSegment> parts(segments.begin(), segments.end());
    const DeviceVector<AttentionTile> device_tiles(tiles.begin(), tiles.end());
    args.segments = parts.data();
    args.tiles = device_tiles.data();
    args.num_tiles = static_cast<int64_t>(tiles.size());
    CHECK(cuda::AttendSegments(args, stream.ref()).ok());
    std::vector<uint8_t> bytes;
    AppendBytes(out, &bytes);
    return bytes;
  }
  double WorstExcess(const std::vector<uint8_t>& bytes) {
    const auto* out = reinterpret_cast<const Bf16*>(bytes.data());
    double worst = -1.0;
    for (const AttentionSegment& s : segments) {
      for (int64_t r = s.row_begin; r < s.row_begin + s.rows; ++r) {
        for (int32_t h = 0; h < heads; ++h) {
          const Bf16* base = qkv.data() + h * dim;
          const std::vector<double> want = Reference(
              base + r * stride, dim, s.keys, 0.5f,
              [&](int64_t j) { return base + (s.first + j) * stride + heads * dim; },
              [&](int64_t j) { return base + (s.first + j) * stride + 2 * heads * dim; });
          for (int32_t d = 0; d < dim; ++d) {
            const double w = want[static_cast<size_t>(d)];
            const double error = std::fabs(ToF32(out[(r * heads + h) * dim + d]) - w);
            if (!(error <= Bf16Tolerance(w, kSlack))) worst = std::max(worst, error);
            if (std::isnan(error)) return 1e9;
          }
        }
      }
    }
    return worst;
  }
  std::vector<int64_t> lengths;
  int32_t heads, dim;
  int64_t stride, rows;
  Guarded<Bf16> qkv;
  std::vector<AttentionSegment> segments;
  std::vector<AttentionTile> tiles;
};

TEST_CASE("segments of any length attend within themselves, as in f64") {
  Random random(101);
  const std::vector<std::vector<int64_t>> cases = {{1},   {0, 3, 0}, {64, 16, 32, 4}, {63, 1, 65},
                                                   {130}, {64, 64},  {200, 7}};
  int test = 0;
  for (int32_t dim : {8, 24, 32, 40, 64, 72, 80, 128}) {
    const auto& lengths = cases[static_cast<size_t>(test) % cases.size()];
    Segments work(random, lengths, 1 + test % 2, dim);
    Stream stream;
    stream.schedule() = AllSchedules()[static_cast<size_t>(test) % AllSchedules().size()];
    const std::vector<uint8_t> out = work.Run(stream);
    INFO("head_dim " << dim << ": " << stream.error());
    REQUIRE(stream.error().empty());
    CHECK(work.WorstExcess(out) < 0.0);
    ++test;
  }
}

// Prompts over one paged cache, whose keys and values are written by KvWrite and NaN elsewhere.
struct Prompts {
  struct Prompt {
    int64_t tokens = 0;
    std::vector<int32_t> blocks;
    std::vector<Bf16> qkv;  // [tokens][(group + 2) * kv_heads * dim]
  };
  Prompts(Random& random, std::vector<int64_t> lengths, int32_t kv_heads, int32_t group,
          int32_t dim, int32_t block_tokens)
      : kv_heads(kv_heads),
        group(group),
        dim(dim),
        block_tokens(block_tokens),
        width(int64_t{group + 2} * kv_heads * dim),
        num_blocks(Blocks(lengths, block_tokens)),
        cache(num_blocks * kv_heads * 2 * block_tokens * dim) {
    std::vector<int32_t> free(static_cast<size_t>(num_blocks));
    std::iota(free.begin(), free.end(), 0);
    for (size_t i = free.size(); i > 1; --i) {
      std::swap(free[i - 1], free[static_cast<size_t>(random.Int(0, static_cast<int64_t>(i) - 1))]);
    }
    for (int64_t tokens : lengths) {
      Prompt& prompt = prompts.emplace_back();
      prompt.tokens = tokens;
      for (int64_t b = 0; b * block_tokens < tokens; ++b) {
        prompt.blocks.push_back(free.back());
        free.pop_back();
      }
      prompt.qkv.resize(static_cast<size_t>(tokens * width));
      for (Bf16& x : prompt.qkv) x = ToBf16Bits(random.Float());
    }
  }
  static int64_t Blocks(const std::vector<int64_t>& lengths, int64_t block_tokens) {
    int64_t blocks = 3;
    for (int64_t n : lengths) blocks += (n + block_tokens - 1) / block_tokens;
    return blocks;
  }
  // Runs one micro-batch of tokens [begin[i], begin[i] + count[i]) of each prompt and keeps what
  // comes out in `out[i]`.
  void Step(Stream& stream, const std::vector<int64_t>& begin, const std::vector<int64_t>& count,
            std::vector<std::vector<Bf16>>* out) {
    const int64_t rows = std::accumulate(count.begin(), count.end(), int64_t{0});
    Guarded<Bf16> batch(std::max<int64_t>(rows, 1) * width);
    Guarded<Bf16> result(std::max<int64_t>(rows, 1) * kv_heads * group * dim);
    DeviceVector<int64_t> slots;
    DeviceVector<int32_t> table;
    std::vector<AttentionSegment> segments;
    int64_t row = 0;
    for (size_t i = 0; i < prompts.size(); ++i) {
      const Prompt& p = prompts[i];
      std::copy_n(p.qkv.data() + begin[i] * width, count[i] * width, batch.data() + row * width);
      segments.push_back({row, static_cast<int32_t>(count[i]), static_cast<int32_t>(begin[i]),
                          static_cast<int64_t>(table.size())});
      table.insert(table.end(), p.blocks.begin(), p.blocks.end());
      for (int64_t t = begin[i]; t < begin[i] + count[i]; ++t) {
        slots.push_back(int64_t{p.blocks[static_cast<size_t>(t / block_tokens)]} * block_tokens +
                        t % block_tokens);
      }
      row += count[i];
    }
    std::vector<AttentionTile> plan;
    cuda::PlanAttention(segments, group, true, &plan);
    const DeviceVector<AttentionSegment> parts(segments.begin(), segments.end());
    const DeviceVector<AttentionTile> tiles(plan.begin(), plan.end());
    cuda::KvWriteArgs write;
    write.k = batch.data() + kv_heads * group * dim;
    write.v = write.k + kv_heads * dim;
    write.stride = width;
    write.head_stride = dim;
    write.kv_heads = kv_heads;
    write.slots = slots.data();
    write.cache = cache.data();
    write.block_tokens = block_tokens;
    write.rows = rows;
    CHECK(cuda::KvWrite(write, stream.ref()).ok());
    AttentionArgs args;
    args.q = batch.data();
    args.q_stride = width;
    args.out = result.data();
    args.out_stride = int64_t{kv_heads} * group * dim;
    args.head_stride = dim;
    args.head_dim = dim;
    args.kv_heads = kv_heads;
    args.group = group;
    args.scale = 0.25f;
    args.segments = parts.data();
    args.tiles = tiles.data();
    args.num_tiles = static_cast<int64_t>(tiles.size());
    args.cache = cache.data();
    args.cache_stride = dim;
    args.block_table = table.data();
    args.block_tokens = block_tokens;
    CHECK(cuda::AttendPaged(args, stream.ref()).ok());
    const Bf16* from = result.data();
    for (size_t i = 0; i < prompts.size(); ++i) {
      (*out)[i].insert((*out)[i].end(), from, from + count[i] * args.out_stride);
      from += count[i] * args.out_stride;
    }
  }
  // All prompts, `chunk` tokens of each a step.
  std::vector<std::vector<Bf16>> Run(Stream& stream, int64_t chunk) {
    std::vector<std::vector<Bf16>> out(prompts.size());
    std::vector<int64_t> begin(prompts.size()), count(prompts.size());
    for (bool more = true; more;) {
      more = false;
      for (size_t i = 0; i < prompts.size(); ++i) {
        begin[i] += count[i];
        count[i] = std::min(chunk, prompts[i].tokens - begin[i]);
        more |= count[i] > 0;
      }
      if (more) Step(stream, begin, count, &out);
    }
    return out;
  }
  double WorstExcess(const std::vector<std::vector<Bf16>>& out) {
    double worst = -1.0;
    const int64_t heads = int64_t{kv_heads} * group;
    for (size_t i = 0; i < prompts.size(); ++i) {
      const Prompt& p = prompts[i];
      for (int64_t t = 0; t < p.tokens; ++t) {
        for (int64_t h = 0; h < heads; ++h) {
          const Bf16* k = p.qkv.data() + (heads + h / group) * dim;
          const std::vector<double> want = Reference(
              p.qkv.data() + t * width + h * dim, dim, t + 1, 0.25f,
              [&](int64_t j) { return k + j * width; },
              [&](int64_t j) { return k + j * width + int64_t{kv_heads} * dim; });
          for (int32_t d = 0; d < dim; ++d) {
            const double w = want[static_cast<size_t>(d)];
            const double error =
                std::fabs(ToF32(out[i][static_cast<size_t>((t * heads + h) * dim + d)]) - w);
            if (std::isnan(error)) return 1e9;
            if (error > Bf16Tolerance(w, kSlack)) worst = std::max(worst, error);
          }
        }
      }
    }
    return worst;
  }
  int32_t kv_heads, group, dim, block_tokens;
  int64_t width, num_blocks;
  Guarded<Bf16> cache;
  std::vector<Prompt> prompts;
};

bool SameBits(const std::vector<std::vector<Bf16>>& a, const std::vector<std::vector<Bf16>>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size() ||
        std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(Bf16)) != 0) {
      return false;
    }
  }
  return true;
}

TEST_CASE("paged causal attention agrees with f64, and to the bit whatever the chunks") {
  Random random(201);
  struct Shape {
    int32_t kv_heads, group, dim, block_tokens;
    std::vector<int64_t> lengths;
    int64_t chunk;
  };
  const std::vector<Shape> shapes = {
      {1, 7, 128, 16, {70, 1}, 33}, {2, 2, 16, 4, {5, 66, 130}, 64}, {3, 1, 24, 1, {64, 3}, 5},
      {1, 4, 80, 5, {65}, 17},      {1, 8, 64, 64, {129, 2}, 1000},  {2, 1, 8, 7, {1, 1, 40}, 1},
  };
  int test = 0;
  for (const Shape& shape : shapes) {
    Stream stream;
    stream.schedule() = AllSchedules()[static_cast<size_t>(test++) % AllSchedules().size()];
    Prompts work(random, shape.lengths, shape.kv_heads, shape.group, shape.dim, shape.block_tokens);
    const auto whole = work.Run(stream, 100000);
    INFO("shape " << test << ": " << stream.error());
    REQUIRE(stream.error().empty());
    CHECK(work.WorstExcess(whole) < 0.0);
    CHECK(SameBits(work.Run(stream, shape.chunk), whole));
    REQUIRE(stream.error().empty());
  }
}

TEST_CASE("attention agrees with f64 over random shapes") {
  const std::vector<Schedule> schedules = AllSchedules();
  for (uint32_t seed = 1; seed <= 16; ++seed) {
    Random random(1000 + seed);
    Stream stream;
    stream.schedule() = schedules[seed % schedules.size()];
    stream.schedule().seed = seed;
    const auto dim = static_cast<int32_t>(8 * random.Int(1, 16));
    std::vector<int64_t> lengths;
    for (int64_t i = random.Int(1, 4); i > 0; --i) lengths.push_back(random.Int(0, 90));
    INFO("seed " << seed << ", head_dim " << dim);
    Segments windows(random, lengths, static_cast<int32_t>(random.Int(1, 2)), dim);
    const std::vector<uint8_t> seen = windows.Run(stream);
    CHECK(windows.WorstExcess(seen) < 0.0);
    for (int64_t& n : lengths) n = n / 2 + 1;
    Prompts prompts(random, lengths, static_cast<int32_t>(random.Int(1, 2)),
                    static_cast<int32_t>(random.Int(1, 5)), dim,
                    static_cast<int32_t>(random.Int(1, 20)));
    CHECK(prompts.WorstExcess(prompts.Run(stream, random.Int(1, 60))) < 0.0);
    CHECK(stream.error() == "");
  }
}

TEST_CASE("attention gives the same bits in every order of threads and misses every barrier") {
  Random random(301);
  Segments segments(random, {150}, 1, 24);
  const RunKernel vision = [&](Stream& stream) { return segments.Run(stream); };
  SameUnderAllSchedules(vision);
  EveryBarrierIsMissed(vision);
  const RunKernel paged = [](Stream& stream) {
    Random again(302);
    Prompts prompts(again, {140}, 1, 2, 16, 8);
    std::vector<std::vector<Bf16>> out(1);
    prompts.Step(stream, {0}, {140}, &out);
    const auto* bytes = reinterpret_cast<const uint8_t*>(out[0].data());
    return std::vector<uint8_t>(bytes, bytes + out[0].size() * sizeof(Bf16));
  };
  SameUnderAllSchedules(paged);
  EveryBarrierIsMissed(paged);
}

TEST_CASE("large scores do not overflow and one key takes all") {
  Random random(401);
  Segments work(random, {70}, 1, 32);
  for (int64_t r = 0; r < 70; ++r) {
    for (int32_t d = 0; d < 32; ++d) {
      work.qkv[r * work.stride + d] = ToBf16Bits(100.0f);
      // Key 40 agrees with every query far more than the others.
      work.qkv[r * work.stride + 32 + d] = ToBf16Bits(r == 40 ? 100.0f : -100.0f);
    }
  }
  Stream stream;
  const std::vector<uint8_t> bytes = work.Run(stream);
  REQUIRE(stream.error().empty());
  const auto* out = reinterpret_cast<const Bf16*>(bytes.data());
  for (int64_t i = 0; i < 70 * 32; ++i) {
    REQUIRE(out[i].bits == work.qkv[40 * work.stride + 64 + i % 32].bits);
  }
}

TEST_CASE("attention refuses what it cannot do") {
  alignas(16) Bf16 data[64] = {};
  AttentionArgs args;
  args.q = args.k = args.v = args.cache = data;
  args.out = data;
  args.kv_heads = 1;
  args.head_dim = 12;
  CHECK(cuda::AttendSegments(args, {}).code == cuda::Result::Code::kInvalid);
  args.head_dim = 136;
  CHECK(cuda::AttendSegments(args, {}).code == cuda::Result::Code::kUnsupported);
  args.head_dim = 16;
  CHECK(cuda::AttendPaged(args, {}).code == cuda::Result::Code::kInvalid);  // block_tokens
  args.block_tokens = 16;
  CHECK(cuda::AttendPaged(args, {}).ok());  // no tiles
  args.q = data + 1;
  CHECK(cuda::AttendPaged(args, {}).code == cuda::Result::Code::kInvalid);
}

}  // namespace
}  // namespace rserve::testing
