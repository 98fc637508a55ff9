// Every kernel but attention against a naive reference in f64, over ragged shapes, aligned and not.

#include <limits>
#include <numeric>

#include "kernels/activation/activation_cuda.h"
#include "kernels/argmax/argmax_cuda.h"
#include "kernels/convert/convert_cuda.h"
#include "kernels/cuda/divider.h"
#include "kernels/embedding/embedding_cuda.h"
#include "kernels/kv_write/kv_write_cuda.h"
#include "kernels/patchify/patchify_cuda.h"
#include "kernels/rmsnorm/rmsnorm_cuda.h"
#include "kernels/rotary/rotary_cuda.h"
#include "tests/kernels_cuda/harness.h"

namespace rserve::testing {
namespace {

namespace cuda = kernels::cuda;

constexpr double kF32Slack = 1e-6;

// A matrix of rows `stride` apart that begins `shift` elements after a 16-byte boundary.
template <typename T>
struct Rows {
  Rows(int64_t rows, int64_t width, int64_t gap, int64_t shift)
      : width(width),
        stride(width + gap),
        count(rows),
        array(rows * stride + shift),
        shift(shift) {}
  T* data() { return array.data() + shift; }
  T& at(int64_t row, int64_t column) { return data()[row * stride + column]; }
  // What lies between the rows still has all bits set.
  bool GapsUntouched(int64_t written) {
    const std::vector<T> raw = array.Copy();
    const auto* bytes = reinterpret_cast<const uint8_t*>(raw.data() + shift);
    for (int64_t r = 0; r < count; ++r) {
      const auto begin = static_cast<size_t>(r * stride + written) * sizeof(T);
      for (size_t i = begin; i < static_cast<size_t>((r + 1) * stride) * sizeof(T); ++i) {
        if (bytes[i] != 0xff) return false;
      }
    }
    return true;
  }
  int64_t width, stride, count;
  Guarded<T> array;
  int64_t shift;
};

template <typename T>
std::vector<uint8_t> Bytes(Rows<T>& rows) {
  std::vector<uint8_t> bytes;
  AppendBytes(rows.array, &bytes);
  return bytes;
}

Stream& Rotating(int64_t test) {
  static thread_local Stream stream;
  const std::vector<Schedule> all = AllSchedules();
  stream.schedule() = all[static_cast<size_t>(test) % all.size()];
  return stream;
}

// Sizes with edges, and some that nobody has chosen.
std::vector<int64_t> WithRandom(std::vector<int64_t> sizes, int64_t largest, Random& random) {
  for (int i = 0; i < 6; ++i) sizes.push_back(random.Int(1, largest));
  return sizes;
}

TEST_CASE("RMSNorm agrees with f64, with and without a residual, aligned and not") {
  Random random(11);
  int64_t test = 0;
  for (int64_t width : WithRandom({1, 7, 16, 44, 250, 1280, 2040, 3584, 8192}, 2048, random)) {
    for (const bool residual : {false, true}) {
      const int64_t rows = random.Int(1, 3);
      const bool aligned = width % 8 == 0 && test % 3 != 2;
      if (!aligned && width > 2048) continue;
      const int64_t gap = aligned ? 8 : 3, shift = aligned ? 0 : 1;
      Rows<Bf16> x(rows, width, gap, shift), delta(rows, width, gap, shift);
      Rows<Bf16> sum(rows, width, gap, shift), y(rows, width, gap, shift);
      Guarded<Bf16> weight(width);
      random.Fill(x.array, 3.0f);
      random.Fill(delta.array, 3.0f);
      random.Fill(weight, 2.0f);
      cuda::RmsNormArgs args;
      args.x = x.data();
      args.x_stride = x.stride;
      args.delta = residual ? delta.data() : nullptr;
      args.delta_stride = delta.stride;
      args.sum = residual ? sum.data() : nullptr;
      args.sum_stride = sum.stride;
      args.weight = weight.data();
      args.y = y.data();
      args.y_stride = y.stride;
      args.rows = rows;
      args.width = width;
      args.padded_width = width + 2;
      Stream& stream = Rotating(test++);
      REQUIRE(cuda::RmsNorm(args, stream.ref()).ok());
      REQUIRE(stream.error() == "");
      INFO("width " << width << " residual " << residual);
      for (int64_t r = 0; r < rows; ++r) {
        std::vector<double> s(static_cast<size_t>(width));
        double squares = 0.0;
        for (int64_t i = 0; i < width; ++i) {
          double v = ToF32(x.at(r, i));
          if (residual) {
            v = ToF32(ToBf16Bits(static_cast<float>(v) + ToF32(delta.at(r, i))));
            REQUIRE(ToF32(sum.at(r, i)) == static_cast<float>(v));
          }
          s[static_cast<size_t>(i)] = v;
          squares += v * v;
        }
        const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(width) + 1e-6);
        for (int64_t i = 0; i < width; ++i) {
          const double want = ToF32(weight[i]) * s[static_cast<size_t>(i)] * inverse;
          REQUIRE(std::fabs(ToF32(y.at(r, i)) - want) <= Bf16Tolerance(want, kF32Slack));
        }
        REQUIRE(y.at(r, width).bits == 0);
        REQUIRE(y.at(r, width + 1).bits == 0);
      }
      CHECK(y.GapsUntouched(width + 2));
      if (residual) CHECK(sum.GapsUntouched(width));
    }
  }
}

TEST_CASE("RMSNorm misses every barrier, works in place, and gives the same bits in every order") {
  const RunKernel run = [](Stream& stream) {
    Random random(5);
    Rows<Bf16> x(2, 1024, 0, 0);
    Guarded<Bf16> weight(1024);
    random.Fill(x.array);
    random.Fill(weight);
    cuda::RmsNormArgs args;
    args.x = x.data();
    args.y = x.data();
    args.x_stride = args.y_stride = 1024;
    args.weight = weight.data();
    args.rows = 2;
    args.width = 1024;
    CHECK(cuda::RmsNorm(args, stream.ref()).ok());
    return Bytes(x);
  };
  SameUnderAllSchedules(run);
  EveryBarrierIsMissed(run);
}

TEST_CASE("RMSNorm refuses what no kernel covers") {
  cuda::RmsNormArgs args;
  args.rows = 1;
  args.width = 0;
  CHECK(cuda::RmsNorm(args, {}).code == cuda::Result::Code::kInvalid);
  args.width = 9000;
  args.x_stride = args.y_stride = 9000;
  CHECK(cuda::RmsNorm(args, {}).code == cuda::Result::Code::kUnsupported);
  args.width = 8;
  alignas(16) Bf16 x[8];
  args.x = args.delta = x;
  CHECK(cuda::RmsNorm(args, {}).code == cuda::Result::Code::kInvalid);
}

TEST_CASE("SwiGLU and GELU agree with f64") {
  Random random(21);
  int64_t test = 0;
  for (int64_t width : WithRandom({1, 13, 64, 85, 264, 2056}, 2100, random)) {
    const int64_t rows = random.Int(1, 4);
    const bool aligned = width % 8 == 0;
    const int64_t gap = aligned ? 8 : 1, shift = aligned ? 0 : 3;
    Rows<Bf16> both(rows, 2 * width, gap, shift), y(rows, width, gap, shift);
    Rows<Bf16> gelu(rows, width, gap, shift);
    random.Fill(both.array, 6.0f);
    Stream& stream = Rotating(test++);
    REQUIRE(cuda::SwiGlu(
                {both.data(), both.data() + width, both.stride, y.data(), y.stride, rows, width},
                stream.ref())
                .ok());
    REQUIRE(
        cuda::Gelu({both.data(), both.stride, gelu.data(), gelu.stride, rows, width}, stream.ref())
            .ok());
    REQUIRE(stream.error() == "");
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < width; ++i) {
        const double g = ToF32(both.at(r, i)), u = ToF32(both.at(r, width + i));
        const double silu = g / (1.0 + std::exp(-g)) * u;
        REQUIRE(std::fabs(ToF32(y.at(r, i)) - silu) <= Bf16Tolerance(silu, kF32Slack));
        const double want = 0.5 * g * (1.0 + std::erf(g * std::sqrt(0.5)));
        REQUIRE(std::fabs(ToF32(gelu.at(r, i)) - want) <= Bf16Tolerance(want, kF32Slack));
      }
    }
    CHECK(y.GapsUntouched(width));
    CHECK(gelu.GapsUntouched(width));
  }
}

