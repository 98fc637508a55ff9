#include "tests/engine/tiny_model.h"

#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "src/model/weights/safetensors_writer.h"

namespace rserve::testing {

namespace {

constexpr int64_t kVision = 24, kVisionInter = 40, kVisionDepth = 2;
constexpr int64_t kInter = 48, kHeads = 4, kKvHeads = 2, kHeadDim = 8;

constexpr char kConfig[] = R"({
  "architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl",
  "image_token_id": 1278, "video_token_id": 1279,
  "vision_start_token_id": 1275, "vision_end_token_id": 1276, "eos_token_id": 1268,
  "vocab_size": 1280, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 5,
  "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096,
  "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": true,
  "hidden_act": "silu", "rope_scaling": {"type": "mrope", "mrope_section": [2, 1, 1]},
  "torch_dtype": "bfloat16",
  "vision_config": {
    "depth": 2, "hidden_size": 24, "intermediate_size": 40, "num_heads": 2, "in_channels": 3,
    "patch_size": 4, "temporal_patch_size": 2, "spatial_merge_size": 2, "window_size": 16,
    "fullatt_block_indexes": [1], "out_hidden_size": 32, "hidden_act": "silu",
    "tokens_per_second": 2}
})";

constexpr char kProcessor[] = R"({
  "do_resize": true, "do_rescale": true, "do_normalize": true, "rescale_factor": 0.00392156862745098,
  "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
  "min_pixels": 64, "max_pixels": 16384, "patch_size": 4, "temporal_patch_size": 2, "merge_size": 2
})";

uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

struct Tensors {
  std::vector<model::TensorSpec> specs;

  void Vector(const std::string& name, int64_t size) {
    specs.push_back({name, model::DType::kBF16, {size}});
  }
  void Matrix(const std::string& name, int64_t rows, int64_t columns, bool bias) {
    specs.push_back({absl::StrCat(name, ".weight"), model::DType::kBF16, {rows, columns}});
    if (bias) Vector(absl::StrCat(name, ".bias"), rows);
  }
};

void VisionTensors(Tensors* t) {
  t->specs.push_back(
      {"visual.patch_embed.proj.weight", model::DType::kBF16, {kVision, 3, 2, 4, 4}});
  for (int64_t i = 0; i < kVisionDepth; ++i) {
    const std::string block = absl::StrCat("visual.blocks.", i, ".");
    t->Vector(block + "norm1.weight", kVision);
    t->Matrix(block + "attn.qkv", 3 * kVision, kVision, true);
    t->Matrix(block + "attn.proj", kVision, kVision, true);
    t->Vector(block + "norm2.weight", kVision);
    t->Matrix(block + "mlp.gate_proj", kVisionInter, kVision, true);
    t->Matrix(block + "mlp.up_proj", kVisionInter, kVision, true);
    t->Matrix(block + "mlp.down_proj", kVision, kVisionInter, true);
  }
  t->Vector("visual.merger.ln_q.weight", kVision);
  t->Matrix("visual.merger.mlp.0", 4 * kVision, 4 * kVision, true);
  t->Matrix("visual.merger.mlp.2", kTinyHidden, 4 * kVision, true);
}

void TextTensors(Tensors* t) {
  t->Matrix("model.embed_tokens", kTinyVocab, kTinyHidden, false);
  for (int64_t i = 0; i < kTinyLayers; ++i) {
    const std::string layer = absl::StrCat("model.layers.", i, ".");
    t->Vector(layer + "input_layernorm.weight", kTinyHidden);
    t->Matrix(layer + "self_attn.q_proj", kHeads * kHeadDim, kTinyHidden, true);
    t->Matrix(layer + "self_attn.k_proj", kKvHeads * kHeadDim, kTinyHidden, true);
    t->Matrix(layer + "self_attn.v_proj", kKvHeads * kHeadDim, kTinyHidden, true);
    t->Matrix(layer + "self_attn.o_proj", kTinyHidden, kHeads * kHeadDim, false);
    t->Vector(layer + "post_attention_layernorm.weight", kTinyHidden);
    t->Matrix(layer + "mlp.gate_proj", kInter, kTinyHidden, false);
    t->Matrix(layer + "mlp.up_proj", kInter, kTinyHidden, false);
    t->Matrix(layer + "mlp.down_proj", kTinyHidden, kInter, false);
  }
  t->Vector("model.norm.weight", kTinyHidden);
}

// Norms around 1, biases around 0, matrices such that activations keep their size.
std::vector<float> Values(const model::TensorSpec& spec, uint64_t seed) {
  int64_t count = 1;
  for (const int64_t size : spec.shape) count *= size;
  const bool norm =
      spec.name.find("norm") != std::string::npos || spec.name.find("ln_q") != std::string::npos;
  const int64_t fan_in = count / spec.shape[0];
  const double scale = spec.shape.size() == 1 ? 0.3 : 1.7 / std::sqrt(static_cast<double>(fan_in));
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = Mix(seed * 0x10001 + static_cast<uint64_t>(i));
    const double unit = static_cast<double>(bits >> 11) * 0x1.0p-52 - 1;  // [-1, 1)
    values[static_cast<size_t>(i)] = static_cast<float>((norm ? 1 : 0) + scale * unit);
  }
  return values;
}

