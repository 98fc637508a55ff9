#include "tests/engine/golden_folder.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/model/spec/model_config.h"
#include "src/model/weights/checkpoint.h"
#include "src/model/weights/safetensors_writer.h"
#include "tests/engine/harness.h"
#include "tests/support/catch.h"
#include "tests/support/numbers.h"

namespace rserve::testing {

namespace {

namespace fs = std::filesystem;

std::string Slurp(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void WriteFile(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  REQUIRE(file.good());
}

// All bytes as tokens behind the checkpoint's vocabulary, and the markers in it.
std::string Tokenizer(const model::ModelConfig& config) {
  const auto added = [](int32_t id, const char* content) {
    return absl::StrCat(R"({"id": )", id, R"(, "content": ")", content, R"(", "special": true})");
  };
  std::string bytes;
  int32_t next_code = 256;
  for (int32_t byte = 0; byte < 256; ++byte) {
    // The byte alphabet: what is printable in Latin-1 stands for itself.
    const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    absl::StrAppendFormat(&bytes, "%s\"\\u%04x\": %d", byte == 0 ? "" : ", ",
                          itself ? byte : next_code++, config.text.vocab_size + byte);
  }
  return absl::StrCat(R"({"added_tokens": [)",
                      added(config.vision_start_token_id, "<|vision_start|>"), ", ",
                      added(config.vision_end_token_id, "<|vision_end|>"), ", ",
                      added(config.image_token_id, "<|image_pad|>"), ", ",
                      added(60, "<|im_start|>"), ", ", added(61, "<|im_end|>"),
                      R"(], "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},)",
                      R"( "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {)",
                      bytes, R"(}, "merges": []}})");
}

// The checkpoint with 256 rows of zeros behind those of its vocabulary: the logits of what was
// there stay what they are.
void WriteWeights(const model::Checkpoint& from, int64_t vocab, const std::string& path) {
  std::vector<model::TensorSpec> specs;
  for (const std::string& name : from.Names()) {
    const auto view = from.Get(name);
    REQUIRE(view.ok());
    model::TensorSpec spec{name, view->dtype, view->shape};
    if (name.find("embed_tokens") != std::string::npos || name == "lm_head.weight") {
      spec.shape[0] = vocab + 256;
    }
    specs.push_back(std::move(spec));
  }
  auto writer = model::SafetensorsWriter::Create(path, specs);
  REQUIRE(writer.ok());
  for (const model::TensorSpec& spec : specs) {
    const auto view = from.Get(spec.name);
    int64_t elements = 1;
    for (const int64_t size : spec.shape) elements *= size;
    std::vector<float> values(static_cast<size_t>(elements));
    model::WidenToF32(*view, 0, view->elements, values.data());
    REQUIRE((*writer)->Append(values).ok());
  }
  REQUIRE((*writer)->Finish().ok());
}

std::string Processor(const model::VisionConfig& vision) {
  return absl::StrCat(R"({"min_pixels": 64, "max_pixels": 16384, "patch_size": )",
                      vision.patch_size, R"(, "temporal_patch_size": )", vision.temporal_patch_size,
                      R"(, "merge_size": )", vision.spatial_merge_size,
                      R"(, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]})");
}

// The prompt's tokens, with an embedding in the place of each run of placeholders.
void MakeParts(const model::ModelConfig& config, const std::vector<float>& grids,
               GoldenPrompt* prompt) {
  ModelRequest& request = prompt->request;
  request.image_markers = false;
  request.keep_logits = true;
  const int32_t merge = config.vision.spatial_merge_size;
  size_t token = 0, grid = 0;
  int64_t row = 0;
  while (token < prompt->token_ids.size()) {
    if (prompt->token_ids[token] != config.image_token_id) {
      TokenIds ids;
      while (token < prompt->token_ids.size() &&
             prompt->token_ids[token] != config.image_token_id) {
        ids.ids.push_back(prompt->token_ids[token++]);
      }
      request.parts.push_back(std::move(ids));
      continue;
    }
    REQUIRE(grid + 3 <= grids.size());
    EmbeddingInput rows;
    rows.grid_t = static_cast<int32_t>(grids[grid]);
    rows.grid_h = static_cast<int32_t>(grids[grid + 1]) / merge;
    rows.grid_w = static_cast<int32_t>(grids[grid + 2]) / merge;
    grid += 3;
    const int64_t count = int64_t{rows.grid_t} * rows.grid_h * rows.grid_w;
    const int64_t width = config.text.hidden_size;
    rows.shape = {count, width};
    rows.data = absl::MakeConstSpan(
        reinterpret_cast<const uint8_t*>(prompt->embeddings.data() + row * width),
        static_cast<size_t>(count * width) * sizeof(float));
    rows.borrow = true;
    request.parts.push_back(std::move(rows));
    row += count;
    token += static_cast<size_t>(count);
  }
}

}  // namespace