TEST_CASE("angles and rotary agree with f64 and leave the other columns alone") {
  Random random(31);
  int64_t test = 0;
  struct Shape {
    int64_t heads, dim, head_stride;
  };
  std::vector<Shape> shapes = {{1, 2, 8},   {3, 22, 24},   {5, 80, 80},
                               {7, 12, 13}, {2, 128, 128}, {4, 32, 40}};
  for (int i = 0; i < 6; ++i) {
    const int64_t dim = 2 * random.Int(1, 64);
    shapes.push_back({random.Int(1, 8), dim, dim + random.Int(0, 9)});
  }
  for (const Shape& shape : shapes) {
    const int64_t rows = random.Int(1, 5), pairs = shape.dim / 2;
    DeviceVector<int32_t> positions(static_cast<size_t>(3 * rows)),
        axis(static_cast<size_t>(pairs));
    DeviceVector<float> inverse(static_cast<size_t>(pairs));
    for (int32_t& p : positions) p = static_cast<int32_t>(random.Int(0, 40000));
    for (size_t i = 0; i < axis.size(); ++i) {
      axis[i] = static_cast<int32_t>(random.Int(0, 2));
      inverse[i] = static_cast<float>(std::pow(1e6, -static_cast<double>(i) / pairs));
    }
    Guarded<float> cosine(rows * pairs), sine(rows * pairs);
    Rows<Bf16> x(rows, shape.heads * shape.head_stride, 8, shape.dim % 16 == 0 ? 0 : 1);
    random.Fill(x.array, 2.0f);
    const std::vector<Bf16> before = x.array.Copy();
    Stream& stream = Rotating(test++);
    REQUIRE(cuda::Angles({positions.data(), rows, axis.data(), inverse.data(), cosine.data(),
                          sine.data(), rows, pairs},
                         stream.ref())
                .ok());
    REQUIRE(cuda::Rotary({x.data(), x.stride, shape.heads, shape.head_stride, shape.dim,
                          cosine.data(), sine.data(), rows},
                         stream.ref())
                .ok());
    REQUIRE(stream.error() == "");
    std::vector<bool> turned(before.size());
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < pairs; ++i) {
        const auto p = static_cast<size_t>(i);
        const float angle =
            static_cast<float>(positions[static_cast<size_t>(axis[p] * rows + r)]) * inverse[p];
        const double c = std::cos(double{angle}), s = std::sin(double{angle});
        REQUIRE(std::fabs(cosine[r * pairs + i] - c) <= kF32Slack);
        REQUIRE(std::fabs(sine[r * pairs + i] - s) <= kF32Slack);
        for (int64_t h = 0; h < shape.heads; ++h) {
          const int64_t low = x.shift + r * x.stride + h * shape.head_stride + i;
          const double a = ToF32(before[static_cast<size_t>(low)]);
          const double b = ToF32(before[static_cast<size_t>(low + pairs)]);
          REQUIRE(std::fabs(ToF32(x.array[low]) - (a * c - b * s)) <=
                  Bf16Tolerance(a * c - b * s, kF32Slack));
          REQUIRE(std::fabs(ToF32(x.array[low + pairs]) - (b * c + a * s)) <=
                  Bf16Tolerance(b * c + a * s, kF32Slack));
          turned[static_cast<size_t>(low)] = turned[static_cast<size_t>(low + pairs)] = true;
        }
      }
    }
    for (size_t i = 0; i < before.size(); ++i) {
      if (!turned[i]) REQUIRE(x.array[static_cast<int64_t>(i)].bits == before[i].bits);
    }
  }
}

