// Writes the small videos that the "video" target begins with:
//
//   rserve_fuzz_clips tests/fuzz/corpus
//
// The bytes depend on FFmpeg's version (those committed: libavformat 59 and libavcodec 59 of Debian
// 12), so no test compares them; any version's do for the target.

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "tests/media/clip_maker.h"

namespace rserve::testing {
namespace {

struct Clip {
  const char* name;
  const char* container;
  const char* codec;
  int ticks, ticks_in;
  std::vector<int64_t> times;
};

int Main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  // Lossless and lossy, frames in and out of order, with and without an index, 29.97 a second.
  const Clip clips[] = {
      {"clip.mp4", "mp4", "mpeg4", 100, 1, {0, 4, 8, 12, 16, 20}},
      {"clip.mkv", "matroska", "ffv1", 100, 1, {0, 10, 20, 30, 40, 50}},
      {"clip.webm", "webm", "libvpx", 25, 1, {0, 1, 2, 3, 4, 5}},
      {"clip.avi", "avi", "mpeg4", 25, 1, {0, 1, 2, 3, 4, 5}},
      {"clip.mov", "mov", "ffv1", 100, 1, {0, 10, 20, 30, 40, 50}},
      {"clip.ts", "mpegts", "mpeg4", 30000, 1001, {0, 1, 2, 3, 4, 5}},
  };
  for (const Clip& clip : clips) {
    ClipOptions options;
    options.container = clip.container;
    options.codec = clip.codec;
    options.width = 24;
    options.height = 16;
    options.ticks = clip.ticks;
    options.ticks_in = clip.ticks_in;
    options.times = clip.times;
    const std::vector<uint8_t> bytes = MakeClip(
        options, ClipFrames(options.width, options.height, static_cast<int>(clip.times.size())));
    const std::string path = std::string(argv[1]) + "/" + clip.name;
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    if (bytes.empty() || !file.flush()) {
      std::fprintf(stderr, "cannot make %s\n", path.c_str());
      return 1;
    }
    std::printf("%s: %zu bytes\n", path.c_str(), bytes.size());
  }
  return 0;
}

}  // namespace
}  // namespace rserve::testing

int main(int argc, char** argv) { return rserve::testing::Main(argc, argv); }