GoldenFolder::GoldenFolder(const std::string& name) {
  const fs::path source = fs::path(RSERVE_SOURCE_DIR) / "tests/data/backend" / name;
  const fs::path folder = folder_.path();
  std::string text = Slurp(source / "config.json");
  const auto config = model::ParseModelConfig(text);
  REQUIRE(config.ok());
  const int64_t vocab = config->text.vocab_size;
  const std::string before = absl::StrCat("\"vocab_size\": ", vocab);
  const size_t at = text.find(before);
  REQUIRE(at != std::string::npos);
  text.replace(at, before.size(), absl::StrCat("\"vocab_size\": ", vocab + 256));
  WriteFile(folder / "config.json", text);
  WriteFile(folder / "tokenizer.json", Tokenizer(*config));
  WriteFile(folder / "preprocessor_config.json", Processor(config->vision));
  const auto weights = model::Checkpoint::Open(source.string());
  REQUIRE(weights.ok());
  WriteWeights(**weights, vocab, (folder / "model.safetensors").string());
  const auto golden = model::Checkpoint::Open((source / "golden").string());
  REQUIRE(golden.ok());
  for (int i = 0; (*golden)->Has(absl::StrCat("p", i, ".token_ids")); ++i) {
    const std::string key = absl::StrCat("p", i, ".");
    GoldenPrompt prompt;
    for (const float id : ReadNumbers(**golden, key + "token_ids")) {
      prompt.token_ids.push_back(static_cast<int32_t>(id));
    }
    prompt.logits = ReadNumbers(**golden, key + "logits");
    std::vector<float> grids;
    if ((*golden)->Has(key + "grids")) {
      grids = ReadNumbers(**golden, key + "grids");
      prompt.embeddings = ReadNumbers(**golden, key + "embeddings");
    }
    // The parts point into the embeddings, whose memory stays when the prompt moves.
    MakeParts(*config, grids, &prompt);
    prompts_.push_back(std::move(prompt));
  }
  REQUIRE_FALSE(prompts_.empty());
}

std::vector<std::vector<float>> MeetGoldens(const GoldenFolder& golden, ModelEngineOptions options,
                                            const std::string& topology, double tolerance) {
  options.model_path = golden.path();
  const auto engine = MustCreate(options);
  CHECK(engine->info().topology == topology);
  std::vector<RequestId> ids;
  for (const GoldenPrompt& prompt : golden.prompts()) {
    ids.push_back(MustSubmit(*engine, prompt.request));
  }
  const std::map<RequestId, Outcome> outcomes = WaitForAll(*engine, ids);
  std::vector<std::vector<float>> logits;
  for (size_t i = 0; i < ids.size(); ++i) {
    const Outcome& outcome = outcomes.at(ids[i]);
    INFO(topology << ": " << outcome.terminal().status);
    REQUIRE(outcome.terminal().type == EventType::kFinished);
    CHECK(outcome.detail->token_ids == golden.prompts()[i].token_ids);
    logits.push_back(outcome.detail->logits);
    const double error = RelativeError(logits.back(), golden.prompts()[i].logits);
    INFO("relative error " << error);
    CHECK(error <= tolerance);
  }
  return logits;
}

}  // namespace rserve::testing