TEST_CASE("keys and values reach their slots and nothing else is written") {
  Random random(41);
  int64_t test = 0;
  for (const bool aligned : {true, false}) {
    for (int64_t block_tokens : WithRandom({1, 5, 16}, 64, random)) {
      const int64_t head = aligned ? 8 * random.Int(1, 16) : random.Int(1, 40);
      const int64_t heads = random.Int(1, 5), blocks = 7, rows = 9;
      Rows<Bf16> qkv(rows, 4 * heads * head, aligned ? 8 : 1, 0);
      random.Fill(qkv.array);
      DeviceVector<int64_t> slots(static_cast<size_t>(blocks * block_tokens));
      std::iota(slots.begin(), slots.end(), 0);
      for (size_t i = slots.size(); i > 1; --i) {
        std::swap(slots[i - 1],
                  slots[static_cast<size_t>(random.Int(0, static_cast<int64_t>(i) - 1))]);
      }
      slots.resize(static_cast<size_t>(rows), -1);  // few blocks of one token: rows without a place
      slots[4] = -1;
      Guarded<Bf16> cache(blocks * heads * 2 * block_tokens * head);
      cuda::KvWriteArgs args;
      args.k = qkv.data() + 2 * heads * head;
      args.v = args.k + heads * head;
      args.stride = qkv.stride;
      args.head_stride = head;
      args.kv_heads = heads;
      args.slots = slots.data();
      args.cache = cache.data();
      args.block_tokens = block_tokens;
      args.rows = rows;
      Stream& stream = Rotating(test++);
      REQUIRE(cuda::KvWrite(args, stream.ref()).ok());
      REQUIRE(stream.error() == "");
      std::vector<Bf16> want(static_cast<size_t>(cache.size()), Bf16{0xffff});
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t slot = slots[static_cast<size_t>(r)];
        if (slot < 0) continue;
        for (int64_t h = 0; h < heads; ++h) {
          for (int64_t d = 0; d < head; ++d) {
            const int64_t block = ((slot / block_tokens * heads + h) * 2) * block_tokens * head;
            const int64_t at = block + slot % block_tokens * head + d;
            want[static_cast<size_t>(at)] = args.k[r * qkv.stride + h * head + d];
            want[static_cast<size_t>(at + block_tokens * head)] =
                args.v[r * qkv.stride + h * head + d];
          }
        }
      }
      CHECK(std::memcmp(want.data(), cache.data(), want.size() * sizeof(Bf16)) == 0);
    }
  }
}

