#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "src/media/image_processor.h"

namespace rserve::media {
namespace {

// Weights are integers in units of 2^-22: with 8-bit pixels and weights that sum to one, and the
// overshoot of the cubic, 32-bit sums cannot overflow.
constexpr int kWeightBits = 32 - 8 - 2;
constexpr int32_t kHalf = 1 << (kWeightBits - 1);
constexpr double kCubicSupport = 2.0;

// The source samples of one output sample: `count` neighbours from `first` on.
struct Taps {
  int32_t first = 0;
  int32_t count = 0;
  size_t weights = 0;  // index of the first weight in Filter::weights
};

struct Filter {
  std::vector<Taps> taps;  // one an output sample
  std::vector<int32_t> weights;
};

// Keys' cubic with a = -1/2 (Catmull-Rom). The order of the operations is part of the contract.
double Cubic(double x) {
  constexpr double a = -0.5;
  x = std::fabs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
  return 0.0;
}

// All arithmetic in double, as in the reference, except the source extent, which passes a float
// there. Shrinking widens the kernel, so that every source sample counts (antialiasing).
Filter MakeFilter(int32_t in_size, int32_t out_size) {
  const double scale = static_cast<double>(static_cast<float>(in_size)) / out_size;
  const double stretch = std::max(scale, 1.0);
  const double support = kCubicSupport * stretch;
  const double step = 1.0 / stretch;

  Filter filter;
  filter.taps.resize(static_cast<size_t>(out_size));
  std::vector<double> exact;
  for (int32_t i = 0; i < out_size; ++i) {
    const double center = (i + 0.5) * scale;
    const int32_t begin = static_cast<int32_t>(std::max(center - support + 0.5, 0.0));
    const int32_t end =
        static_cast<int32_t>(std::min(center + support + 0.5, static_cast<double>(in_size)));
    Taps& taps = filter.taps[static_cast<size_t>(i)];
    taps = {begin, end - begin, filter.weights.size()};

    exact.clear();
    double sum = 0.0;
    for (int32_t k = 0; k < taps.count; ++k) {
      exact.push_back(Cubic((k + begin - center + 0.5) * step));
      sum += exact.back();
    }
    for (const double weight : exact) {
      const double scaled = (sum != 0.0 ? weight / sum : weight) * (1 << kWeightBits);
      filter.weights.push_back(static_cast<int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5));
    }
  }
  return filter;
}

uint8_t ToByte(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255)); }

RgbImage MakeImage(int32_t width, int32_t height) {
  RgbImage image;
  image.width = width;
  image.height = height;
  image.data.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  return image;
}

RgbView ViewOf(const RgbImage& image) {
  return {image.data.data(), image.width, image.height, int64_t{image.width} * 3};
}

RgbImage ResizeRows(const RgbView& in, int32_t width) {
  const Filter filter = MakeFilter(in.width, width);
  RgbImage image = MakeImage(width, in.height);
  uint8_t* out = image.data.data();
  for (int32_t y = 0; y < in.height; ++y) {
    const uint8_t* row = in.data + y * in.row_stride_bytes;
    for (const Taps& taps : filter.taps) {
      const uint8_t* pixel = row + int64_t{taps.first} * 3;
      const int32_t* weights = filter.weights.data() + taps.weights;
      int32_t r = kHalf;
      int32_t g = kHalf;
      int32_t b = kHalf;
      for (int32_t k = 0; k < taps.count; ++k, pixel += 3) {
        r += pixel[0] * weights[k];
        g += pixel[1] * weights[k];
        b += pixel[2] * weights[k];
      }
      *out++ = ToByte(r);
      *out++ = ToByte(g);
      *out++ = ToByte(b);
    }
  }
  return image;
}

// An output row is a weighted sum of input rows; the inner loops run along the row.
RgbImage ResizeColumns(const RgbView& in, int32_t height) {
  const Filter filter = MakeFilter(in.height, height);
  RgbImage image = MakeImage(in.width, height);
  const size_t samples = static_cast<size_t>(in.width) * 3;
  std::vector<int32_t> sums(samples);
  uint8_t* out = image.data.data();
  for (const Taps& taps : filter.taps) {
    std::fill(sums.begin(), sums.end(), kHalf);
    for (int32_t k = 0; k < taps.count; ++k) {
      const uint8_t* row = in.data + (taps.first + k) * in.row_stride_bytes;
      const int32_t weight = filter.weights[taps.weights + static_cast<size_t>(k)];
      for (size_t i = 0; i < samples; ++i) sums[i] += row[i] * weight;
    }
    for (size_t i = 0; i < samples; ++i) out[i] = ToByte(sums[i]);
    out += samples;
  }
  return image;
}

// Which pass goes first decides the rounding between them. Pillow goes horizontally first, except
// (from 13.0 on) where the height shrinks by more than twice the pixels that the width does.
bool VerticalPassFirst(const RgbView& source, int32_t width, int32_t height) {
  return height < source.height &&
         int64_t{source.height} - height > 2 * (int64_t{source.width} - width);
}

}  // namespace

RgbImage ResizeBicubic(const RgbView& source, int32_t width, int32_t height) {
  if (source.data == nullptr || source.width < 1 || source.height < 1 || width < 1 || height < 1 ||
      source.row_stride_bytes < int64_t{source.width} * 3) {
    return {};
  }
  // A side that keeps its length is not filtered.
  const bool horizontal = width != source.width;
  const bool vertical = height != source.height;
  if (horizontal && vertical) {
    if (VerticalPassFirst(source, width, height)) {
      return ResizeRows(ViewOf(ResizeColumns(source, height)), width);
    }
    return ResizeColumns(ViewOf(ResizeRows(source, width)), height);
  }
  if (horizontal) return ResizeRows(source, width);
  if (vertical) return ResizeColumns(source, height);
  RgbImage copy = MakeImage(width, height);
  const size_t row_bytes = static_cast<size_t>(width) * 3;
  for (int32_t y = 0; y < height; ++y) {
    std::memcpy(copy.data.data() + static_cast<size_t>(y) * row_bytes,
                source.data + y * source.row_stride_bytes, row_bytes);
  }
  return copy;
}

}  // namespace rserve::media
