#include "src/model/model_folder.h"

#include <string>

#include "src/model/weights/safetensors_writer.h"
#include "tests/model/golden.h"
#include "tests/model/temp_folder.h"

namespace rserve::model {
namespace {

using nlohmann::json;

// A whole small checkpoint folder, which a test then damages.
struct Fixture {
  TempFolder folder;
  json config;

  Fixture() {
    folder.Write("tokenizer.json", ReadGolden("tokenizer.json"));
    const auto tokenizer = Tokenizer::FromJson(ReadGolden("tokenizer.json"));
    const auto id = [&](const char* token) { return *(*tokenizer)->TokenId(token); };
    config = {{"model_type", "qwen2_5_vl"},
              {"image_token_id", id("<|image_pad|>")},
              {"vision_start_token_id", id("<|vision_start|>")},
              {"vision_end_token_id", id("<|vision_end|>")},
              {"text_config",
               {{"vocab_size", (*tokenizer)->vocab_size()},
                {"hidden_size", 32},
                {"intermediate_size", 64},
                {"num_hidden_layers", 1},
                {"num_attention_heads", 2},
                {"rms_norm_eps", 1e-6},
                {"eos_token_id", id("<|im_end|>")},
                {"rope_parameters", {{"rope_type", "default"}, {"mrope_section", {2, 3, 3}}}}}},
              {"vision_config", {{"hidden_size", 64}, {"depth", 2}, {"out_hidden_size", 32}}}};
    WriteConfig();
    folder.Write(
        "processor_config.json",
        R"({"image_processor": {"size": {"shortest_edge": 784, "longest_edge": 100000}}})");
    auto writer = SafetensorsWriter::Create(folder.File("model.safetensors"),
                                            {TensorSpec{"w", DType::kF32, {1}}});
    REQUIRE((*writer)->Append({1.0f}).ok());
    REQUIRE((*writer)->Finish().ok());
  }
  void WriteConfig() { folder.Write("config.json", config.dump()); }
  void Remove(const char* name) { REQUIRE(std::filesystem::remove(folder.File(name))); }
};

TEST_CASE_METHOD(Fixture, "a whole folder opens") {
  const auto model = OpenModelFolder(folder.path());
  INFO(model.status().ToString());
  REQUIRE(model.ok());
  CHECK(model->config.text.hidden_size == 32);
  CHECK(model->processor.max_pixels == 100000);
  CHECK(model->checkpoint->Has("w"));
  CHECK(model->eos_token_ids == std::vector<int32_t>{*model->tokenizer->TokenId("<|im_end|>")});
}

TEST_CASE("the digits model's files open as one specification") {
  const auto model = OpenModelSpec(std::string(RSERVE_SOURCE_DIR) + "/models/digits");
  INFO(model.status().ToString());
  REQUIRE(model.ok());
  CHECK(model->tokenizer->TokenId("<|image_pad|>") == model->config.image_token_id);
  CHECK_FALSE(model->eos_token_ids.empty());
}

TEST_CASE_METHOD(Fixture, "preprocessor_config.json goes before processor_config.json") {
  folder.Write("preprocessor_config.json", R"({"min_pixels": 784, "max_pixels": 5000})");
  const auto model = OpenModelSpec(folder.path());
  REQUIRE(model.ok());
  CHECK(model->processor.max_pixels == 5000);
}

TEST_CASE_METHOD(Fixture, "generation_config.json names the ids that end a generation") {
  folder.Write("generation_config.json", R"({"eos_token_id": [5, 6, 99999999], "top_k": 1})");
  CHECK(OpenModelSpec(folder.path())->eos_token_ids == std::vector<int32_t>{5, 6});
  folder.Write("generation_config.json", R"({"eos_token_id": 7})");
  CHECK(OpenModelSpec(folder.path())->eos_token_ids == std::vector<int32_t>{7});
  folder.Write("generation_config.json", R"({"eos_token_id": "x"})");
  CHECK(OpenModelSpec(folder.path()).status().ToString().find("generation_config.json") !=
        std::string::npos);
}

TEST_CASE_METHOD(Fixture, "an absent file is named") {
  for (const char* name :
       {"model.safetensors", "tokenizer.json", "processor_config.json", "config.json"}) {
    Remove(name);
    const absl::Status status = OpenModelFolder(folder.path()).status();
    CAPTURE(name, status.ToString());
    CHECK(status.code() == absl::StatusCode::kNotFound);
    CHECK(status.ToString().find(name) != std::string::npos);
  }
}

TEST_CASE_METHOD(Fixture, "the weights are not needed for the specification alone") {
  Remove("model.safetensors");
  const auto model = OpenModelSpec(folder.path());
  REQUIRE(model.ok());
  CHECK(model->checkpoint == nullptr);
}

TEST_CASE_METHOD(Fixture, "files that do not fit each other are refused") {
  std::string finding;
  SECTION("patch size") {
    config["vision_config"]["patch_size"] = 16;
    finding = "patch_size";
  }
  SECTION("vocabulary") {
    config["text_config"]["vocab_size"] = 760 - 15;
    finding = "vocab";
  }
  SECTION("marker") {
    config["image_token_id"] = 3;
    finding = "<|image_pad|>";
  }
  SECTION("a chat's control token") {
    json tokenizer = json::parse(ReadGolden("tokenizer.json"));
    for (json& token : tokenizer["added_tokens"]) {
      if (token["content"] == "<|im_start|>") token["content"] = "<|im_begin|>";
    }
    folder.Write("tokenizer.json", tokenizer.dump());
    finding = "tokenizer.json has no token <|im_start|>";
  }
  SECTION("more layers than config.json names") {
    const std::string name = GENERATE(as<std::string>{}, "model.layers.1.mlp.up_proj.weight",
                                      "visual.blocks.2.norm1.weight");
    auto writer = SafetensorsWriter::Create(folder.File("model.safetensors"),
                                            {TensorSpec{name, DType::kF32, {1}}});
    REQUIRE((*writer)->Append({1.0f}).ok());
    REQUIRE((*writer)->Finish().ok());
    finding = name;
  }
  WriteConfig();
  const absl::Status status = OpenModelFolder(folder.path()).status();
  INFO(status.ToString());
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(status.ToString().find(finding) != std::string::npos);
}

TEST_CASE_METHOD(Fixture, "a file above its size limit is refused unread") {
  std::filesystem::resize_file(folder.File("config.json"), (1 << 20) + 1);
  const absl::Status status = OpenModelFolder(folder.path()).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(status.ToString().find("the limit is 1048576") != std::string::npos);
}

}  // namespace
}  // namespace rserve::model