TEST_CASE("embedding rows come from the table or from their item") {
  Random random(51);
  for (int64_t width : WithRandom({8, 20, 1032}, 1100, random)) {
    const int64_t rows = 12, vocabulary = 9;
    Rows<Bf16> table(vocabulary, width, 0, 0), y(rows, width, width % 8, 0);
    Rows<Bf16> items[2] = {{5, width, 0, 0}, {3, width, 0, 0}};
    random.Fill(table.array);
    random.Fill(items[0].array);
    random.Fill(items[1].array);
    // Rows 3 and 4 are rows 2 and 3 of item 0, rows 8 to 10 all of item 1.
    const DeviceVector<cuda::ItemRows> parts = {{items[0].data(), 1}, {items[1].data(), 8}};
    const DeviceVector<int32_t> sources = {0, 8, 3, -1, -1, 7, 0, 1, -2, -2, -2, 4};
    Stream& stream = Rotating(width);
    REQUIRE(cuda::Embedding({table.data(), width, sources.data(), parts.data(), width, y.data(),
                             y.stride, rows, width},
                            stream.ref())
                .ok());
    REQUIRE(stream.error() == "");
    for (int64_t r = 0; r < rows; ++r) {
      const int32_t source = sources[static_cast<size_t>(r)];
      for (int64_t i = 0; i < width; ++i) {
        const Bf16 want = source >= 0 ? table.at(source, i)
                                      : items[-1 - source].at(r - (source == -1 ? 1 : 8), i);
        REQUIRE(y.at(r, i).bits == want.bits);
      }
    }
    CHECK(y.GapsUntouched(width));
  }
}

