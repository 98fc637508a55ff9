// rserve make-model: a checkpoint with random weights, as large or small as asked.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "src/model/spec/tokenizer.h"
#include "src/model/weights/safetensors_writer.h"
#include "tools/rserve/command.h"
#include "tools/rserve/embedded_files.h"
#include "tools/rserve/files.h"
#include "tools/rserve/model_shapes.h"
#include "tools/rserve/progress.h"
#include "tools/rserve/text.h"
#include "tools/rserve/workload.h"

namespace rserve::tool {
namespace {

constexpr CommandText kText = {
    "make-model",
    "Writes a checkpoint folder with random weights at the shapes of a published Qwen2.5-VL "
    "model,\n"
    "for measurements: the same seed gives the same file. The answers mean nothing. The tokenizer\n"
    "is the small one of the digits model, its vocabulary padded to the model's.\n",
    "  rserve make-model /tmp/m3b --preset 3b\n"
    "  rserve make-model /tmp/thin --preset 7b --layers 2 --vision-layers 8\n"
    "  rserve make-model /tmp/tiny --preset 3b --layers 2 --hidden 64 --vision-layers 2 "
    "--vision-hidden 64 --vocab 1280\n"};

struct MakeFlags {
  std::string out;
  std::string preset = "3b";
  ShapeOverrides shape;
  std::string dtype = "bf16";
  int64_t seed = 1;
  std::string tokenizer;
  int64_t min_pixels = 56 * 56;
  int64_t max_pixels = 28 * 28 * 16384;
  int64_t max_positions = 32768;
  bool force = false;
};

void Declare(OptionTable* table, MakeFlags* flags) {
  constexpr int64_t kMax = 1 << 20;
  ShapeOverrides* shape = &flags->shape;
  table->Positional("OUT", &flags->out, "the folder to write");
  table->Section("Shape (0: the preset's, or in proportion to what was changed)");
  table->String("preset", "NAME", &flags->preset, "3b, 7b, 32b or 72b");
  table->Int("layers", "N", 0, 4096, &shape->layers, "layers of the language model");
  table->Int("hidden", "H", 0, kMax, &shape->hidden, "its width");
  table->Int("intermediate", "N", 0, kMax, &shape->intermediate, "width of its MLP");
  table->Int("heads", "N", 0, 4096, &shape->heads, "its attention heads");
  table->Int("kv-heads", "N", 0, 4096, &shape->kv_heads, "its key-value heads");
  table->Int("vocab", "N", 0, 1 << 24, &shape->vocab, "its vocabulary");
  table->Int("vision-layers", "M", 0, 4096, &shape->vision_layers, "blocks of the vision tower");
  table->Int("vision-hidden", "H", 0, kMax, &shape->vision_hidden, "its width");
  table->Int("vision-intermediate", "N", 0, kMax, &shape->vision_intermediate, "width of its MLP");
  table->Int("vision-heads", "N", 0, 4096, &shape->vision_heads, "its attention heads");
  table->Int("max-positions", "N", 1, 1 << 24, &flags->max_positions, "longest context");
  table->Section("Pictures");
  table->Int("min-pixels", "N", 1, int64_t{1} << 30, &flags->min_pixels,
             "smaller pictures are enlarged to this");
  table->Int("max-pixels", "N", 1, int64_t{1} << 30, &flags->max_pixels,
             "larger pictures are reduced to this");
  table->Section("File");
  table->String("dtype", "TYPE", &flags->dtype, "bf16, f16 or f32");
  table->Int("seed", "N", 0, INT64_MAX, &flags->seed, "of the weights");
  table->String("tokenizer", "DIR", &flags->tokenizer,
                "take tokenizer.json, tokenizer_config.json and chat_template.jinja from there");
  table->Switch("force", &flags->force, "write over a model that is already in OUT");
}

struct DTypeEntry {
  const char* option;
  model::DType dtype;
  const char* config;
};
constexpr DTypeEntry kDTypes[] = {{"bf16", model::DType::kBF16, "bfloat16"},
                                  {"f16", model::DType::kF16, "float16"},
                                  {"f32", model::DType::kF32, "float32"}};

absl::StatusOr<DTypeEntry> FindDType(const std::string& name) {
  for (const DTypeEntry& entry : kDTypes) {
    if (name == entry.option) return entry;
  }
  return absl::InvalidArgumentError(absl::StrCat("--dtype: '", name, "' is not bf16, f16 or f32"));
}

struct NamedFile {
  std::string name;
  std::string bytes;
};

absl::StatusOr<std::vector<NamedFile>> TokenizerFiles(const std::string& folder) {
  std::vector<NamedFile> files;
  for (const EmbeddedFile& file : EmbeddedFiles()) {
    const std::string name(file.name);
    if (folder.empty()) {
      files.push_back({name, std::string(file.bytes)});
      continue;
    }
    absl::StatusOr<std::string> text = ReadTextFile(absl::StrCat(folder, "/", name));
    if (text.ok()) {
      files.push_back({name, *std::move(text)});
    } else if (name == "tokenizer.json") {
      return text.status();
    }
  }
  return files;
}

// The ids of the control tokens come from the tokenizer, and its entries must fit the vocabulary.
absl::Status TakeTokenIds(const std::vector<NamedFile>& files, model::ModelConfig* config) {
  const absl::StatusOr<std::unique_ptr<model::Tokenizer>> tokenizer =
      model::Tokenizer::FromJson(files.front().bytes);
  if (!tokenizer.ok()) return tokenizer.status();
  const std::pair<const char*, int32_t*> ids[] = {
      {"<|image_pad|>", &config->image_token_id},
      {"<|video_pad|>", &config->video_token_id},
      {"<|vision_start|>", &config->vision_start_token_id},
      {"<|vision_end|>", &config->vision_end_token_id},
      {"<|im_end|>", &config->eos_token_id}};
  for (const auto& [name, id] : ids) {
    const std::optional<int32_t> found = (*tokenizer)->TokenId(name);
    if (!found.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("tokenizer.json: no token ", name));
    }
    *id = *found;
  }
  if ((*tokenizer)->vocab_size() > config->text.vocab_size) {
    return absl::InvalidArgumentError(absl::StrCat("--vocab: ", config->text.vocab_size,
                                                   " is below the tokenizer's ",
                                                   (*tokenizer)->vocab_size(), " entries"));
  }
  return absl::OkStatus();
}

std::string ProcessorJson(const MakeFlags& flags, const model::VisionConfig& vision) {
  const nlohmann::json json = {{"image_processor_type", "Qwen2VLImageProcessor"},
                               {"processor_class", "Qwen2_5_VLProcessor"},
                               {"do_resize", true},
                               {"do_rescale", true},
                               {"do_normalize", true},
                               {"do_convert_rgb", true},
                               {"image_mean", {0.48145466, 0.4578275, 0.40821073}},
                               {"image_std", {0.26862954, 0.26130258, 0.27577711}},
                               {"rescale_factor", 1.0 / 255},
                               {"resample", 3},
                               {"min_pixels", flags.min_pixels},
                               {"max_pixels", flags.max_pixels},
                               {"patch_size", vision.patch_size},
                               {"temporal_patch_size", vision.temporal_patch_size},
                               {"merge_size", vision.spatial_merge_size}};
  return json.dump(2) + "\n";
}

// The next values of a tensor: near-normal (the sum of four uniform numbers), or a constant.
void Draw(const TensorPlan& tensor, Random* random, absl::Span<float> values) {
  if (tensor.init != Init::kNormal) {
    for (float& value : values) value = tensor.init == Init::kOne ? 1.0f : 0.0f;
    return;
  }
  // Four 16-bit numbers: mean 131070, variance 4 * (2^32 - 1) / 12.
  constexpr float kMean = 131070.0f;
  const float scale = tensor.std / 37837.0f;
  for (float& value : values) {
    const uint64_t bits = random->Next();
    const auto sum = static_cast<float>((bits & 0xFFFF) + ((bits >> 16) & 0xFFFF) +
                                        ((bits >> 32) & 0xFFFF) + (bits >> 48));
    value = (sum - kMean) * scale;
  }
}

absl::Status WriteWeights(const std::string& path, const std::vector<TensorPlan>& tensors,
                          model::DType dtype, uint64_t seed) {
  std::vector<model::TensorSpec> specs;
  int64_t total = 0;
  for (const TensorPlan& tensor : tensors) {
    specs.push_back({tensor.name, dtype, tensor.shape});
    total += tensor.elements();
  }
  const auto writer = model::SafetensorsWriter::Create(path, specs);
  if (!writer.ok()) return writer.status();
  Progress progress("writing");
  std::vector<float> block(size_t{1} << 18);
  Random random(seed);
  int64_t written = 0;
  for (const TensorPlan& tensor : tensors) {
    for (int64_t left = tensor.elements(); left > 0;) {
      const int64_t count = std::min(left, static_cast<int64_t>(block.size()));
      const absl::Span<float> values = absl::MakeSpan(block).first(static_cast<size_t>(count));
      Draw(tensor, &random, values);
      if (absl::Status status = (*writer)->Append(values); !status.ok()) return status;
      left -= count;
      written += count;
      progress.Update(written, total);
    }
  }
  return (*writer)->Finish();
}

absl::Status MakeModel(const MakeFlags& flags, model::ModelConfig config, const DTypeEntry& dtype) {
  const absl::StatusOr<std::vector<NamedFile>> tokenizer = TokenizerFiles(flags.tokenizer);
  if (!tokenizer.ok()) return tokenizer.status();
  if (absl::Status status = TakeTokenIds(*tokenizer, &config); !status.ok()) return status;
  config.torch_dtype = dtype.config;
  config.text.max_position_embeddings = static_cast<int32_t>(flags.max_positions);
  // The parser knows every rule that the numbers must keep: a model that cannot be read is not
  // written.
  if (const auto parsed = model::ParseModelConfig(ConfigJson(config)); !parsed.ok()) {
    return parsed.status();
  }
  const std::string processor = ProcessorJson(flags, config.vision);
  if (const auto parsed = model::ParseImageProcessorConfig(processor); !parsed.ok()) {
    return parsed.status();
  }
  std::error_code error;
  std::filesystem::create_directories(flags.out, error);
  if (error) return absl::UnavailableError(absl::StrCat(flags.out, ": ", error.message()));
  const std::string weights = absl::StrCat(flags.out, "/model.safetensors");
  if (!flags.force && std::filesystem::exists(weights, error)) {
    return absl::AlreadyExistsError(
        absl::StrCat(weights, ": there is a model already (--force writes over it)"));
  }
  std::vector<NamedFile> files = *tokenizer;
  files.push_back({"config.json", ConfigJson(config)});
  files.push_back({"preprocessor_config.json", processor});
  for (const NamedFile& file : files) {
    const absl::Status status = WriteFile(absl::StrCat(flags.out, "/", file.name), file.bytes);
    if (!status.ok()) return status;
  }
  const std::vector<TensorPlan> tensors = CheckpointTensors(config);
  const absl::Status status =
      WriteWeights(weights, tensors, dtype.dtype, static_cast<uint64_t>(flags.seed));
  if (!status.ok()) return status;
  int64_t parameters = 0;
  for (const TensorPlan& tensor : tensors) parameters += tensor.elements();
  std::printf("%s: %s parameters, %s\n", flags.out.c_str(), FormatCount(parameters).c_str(),
              FormatBytes(parameters * model::DTypeSize(dtype.dtype)).c_str());
  return absl::OkStatus();
}

}  // namespace

int MakeModelCommand(Args args) {
  MakeFlags flags;
  OptionTable table;
  Declare(&table, &flags);
  if (const std::optional<int> code = ParseOrHelp(kText, &table, args)) return *code;
  const absl::StatusOr<DTypeEntry> dtype = FindDType(flags.dtype);
  if (!dtype.ok()) return FailUsage(dtype.status());
  absl::StatusOr<model::ModelConfig> config = PresetConfig(flags.preset);
  if (!config.ok()) return FailUsage(config.status());
  if (absl::Status status = ApplyOverrides(flags.shape, &*config); !status.ok()) {
    return FailUsage(status);
  }
  const absl::Status status = MakeModel(flags, *std::move(config), *dtype);
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace rserve::tool
