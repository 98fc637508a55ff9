#include "src/model/model_folder.h"

#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "src/model/json/json_fields.h"
#include "src/model/weights/mapped_file.h"

namespace rserve::model {
namespace {

using nlohmann::json;

constexpr int64_t kMaxConfigBytes = int64_t{1} << 20;
constexpr int64_t kMaxTemplateBytes = int64_t{4} << 20;
constexpr int64_t kMaxTokenizerBytes = int64_t{128} << 20;

absl::StatusOr<std::string> ReadFile(const std::string& folder, const std::string& name,
                                     int64_t max_bytes) {
  absl::StatusOr<std::unique_ptr<MappedFile>> file = MappedFile::Open(folder + "/" + name);
  if (!file.ok()) return file.status();
  if (static_cast<int64_t>((*file)->size()) > max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(folder, "/", name, " has ", (*file)->size(),
                                                   " bytes, the limit is ", max_bytes));
  }
  return std::string(reinterpret_cast<const char*>((*file)->data()), (*file)->size());
}

absl::Status InFile(const std::string& folder, const char* name, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(folder, "/", name, ": ", status.message()));
}

absl::Status ReadProcessor(const std::string& folder, ImageProcessorConfig* processor) {
  constexpr const char* kNames[] = {"preprocessor_config.json", "processor_config.json"};
  for (const char* name : kNames) {
    absl::StatusOr<std::string> text = ReadFile(folder, name, kMaxConfigBytes);
    if (absl::IsNotFound(text.status())) continue;
    if (!text.ok()) return text.status();
    absl::StatusOr<ImageProcessorConfig> parsed = ParseImageProcessorConfig(*text);
    if (!parsed.ok()) return InFile(folder, name, parsed.status());
    *processor = *parsed;
    return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat(folder, " has neither ", kNames[0], " nor ", kNames[1]));
}

absl::Status ReadEos(const std::string& folder, ModelFolder* model) {
  constexpr char kName[] = "generation_config.json";
  if (model->config.eos_token_id >= 0) model->eos_token_ids = {model->config.eos_token_id};
  absl::StatusOr<std::string> text = ReadFile(folder, kName, kMaxConfigBytes);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  if (!text.ok()) return text.status();
  absl::StatusOr<json> parsed = ParseJson(*text, kName, kMaxConfigBytes);
  if (!parsed.ok()) return InFile(folder, kName, parsed.status());
  FieldReader in(*parsed, kName);
  const json* eos = in.Find("eos_token_id");
  std::vector<int32_t> ids;
  if (eos != nullptr && eos->is_array()) {
    in.IntList("eos_token_id", 64, 0, INT32_MAX, &ids);
  } else if (eos != nullptr) {
    int32_t id = -1;
    in.Int("eos_token_id", 0, INT32_MAX, &id);
    ids = {id};
  }
  if (!in.ok()) return InFile(folder, kName, in.status());
  // An id past the vocabulary is never produced (transformers writes one for small models).
  std::erase_if(ids, [model](int32_t id) { return id >= model->config.text.vocab_size; });
  if (!ids.empty()) model->eos_token_ids = std::move(ids);
  return absl::OkStatus();
}

absl::Status ReadTokenizer(const std::string& folder, ModelFolder* model) {
  constexpr char kName[] = "tokenizer.json";
  absl::StatusOr<std::string> text = ReadFile(folder, kName, kMaxTokenizerBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::FromJson(*text);
  if (!tokenizer.ok()) return InFile(folder, kName, tokenizer.status());
  model->tokenizer = *std::move(tokenizer);
  return absl::OkStatus();
}

// "<|im_end|>", or an object whose content that is.
std::string TokenText(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_object()) return "";
  const auto content = value.find("content");
  return content != value.end() && content->is_string() ? content->get<std::string>() : "";
}

// A template, or the "default" one of a list of named ones; "" where there is none.
std::string DefaultTemplate(const json& config) {
  const auto found = config.find("chat_template");
  if (found == config.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) return "";
  for (const json& named : *found) {
    if (named.is_object() && named.value("name", json()) == "default" &&
        named.value("template", json()).is_string()) {
      return named["template"].get<std::string>();
    }
  }
  return "";
}

// Of the files that may hold a template the first one that does, as transformers looks for it.
absl::Status ReadChatTemplate(const std::string& folder, ModelFolder* model) {
  std::string source, name;
  std::vector<std::pair<std::string, std::string>> tokens;
  for (const char* file : {"chat_template.jinja", "chat_template.json", "tokenizer_config.json"}) {
    absl::StatusOr<std::string> text = ReadFile(folder, file, kMaxTemplateBytes);
    if (absl::IsNotFound(text.status())) continue;
    if (!text.ok()) return text.status();
    std::string found = *text;
    if (file != std::string_view("chat_template.jinja")) {
      absl::StatusOr<json> parsed = ParseJson(*text, file, kMaxTemplateBytes);
      if (!parsed.ok()) return InFile(folder, file, parsed.status());
      found = parsed->is_object() ? DefaultTemplate(*parsed) : "";
      for (const char* token : {"bos_token", "eos_token", "pad_token", "unk_token"}) {
        const json& value = parsed->is_object() ? parsed->value(token, json()) : json();
        if (!TokenText(value).empty()) tokens.emplace_back(token, TokenText(value));
      }
    }
    if (!source.empty() || found.empty()) continue;
    source = std::move(found);
    name = file;
  }
  if (source.empty()) return absl::OkStatus();
  auto parsed = CheckpointTemplate::Parse(source, std::move(tokens));
  if (!parsed.ok()) return InFile(folder, name.c_str(), parsed.status());
  model->chat.own = *std::move(parsed);
  return absl::OkStatus();
}