bool WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file.good();
}

bool WriteWeights(const std::string& path) {
  Tensors tensors;
  VisionTensors(&tensors);
  TextTensors(&tensors);
  auto writer = model::SafetensorsWriter::Create(path, tensors.specs);
  if (!writer.ok()) return false;
  for (size_t i = 0; i < tensors.specs.size(); ++i) {
    if (!(*writer)->Append(Values(tensors.specs[i], Mix(i))).ok()) return false;
  }
  return (*writer)->Finish().ok();
}

uint32_t Crc(const std::vector<uint8_t>& bytes, size_t from) {
  uint32_t crc = 0xffffffffu;
  for (size_t i = from; i < bytes.size(); ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0);
  }
  return ~crc;
}

void AppendBigEndian(uint32_t value, std::vector<uint8_t>* out) {
  for (int shift = 24; shift >= 0; shift -= 8) out->push_back(static_cast<uint8_t>(value >> shift));
}

void AppendChunk(const char* type, const std::vector<uint8_t>& data, std::vector<uint8_t>* out) {
  AppendBigEndian(static_cast<uint32_t>(data.size()), out);
  const size_t begin = out->size();
  out->insert(out->end(), type, type + 4);
  out->insert(out->end(), data.begin(), data.end());
  AppendBigEndian(Crc(*out, begin), out);
}

// A zlib stream of stored blocks.
std::vector<uint8_t> Stored(const std::vector<uint8_t>& raw) {
  std::vector<uint8_t> out = {0x78, 0x01};
  uint32_t a = 1, b = 0;
  for (const uint8_t byte : raw) {
    a = (a + byte) % 65521;
    b = (b + a) % 65521;
  }
  for (size_t begin = 0; begin < raw.size(); begin += 65535) {
    const size_t size = std::min<size_t>(65535, raw.size() - begin);
    out.push_back(begin + size == raw.size() ? 1 : 0);
    for (const size_t word : {size, ~size}) {
      out.push_back(static_cast<uint8_t>(word));
      out.push_back(static_cast<uint8_t>(word >> 8));
    }
    out.insert(out.end(), raw.begin() + static_cast<ptrdiff_t>(begin),
               raw.begin() + static_cast<ptrdiff_t>(begin + size));
  }
  AppendBigEndian((b << 16) | a, &out);
  return out;
}

}  // namespace

TempFolder::TempFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "rserve_engine_XXXXXX").string();
  if (mkdtemp(name.data()) != nullptr) path_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

bool WriteTinyModel(const std::string& source_dir, const std::string& folder) {
  std::error_code error;
  std::filesystem::copy_file(source_dir + "/models/digits/tokenizer.json",
                             folder + "/tokenizer.json",
                             std::filesystem::copy_options::overwrite_existing, error);
  return !error && WriteFile(folder + "/config.json", kConfig) &&
         WriteFile(folder + "/preprocessor_config.json", kProcessor) &&
         WriteWeights(folder + "/model.safetensors");
}

const std::string& TinyModelFolder() {
  static const TempFolder folder;
  static const std::string path =
      WriteTinyModel(RSERVE_SOURCE_DIR, folder.path()) ? folder.path() : std::string();
  return path;
}

std::vector<uint8_t> TestPixels(int32_t width, int32_t height, uint64_t seed) {
  std::vector<uint8_t> pixels(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  for (size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<uint8_t>(Mix(seed * 1000003 + i / 7) >> 20);
  }
  return pixels;
}

std::vector<uint8_t> PngHeader(uint32_t width, uint32_t height) {
  std::vector<uint8_t> png = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  std::vector<uint8_t> header;
  AppendBigEndian(width, &header);
  AppendBigEndian(height, &header);
  header.insert(header.end(), {8, 2, 0, 0, 0});
  AppendChunk("IHDR", header, &png);
  return png;
}

std::vector<uint8_t> TestPng(int32_t width, int32_t height, uint64_t seed) {
  const std::vector<uint8_t> pixels = TestPixels(width, height, seed);
  const size_t row = static_cast<size_t>(width) * 3;
  std::vector<uint8_t> raw;
  for (size_t y = 0; y < static_cast<size_t>(height); ++y) {
    raw.push_back(0);  // no filter
    raw.insert(raw.end(), pixels.begin() + static_cast<ptrdiff_t>(y * row),
               pixels.begin() + static_cast<ptrdiff_t>((y + 1) * row));
  }
  std::vector<uint8_t> png = PngHeader(static_cast<uint32_t>(width), static_cast<uint32_t>(height));
  AppendChunk("IDAT", Stored(raw), &png);
  AppendChunk("IEND", {}, &png);
  return png;
}

}  // namespace rserve::testing
