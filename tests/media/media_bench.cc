// Prints what planning and decoding cost, on pictures made here. Not a test: nothing is checked.
//
//   rserve_media_bench

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>  // jpeglib.h needs FILE and size_t
#include <cstdlib>
#include <vector>

#include <jpeglib.h>

#include "src/media/image.h"
#include "src/media/image_processor.h"
#include "src/model/spec/image_plan.h"
#include "src/runtime/model/sha256.h"

namespace rserve::media {
namespace {

// The middle of `rounds` times, in nanoseconds.
template <typename Work>
double MedianNs(int rounds, Work work) {
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    times.push_back(
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<size_t>(rounds / 2)];
}

// A photograph's weight: waves and noise, quality 90, with 40 KiB of metadata before the frame.
std::vector<uint8_t> MakeJpeg(int width, int height) {
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &out, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 90, TRUE);
  jpeg_start_compress(&info, TRUE);
  const std::vector<uint8_t> metadata(40 * 1024, 0x55);
  jpeg_write_marker(&info, JPEG_APP0 + 2, metadata.data(), metadata.size());
  std::vector<uint8_t> row(static_cast<size_t>(width) * 3);
  uint32_t state = 1;
  for (int y = 0; y < height; ++y) {
    for (size_t i = 0; i < row.size(); ++i) {
      state = state * 1664525u + 1013904223u;
      row[i] = static_cast<uint8_t>(((i / 7 + static_cast<size_t>(y)) & 127) + (state >> 28));
    }
    JSAMPROW rows = row.data();
    jpeg_write_scanlines(&info, &rows, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::vector<uint8_t> file(out, out + size);
  std::free(out);
  return file;
}

int Main() {
  const std::vector<uint8_t> file = MakeJpeg(4000, 3000);
  const model::ImageProcessorConfig config;
  int64_t tokens = 0;
  const double plan_ns = MedianNs(1001, [&] {
    const auto header = ReadImageHeader(file, ImageLimits{});
    if (!header.ok()) return;
    const auto plan = model::PlanImage(header->height, header->width, config);
    if (plan.ok()) tokens += plan->tokens;
  });
  std::printf("JPEG of 4000 x 3000 pixels, %zu bytes\n", file.size());
  std::printf("  header and plan   %10.4f ms  (%lld tokens)\n", plan_ns * 1e-6,
              static_cast<long long>(tokens / 1001));
  // What a request pays at its submit with kv_reuse, and a media thread with the embedding cache.
  uint8_t kept = 0;  // so that nothing is left out
  const auto hash = [&file, &kept](runtime::Sha256Blocks blocks) {
    return MedianNs(21, [&] {
      runtime::Sha256 sha(blocks);
      sha.Add(file);
      kept ^= sha.Finish()[0];
    });
  };
  std::printf("  digest, portable  %10.2f ms\n", hash(runtime::PortableSha256Blocks) * 1e-6);
  if (runtime::HardwareSha256Blocks() != nullptr) {
    std::printf("  digest, SHA-NI    %10.2f ms\n", hash(runtime::HardwareSha256Blocks()) * 1e-6);
  }
  RgbImage image;
  const double decode_ns = MedianNs(5, [&] { image = *DecodeImage(file, ImageLimits{}); });
  std::printf("  decode            %10.2f ms\n", decode_ns * 1e-6);
  const auto plan = model::PlanImage(image.height, image.width, config);
  if (!plan.ok()) return 1;
  std::vector<float> rows(static_cast<size_t>(plan->grid.patches()) * 3 * 2 * 14 * 14);
  const RgbView view = {image.data.data(), image.width, image.height, int64_t{image.width} * 3};
  const double prepare_ns = MedianNs(5, [&] {
    if (!PreprocessImage(view, *plan, config, absl::MakeSpan(rows)).ok()) std::abort();
  });
  std::printf("  resize and patch  %10.2f ms\n", prepare_ns * 1e-6);
  std::printf("  (digests: %d)\n", int{kept});
  return 0;
}

}  // namespace
}  // namespace rserve::media

int main() { return rserve::media::Main(); }
