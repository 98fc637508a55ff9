// rserve inspect: what a checkpoint is, and what a request would need; no weights are loaded and no
// pixel is decoded.

#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "rserve/cc/kv_block_pool.h"
#include "src/media/image.h"
#include "src/model/model_folder.h"
#include "src/model/spec/prompt_plan.h"
#include "src/model/weights/checkpoint.h"
#include "tools/rserve/command.h"
#include "tools/rserve/requests.h"
#include "tools/rserve/text.h"

namespace rserve::tool {
namespace {

constexpr CommandText kText = {
    "inspect",
    "Prints what a checkpoint is: architecture, parameters, bytes, types, tensors. With a "
    "request,\n"
    "also its plan, made from the headers of the picture files alone: prompt tokens, grids, KV\n"
    "blocks, bytes of pixels and embeddings.\n",
    "  rserve inspect models/digits\n"
    "  rserve inspect models/digits --tensors\n"
    "  rserve inspect models/digits --image photo.jpg --prompt \"What is this?\"\n"};

struct InspectFlags {
  std::string model;
  PromptFlags prompt;
  bool tensors = false;
  int64_t kv_block_tokens = 16;
  int64_t max_image_pixels = int64_t{1} << 27;
};

void Declare(OptionTable* table, InspectFlags* flags) {
  table->Positional("MODEL", &flags->model, "the model's folder");
  table->Section("Checkpoint");
  table->Switch("tensors", &flags->tensors, "list every tensor");
  AddPromptFlags(table, &flags->prompt);
  table->Int("kv-block-tokens", "N", 1, 1 << 20, &flags->kv_block_tokens, "tokens of a KV block");
  table->Int("max-image-pixels", "N", 1, int64_t{1} << 40, &flags->max_image_pixels,
             "width * height of a picture file; a larger one is refused");
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

void PrintArchitecture(const model::ModelFolder& spec) {
  const model::TextConfig& text = spec.config.text;
  const model::VisionConfig& vision = spec.config.vision;
  std::printf("model       %s\n", spec.config.model_type.c_str());
  std::printf(
      "text        %d layers, hidden %d, MLP %d, %d heads of %d (%d key-value), "
      "vocabulary %d%s\n",
      text.num_layers, text.hidden_size, text.intermediate_size, text.num_heads, text.head_dim,
      text.num_kv_heads, text.vocab_size, text.tie_word_embeddings ? ", tied" : "");
  std::printf(
      "vision      %d blocks (full attention in %s), hidden %d, MLP %d, %d heads of %d, "
      "windows of %d pixels\n",
      vision.depth, absl::StrJoin(vision.fullatt_block_indexes, ", ").c_str(), vision.hidden_size,
      vision.intermediate_size, vision.num_heads, vision.head_dim(), vision.window_size);
  const auto factor = int64_t{vision.factor()};
  std::printf("pictures    a token is %d x %d pixels; %s to %s pixels, so %s to %s tokens each\n",
              vision.factor(), vision.factor(), FormatCount(spec.processor.min_pixels).c_str(),
              FormatCount(spec.processor.max_pixels).c_str(),
              FormatCount(spec.processor.min_pixels / (factor * factor)).c_str(),
              FormatCount(spec.processor.max_pixels / (factor * factor)).c_str());
  std::printf("context     %s positions\n", FormatCount(text.max_position_embeddings).c_str());
}

absl::Status PrintTensors(const model::Checkpoint& checkpoint, bool list) {
  int64_t vision = 0, all = 0;
  std::map<std::string, int64_t> by_type;
  TextTable table({"tensor", "type", "shape", "bytes"});
  for (const std::string& name : checkpoint.Names()) {
    const absl::StatusOr<model::TensorView> tensor = checkpoint.Get(name);
    if (!tensor.ok()) return tensor.status();
    all += tensor->elements;
    if (absl::StrContains(name, "visual.")) vision += tensor->elements;
    const std::string type(model::DTypeName(tensor->dtype));
    ++by_type[type];
    table.Row({name, type, ShapeText(tensor->shape),
               FormatBytes(tensor->elements * model::DTypeSize(tensor->dtype))});
  }
  const std::string types = absl::StrJoin(by_type, ", ", [](std::string* out, const auto& type) {
    absl::StrAppend(out, type.second, " ", type.first);
  });
  std::printf("parameters  %s (vision %s, text %s)\n", FormatCount(all).c_str(),
              FormatCount(vision).c_str(), FormatCount(all - vision).c_str());
  std::printf("tensors     %s, %s\n", types.c_str(), FormatBytes(checkpoint.total_bytes()).c_str());
  if (list) std::printf("\n%s", table.ToString().c_str());
  return absl::OkStatus();
}

// Fills the sizes of the pictures in from their files' headers.
absl::Status ReadHeaders(LoadedChat* loaded, int64_t max_pixels,
                         std::vector<media::ImageHeader>* headers) {
  for (size_t i = 0; i < loaded->files.size(); ++i) {
    const absl::StatusOr<media::ImageHeader> header =
        media::ReadImageHeader(*loaded->files[i], {.max_pixels = max_pixels});
    if (!header.ok()) {
      return absl::Status(header.status().code(),
                          absl::StrCat(loaded->names[i], ": ", header.status().message()));
    }
    headers->push_back(*header);
    const auto part = static_cast<size_t>(loaded->chat.image_parts[i]);
    loaded->chat.parts[part] = model::ImagePart{header->height, header->width};
  }
  return absl::OkStatus();
}

absl::Status PrintPlan(const InspectFlags& flags, const model::ModelFolder& spec) {
  absl::StatusOr<LoadedChat> loaded = LoadPrompt(flags.prompt, spec);
  if (!loaded.ok()) return loaded.status();
  std::vector<media::ImageHeader> headers;
  if (absl::Status status = ReadHeaders(&*loaded, flags.max_image_pixels, &headers); !status.ok()) {
    return status;
  }
  const absl::StatusOr<model::PromptPlan> plan =
      model::PlanPrompt(loaded->chat.parts, spec.config, spec.processor, *spec.tokenizer);
  if (!plan.ok()) return plan.status();

  constexpr int64_t kFloat = 4;
  const model::TextConfig& text = spec.config.text;
  int64_t embedding_bytes = 0, pixel_bytes = 0;
  TextTable table({"picture", "file", "size", "resized", "grid", "tokens", "first token", "pixels",
                   "embedding"});
  for (size_t i = 0; i < plan->items.size(); ++i) {
    const model::PlannedItem& item = plan->items[i];
    const model::Grid& grid = item.plan.grid;
    const int64_t pixels = grid.patches() * spec.config.vision.patch_dim() * kFloat;
    const int64_t embedding = item.plan.tokens * text.hidden_size * kFloat;
    pixel_bytes += pixels;
    embedding_bytes += embedding;
    table.Row({absl::StrCat(i + 1),
               absl::StrCat(Printable(loaded->names[i]), " (",
                            std::string(media::ImageFormatName(headers[i].format)), ")"),
               absl::StrCat(headers[i].width, "x", headers[i].height),
               absl::StrCat(item.plan.resized_width, "x", item.plan.resized_height),
               absl::StrCat(grid.t, "x", grid.h, "x", grid.w), absl::StrCat(item.plan.tokens),
               absl::StrCat(item.token_begin), FormatBytes(pixels), FormatBytes(embedding)});
  }
  const auto tokens = static_cast<int64_t>(plan->token_ids.size());
  const int64_t blocks = KvBlocksFor(tokens + 1, flags.kv_block_tokens);
  const int64_t token_bytes = 2 * kFloat * text.num_layers * text.num_kv_heads * text.head_dim;
  int64_t picture_tokens = 0;
  for (const model::PlannedItem& item : plan->items) picture_tokens += item.plan.tokens;
  std::printf("\nprompt      %lld tokens: %lld of text, %lld of pictures\n",
              static_cast<long long>(tokens), static_cast<long long>(tokens - picture_tokens),
              static_cast<long long>(picture_tokens));
  std::printf("KV cache    %lld blocks of %lld tokens (with the first token's), %s\n",
              static_cast<long long>(blocks), static_cast<long long>(flags.kv_block_tokens),
              FormatBytes(blocks * flags.kv_block_tokens * token_bytes).c_str());
  if (plan->items.empty()) return absl::OkStatus();
  std::printf("pixels      %s prepared\nembeddings  %s\n\n%s", FormatBytes(pixel_bytes).c_str(),
              FormatBytes(embedding_bytes).c_str(), table.ToString().c_str());
  return absl::OkStatus();
}

absl::Status Inspect(const InspectFlags& flags) {
  const absl::StatusOr<model::ModelFolder> folder = model::OpenModelFolder(flags.model);
  if (!folder.ok()) return folder.status();
  PrintArchitecture(*folder);
  absl::Status status = PrintTensors(*folder->checkpoint, flags.tensors);
  if (status.ok() && flags.prompt.given()) status = PrintPlan(flags, *folder);
  return status;
}

}  // namespace

int InspectCommand(Args args) {
  InspectFlags flags;
  OptionTable table;
  Declare(&table, &flags);
  if (const std::optional<int> code = ParseOrHelp(kText, &table, args)) return *code;
  if (flags.prompt.given()) {
    if (absl::Status status = CheckPromptFlags(flags.prompt); !status.ok()) {
      return FailUsage(status);
    }
  }
  const absl::Status status = Inspect(flags);
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace rserve::tool