TEST_CASE("conversions round once, permute and pad") {
  Random random(61);
  for (int64_t width : WithRandom({1, 11, 48, 1176}, 1200, random)) {
    const int64_t rows = 4, padded = width + (width % 8 == 0 ? 8 : 5);
    const int64_t gap = width % 8 == 0 ? 8 : 0;
    Rows<float> x(rows, width, gap, 0);
    for (int64_t i = 0; i < x.array.size(); ++i) x.array[i] = random.Float(100.0f);
    Rows<Bf16> y(rows, padded, gap, 0);
    Rows<float> back(rows, width, gap, 0);
    const DeviceVector<int32_t> map = {2, 0, 3, 1};
    Stream& stream = Rotating(width);
    REQUIRE(
        cuda::RowsToBf16({x.data(), x.stride, map.data(), y.data(), y.stride, rows, width, padded},
                         stream.ref())
            .ok());
    REQUIRE(cuda::RowsToF32({y.data(), y.stride, map.data(), back.data(), back.stride, rows, width},
                            stream.ref())
                .ok());
    REQUIRE(stream.error() == "");
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < width; ++i) {
        REQUIRE(y.at(r, i).bits == ToBf16Bits(x.at(map[static_cast<size_t>(r)], i)).bits);
        REQUIRE(back.at(r, i) == ToF32(ToBf16Bits(x.at(r, i))));
      }
      for (int64_t i = width; i < padded; ++i) REQUIRE(y.at(r, i).bits == 0);
    }
    CHECK(y.GapsUntouched(padded));
    CHECK(back.GapsUntouched(width));
  }
}

TEST_CASE("patchify agrees with the processor's formula in f64") {
  Random random(71);
  for (int64_t drawn : WithRandom({2, 4, 14}, 16, random)) {
    const auto size = static_cast<int32_t>(drawn);
    const int32_t frames = size == 4 ? 1 : 2;
    const int64_t height = 3, width = 4, row_bytes = width * size * 3 + 5;
    const int64_t features = int64_t{3} * frames * size * size, padded = features + 7;
    Guarded<uint8_t> pixels(height * size * row_bytes);
    for (int64_t i = 0; i < pixels.size(); ++i)
      pixels[i] = static_cast<uint8_t>(random.Int(0, 255));
    const DeviceVector<int32_t> places = {0, 0, 2, 3, 1, 2, 0, 3, 2, 0};
    const double mean[3] = {0.48145466, 0.4578275, 0.40821073};
    const double std[3] = {0.26862954, 0.26130258, 0.27577711};
    Rows<Bf16> y(5, padded, 3, 0);
    cuda::PatchifyArgs args;
    args.pixels = pixels.data();
    args.row_bytes = row_bytes;
    args.places = places.data();
    args.patch_size = size;
    args.frames = frames;
    for (int c = 0; c < 3; ++c) {
      args.scale[c] = static_cast<float>(1.0 / 255.0 / std[c]);
      args.shift[c] = static_cast<float>(-mean[c] / std[c]);
    }
    args.y = y.data();
    args.y_stride = y.stride;
    args.padded_width = padded;
    args.rows = 5;
    Stream& stream = Rotating(size);
    REQUIRE(cuda::Patchify(args, stream.ref()).ok());
    REQUIRE(stream.error() == "");
    for (int64_t r = 0; r < 5; ++r) {
      int64_t column = 0;
      for (int c = 0; c < 3; ++c) {
        for (int32_t t = 0; t < frames; ++t) {
          for (int32_t i = 0; i < size * size; ++i) {
            const auto p = static_cast<size_t>(2 * r);
            const int64_t py = int64_t{places[p]} * size + i / size;
            const int64_t px = int64_t{places[p + 1]} * size + i % size;
            const double sample = pixels[py * row_bytes + px * 3 + c];
            const double want = (sample / 255.0 - mean[c]) / std[c];
            REQUIRE(std::fabs(ToF32(y.at(r, column++)) - want) <= Bf16Tolerance(want, kF32Slack));
          }
        }
      }
      for (; column < padded; ++column) REQUIRE(y.at(r, column).bits == 0);
    }
    CHECK(y.GapsUntouched(padded));
  }
}

