// A checkpoint folder that is small enough for a test: real files, made-up weights.

#ifndef RSERVE_TESTS_ENGINE_TINY_MODEL_H_
#define RSERVE_TESTS_ENGINE_TINY_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

namespace rserve::testing {

// A folder for one program's files, removed with it.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Patches of 4 pixels, so a token is a square of 8; pictures keep their size (rounded to 8) from 64
// to 16384 pixels. 5 layers, so that stages can be uneven. The tokenizer is the one of
// models/digits: special tokens begin at 1266.
inline constexpr int32_t kTinyHidden = 32;
inline constexpr int32_t kTinyVocab = 1280;
inline constexpr int32_t kTinyLayers = 5;
inline constexpr int32_t kTinyFactor = 8;
inline constexpr int32_t kTinyContext = 4096;
inline constexpr int64_t kTinyRowBytes = kTinyHidden * 4;

// Writes config.json, preprocessor_config.json, tokenizer.json and model.safetensors. The same
// bytes every time. `source_dir`: the repository's root. False when a file cannot be written.
bool WriteTinyModel(const std::string& source_dir, const std::string& folder);

// The same, once for the whole program; empty when it cannot be written.
const std::string& TinyModelFolder();

// width x height RGB8 pixels, different for every seed.
std::vector<uint8_t> TestPixels(int32_t width, int32_t height, uint64_t seed);

// A picture as a PNG file.
std::vector<uint8_t> TestPng(int32_t width, int32_t height, uint64_t seed);

// The first bytes of a PNG that says it is of this size, and no pixels.
std::vector<uint8_t> PngHeader(uint32_t width, uint32_t height);

}  // namespace rserve::testing

#endif  // RSERVE_TESTS_ENGINE_TINY_MODEL_H_