absl::Status NoToken(const std::string& folder, const char* name) {
  return absl::InvalidArgumentError(absl::StrCat(folder, ": tokenizer.json has no token ", name));
}

// What the files say of each other.
absl::Status CheckTogether(const std::string& folder, const ModelFolder& model) {
  const ImageProcessorConfig& processor = model.processor;
  const VisionConfig& vision = model.config.vision;
  if (processor.patch_size != vision.patch_size ||
      processor.merge_size != vision.spatial_merge_size ||
      processor.temporal_patch_size != vision.temporal_patch_size) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": the processor's patch_size ", processor.patch_size, ", merge_size ",
                     processor.merge_size, ", temporal_patch_size ", processor.temporal_patch_size,
                     " differ from config.json's ", vision.patch_size, ", ",
                     vision.spatial_merge_size, ", ", vision.temporal_patch_size));
  }
  if (model.tokenizer->vocab_size() > model.config.text.vocab_size) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": tokenizer.json has ids up to ", model.tokenizer->vocab_size() - 1,
                     ", config.json's vocab_size is ", model.config.text.vocab_size));
  }
  const std::pair<const char*, int32_t> markers[] = {
      {"<|image_pad|>", model.config.image_token_id},
      {"<|vision_start|>", model.config.vision_start_token_id},
      {"<|vision_end|>", model.config.vision_end_token_id}};
  // Without its control tokens the chat template would be read as a user's text.
  for (const char* name : {"<|im_start|>", "<|im_end|>"}) {
    if (!model.tokenizer->TokenId(name).has_value()) return NoToken(folder, name);
  }
  for (const auto& [name, id] : markers) {
    const std::optional<int32_t> known = model.tokenizer->TokenId(name);
    if (!known.has_value()) return NoToken(folder, name);
    if ((*known != id || !model.tokenizer->IsSpecial(id))) {
      return absl::InvalidArgumentError(
          absl::StrCat(folder, ": tokenizer.json gives ", name, " the id ", *known,
                       *known == id ? " and does not mark it as special" : ", config.json ",
                       *known == id ? "" : absl::StrCat(id)));
    }
  }
  return absl::OkStatus();
}

// A checkpoint with more layers than config.json names is another model than config.json's.
absl::Status CheckDepth(const std::string& folder, const ModelFolder& model) {
  const struct {
    std::string_view before;  // the layer's number, in a tensor's name
    const char* option;
    int64_t depth;
  } stacks[] = {{"blocks.", "vision_config.depth", model.config.vision.depth},
                {"layers.", "num_hidden_layers", model.config.text.num_layers}};
  for (const std::string& name : model.checkpoint->Names()) {
    for (const auto& stack : stacks) {
      const size_t at = name.find(stack.before);
      if (at == std::string::npos) continue;
      int64_t layer = -1;
      const absl::string_view rest = absl::string_view(name).substr(at + stack.before.size());
      if (!absl::SimpleAtoi(rest.substr(0, rest.find('.')), &layer) || layer < stack.depth) break;
      return absl::InvalidArgumentError(absl::StrCat(folder, ": the weights hold ", name,
                                                     ", config.json's ", stack.option, " is ",
                                                     stack.depth));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelFolder> OpenModelSpec(const std::string& folder) {
  constexpr char kConfig[] = "config.json";
  ModelFolder model;
  absl::StatusOr<std::string> text = ReadFile(folder, kConfig, kMaxConfigBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<ModelConfig> config = ParseModelConfig(*text);
  if (!config.ok()) return InFile(folder, kConfig, config.status());
  model.config = *std::move(config);
  absl::Status status = ReadProcessor(folder, &model.processor);
  if (status.ok()) status = ReadEos(folder, &model);
  if (status.ok()) status = ReadTokenizer(folder, &model);
  if (status.ok()) status = CheckTogether(folder, model);
  if (!status.ok()) return status;
  model.chat.status = ReadChatTemplate(folder, &model);
  return model;
}

absl::StatusOr<ModelFolder> OpenModelFolder(const std::string& folder) {
  absl::StatusOr<ModelFolder> model = OpenModelSpec(folder);
  if (!model.ok()) return model.status();
  absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::Open(folder);
  if (!checkpoint.ok()) return checkpoint.status();
  model->checkpoint = *std::move(checkpoint);
  if (absl::Status s = CheckDepth(folder, *model); !s.ok()) return s;
  return model;
}

}  // namespace rserve::model