TEST_CASE("argmax takes the first of the largest, passes over NaN, and knows its probability") {
  constexpr int64_t kRows = 6;
  Random random(81);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (int64_t count : WithRandom({1, 31, 512, 513, 5000}, 3000, random)) {
    Rows<float> logits(kRows, count, 3, 1);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t i = 0; i < count; ++i) logits.at(r, i) = random.Float(8.0f);
    }
    // Equals, the later of which a thread before the other's may hold.
    logits.at(1, count / 2) = logits.at(1, count - 1) = 9.0f;
    // What a caller may trust no token of.
    logits.at(2, 0) = kNan;
    logits.at(3, count / 3) = kInf;
    for (int64_t i = 0; i < count; ++i) logits.at(4, i) = -kInf;
    for (int64_t i = 0; i < count; ++i) logits.at(5, i) = i == count - 1 ? -2.0f : -kInf;
    Guarded<cuda::Likeliest> out(kRows);
    Stream& stream = Rotating(count);
    REQUIRE(
        cuda::ArgMax({logits.data(), logits.stride, out.data(), kRows, count}, stream.ref()).ok());
    REQUIRE(stream.error() == "");
    for (int64_t r = 0; r < kRows; ++r) {
      int64_t best = -1;
      for (int64_t i = 0; i < count; ++i) {
        const float v = logits.at(r, i);
        if (!std::isnan(v) && (best < 0 || v > logits.at(r, best))) best = i;
      }
      INFO("count " << count << " row " << r);
      REQUIRE(out[r].index == best);
      REQUIRE(std::isnan(out[r].log_probability) == (r >= 2 && r <= 4));
      if (std::isnan(out[r].log_probability)) continue;
      double sum = 0.0;
      for (int64_t i = 0; i < count; ++i) {
        sum += std::exp(double{logits.at(r, i)} - logits.at(r, best));
      }
      REQUIRE(std::fabs(out[r].log_probability + std::log(sum)) <= 1e-5);
    }
  }
  const RunKernel run = [&](Stream& stream) {
    Random values(3);
    Guarded<float> logits(1100);
    for (int64_t i = 0; i < 1100; ++i) logits[i] = values.Float(4.0f);
    Guarded<cuda::Likeliest> out(1);
    CHECK(cuda::ArgMax({logits.data(), 0, out.data(), 1, 1100}, stream.ref()).ok());
    std::vector<uint8_t> bytes;
    AppendBytes(out, &bytes);
    return bytes;
  };
  SameUnderAllSchedules(run);
  EveryBarrierIsMissed(run);
}

TEST_CASE("nothing is launched for no rows") {
  CHECK(cuda::SwiGlu({}, {}).ok());
  CHECK(cuda::Gelu({}, {}).ok());
  CHECK(cuda::Embedding({}, {}).ok());
  CHECK(cuda::RowsToBf16({}, {}).ok());
  CHECK(cuda::RowsToF32({}, {}).ok());
  CHECK(cuda::ArgMax({}, {}).ok());
  CHECK(cuda::Angles({}, {}).ok());
  cuda::RmsNormArgs norm;
  norm.width = 8;
  CHECK(cuda::RmsNorm(norm, {}).ok());
  cuda::RotaryArgs rotary;
  rotary.head_dim = 2;
  CHECK(cuda::Rotary(rotary, {}).ok());
  cuda::KvWriteArgs write;
  write.kv_heads = write.head_stride = write.block_tokens = 1;
  CHECK(cuda::KvWrite(write, {}).ok());
  cuda::PatchifyArgs patchify;
  patchify.patch_size = patchify.frames = 1;
  CHECK(cuda::Patchify(patchify, {}).ok());
}

TEST_CASE("the divider is exact at the borders of every quotient") {
  Random random(91);
  std::vector<int32_t> divisors = {1, 2, 3, 5, 7, 16, 17, 64, 1000, 65535, 65537, 2147483647};
  for (int i = 0; i < 200; ++i) divisors.push_back(static_cast<int32_t>(random.Int(1, 1 << 20)));
  for (int32_t d : divisors) {
    const cuda::Divider divider = cuda::MakeDivider(d);
    for (int i = 0; i < 200; ++i) {
      const int64_t multiple = random.Int(0, 2147483647 / d) * d;
      for (int64_t n : {multiple, multiple - 1, multiple + d - 1, int64_t{2147483647}}) {
        if (n < 0 || n > 2147483647) continue;
        REQUIRE(static_cast<int64_t>(static_cast<uint64_t>(n) * divider.multiplier >>
                                     divider.shift) == n / d);
      }
    }
  }
}

}  // namespace
}  // namespace rserve::testing
