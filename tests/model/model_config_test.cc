#include "src/model/spec/model_config.h"

#include <string>

#include "tests/model/golden.h"

namespace rserve::model {
namespace {

using nlohmann::json;

// The fields of the published 3B checkpoint, all at the top level.
json FlatConfig() {
  return json::parse(R"({
    "architectures": ["Qwen2_5_VLForConditionalGeneration"], "attention_dropout": 0.0,
    "bos_token_id": 151643, "eos_token_id": 151645, "vision_start_token_id": 151652,
    "vision_end_token_id": 151653, "vision_token_id": 151654, "image_token_id": 151655,
    "video_token_id": 151656, "hidden_act": "silu", "hidden_size": 2048,
    "initializer_range": 0.02, "intermediate_size": 11008, "max_position_embeddings": 128000,
    "max_window_layers": 70, "model_type": "qwen2_5_vl", "num_attention_heads": 16,
    "num_hidden_layers": 36, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true,
    "torch_dtype": "bfloat16", "use_cache": true, "use_sliding_window": false,
    "vision_config": {"depth": 32, "hidden_act": "silu", "hidden_size": 1280,
      "intermediate_size": 3420, "num_heads": 16, "in_chans": 3, "out_hidden_size": 2048,
      "patch_size": 14, "spatial_merge_size": 2, "spatial_patch_size": 14, "window_size": 112,
      "fullatt_block_indexes": [7, 15, 23, 31], "tokens_per_second": 2,
      "temporal_patch_size": 2},
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}, "vocab_size": 151936})");
}

// What transformers 5.17 writes for a small model.
json NestedConfig() {
  return json::parse(R"({
    "architectures": ["Qwen2_5_VLForConditionalGeneration"], "dtype": "float32",
    "image_token_id": 400, "model_type": "qwen2_5_vl",
    "text_config": {"attention_dropout": 0.0, "bos_token_id": 151643, "dtype": "float32",
      "eos_token_id": 151645, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02,
      "intermediate_size": 128, "layer_types": ["full_attention", "full_attention"],
      "max_position_embeddings": 32768, "max_window_layers": 80, "model_type": "qwen2_5_vl_text",
      "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
      "pad_token_id": null, "rms_norm_eps": 1e-05,
      "rope_parameters": {"mrope_section": [2, 3, 3], "rope_theta": 500000.0,
                          "rope_type": "default", "type": "mrope"},
      "sliding_window": null, "use_cache": true, "use_sliding_window": false, "vocab_size": 500},
    "tie_word_embeddings": false, "transformers_version": "5.17.0", "video_token_id": 151656,
    "vision_config": {"depth": 10, "fullatt_block_indexes": [7, 15, 23, 31], "hidden_act": "silu",
      "hidden_size": 64, "in_channels": 3, "initializer_range": 0.02, "intermediate_size": 96,
      "model_type": "qwen2_5_vl_vision", "num_heads": 4, "out_hidden_size": 64, "patch_size": 14,
      "rope_parameters": {"rope_theta": 10000.0, "rope_type": "axial"}, "spatial_merge_size": 2,
      "temporal_patch_size": 2, "tokens_per_second": 4, "window_size": 112},
    "vision_end_token_id": 402, "vision_start_token_id": 401})");
}

std::string Fault(const json& config) {
  const auto parsed = ParseModelConfig(config.dump());
  REQUIRE_FALSE(parsed.ok());
  CHECK(parsed.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(parsed.status().message());
}

bool Names(const std::string& message, const std::string& field, const std::string& value) {
  INFO(message);
  return message.find(field) != std::string::npos && message.find(value) != std::string::npos;
}

TEST_CASE("the flat layout of the published checkpoints is read") {
  const auto config = ParseModelConfig(FlatConfig().dump());
  REQUIRE(config.ok());
  CHECK(config->text.vocab_size == 151936);
  CHECK(config->text.hidden_size == 2048);
  CHECK(config->text.num_layers == 36);
  CHECK(config->text.num_kv_heads == 2);
  CHECK(config->text.head_dim == 128);
  CHECK(config->text.max_position_embeddings == 128000);
  CHECK(config->text.rms_norm_eps == 1e-6f);
  CHECK(config->text.rope_theta == 1e6f);
  CHECK(config->text.mrope_section == std::vector<int32_t>{16, 24, 24});
  CHECK(config->text.tie_word_embeddings);
  CHECK(config->vision.head_dim() == 80);
  CHECK(config->vision.factor() == 28);
  CHECK(config->vision.patch_dim() == 1176);
  CHECK(config->vision.tokens_per_second == 2.0f);
  CHECK(config->vision.fullatt_block_indexes == std::vector<int32_t>{7, 15, 23, 31});
  CHECK(config->image_token_id == 151655);
  CHECK(config->eos_token_id == 151645);
  CHECK(config->torch_dtype == "bfloat16");
}

TEST_CASE("the nested layout of transformers 5 is read") {
  const auto config = ParseModelConfig(NestedConfig().dump());
  REQUIRE(config.ok());
  CHECK(config->text.hidden_size == 64);
  CHECK(config->text.head_dim == 16);
  CHECK(config->text.rope_theta == 500000.0f);
  CHECK(config->text.mrope_section == std::vector<int32_t>{2, 3, 3});
  CHECK_FALSE(config->text.tie_word_embeddings);
  CHECK(config->torch_dtype == "float32");
  // Indexes past the last block name none; ids past the vocabulary are never produced.
  CHECK(config->vision.fullatt_block_indexes == std::vector<int32_t>{7});
  CHECK(config->eos_token_id == -1);
  CHECK(config->video_token_id == -1);
}

TEST_CASE("a list of eos ids gives its first, and either place ties the embeddings") {
  json config = NestedConfig();
  config["eos_token_id"] = {7, 8};
  config["text_config"]["tie_word_embeddings"] = true;
  const auto parsed = ParseModelConfig(config.dump());
  REQUIRE(parsed.ok());
  CHECK(parsed->eos_token_id == 7);
  CHECK(parsed->text.tie_word_embeddings);
}

TEST_CASE("a missing number of kv heads means as many as heads") {
  json config = FlatConfig();
  config["num_key_value_heads"] = nullptr;
  const auto parsed = ParseModelConfig(config.dump());
  REQUIRE(parsed.ok());
  CHECK(parsed->text.num_kv_heads == 16);
}

TEST_CASE("every faulty field is named with its value") {
  json config = FlatConfig();
  SECTION("missing") {
    config.erase("hidden_size");
    CHECK(Names(Fault(config), "hidden_size", "missing"));
  }
  SECTION("wrong type") {
    config["num_hidden_layers"] = "36";
    CHECK(Names(Fault(config), "num_hidden_layers", "\"36\""));
  }
  SECTION("fraction") {
    config["vocab_size"] = 1.5;
    CHECK(Names(Fault(config), "vocab_size", "1.5"));
  }
  SECTION("negative") {
    config["vision_config"]["depth"] = -3;
    CHECK(Names(Fault(config), "vision_config.depth", "-3"));
  }
  SECTION("beyond 64 bits") {
    config["vocab_size"] = 18446744073709551615ull;
    CHECK(Names(Fault(config), "vocab_size", "18446744073709551615"));
  }
  SECTION("heads do not divide") {
    config["num_attention_heads"] = 15;
    CHECK(Names(Fault(config), "hidden_size", "15"));
  }
  SECTION("kv heads do not divide") {
    config["num_key_value_heads"] = 3;
    CHECK(Names(Fault(config), "num_key_value_heads", "3"));
  }
  SECTION("mrope_section does not sum") {
    config["rope_scaling"]["mrope_section"] = {16, 24, 23};
    CHECK(Names(Fault(config), "mrope_section", "64"));
  }
  SECTION("mrope_section missing") {
    config.erase("rope_scaling");
    CHECK(Names(Fault(config), "rope_scaling", "mrope_section"));
  }
  SECTION("widths disagree") {
    config["vision_config"]["out_hidden_size"] = 3584;
    CHECK(Names(Fault(config), "out_hidden_size", "3584"));
  }
  SECTION("sliding window") {
    config["use_sliding_window"] = true;
    CHECK(Names(Fault(config), "use_sliding_window", "true"));
  }
  SECTION("sliding layer type") {
    config["layer_types"] = {"sliding_attention"};
    CHECK(Names(Fault(config), "layer_types", "sliding_attention"));
  }
  SECTION("activation") {
    config["hidden_act"] = "gelu";
    CHECK(Names(Fault(config), "hidden_act", "gelu"));
  }
  SECTION("vision activation") {
    config["vision_config"]["hidden_act"] = "relu";
    CHECK(Names(Fault(config), "vision_config.hidden_act", "relu"));
  }
  SECTION("image token beyond the vocabulary") {
    config["image_token_id"] = 151936;
    CHECK(Names(Fault(config), "image_token_id", "151936"));
  }
  SECTION("section of another type") {
    config["vision_config"] = 5;
    CHECK(Names(Fault(config), "vision_config", "5"));
  }
  SECTION("eos of another type") {
    config["eos_token_id"] = {{"a", 1}};
    CHECK(Names(Fault(config), "eos_token_id", "\"a\""));
  }
}

TEST_CASE("other architectures and rope types are unimplemented, with their name") {
  json config = FlatConfig();
  config["model_type"] = "llama";
  auto parsed = ParseModelConfig(config.dump());
  CHECK(parsed.status().code() == absl::StatusCode::kUnimplemented);
  CHECK(Names(std::string(parsed.status().message()), "model_type", "llama"));
  config = FlatConfig();
  config["rope_scaling"]["type"] = "yarn";
  parsed = ParseModelConfig(config.dump());
  CHECK(parsed.status().code() == absl::StatusCode::kUnimplemented);
  CHECK(Names(std::string(parsed.status().message()), "rope_type", "yarn"));
}

TEST_CASE("text that is no sane JSON is refused without an exception") {
  const std::string deep(100000, '[');
  std::string deep_object;
  for (int i = 0; i < 50000; ++i) deep_object += "{\"a\":";
  const std::string inputs[] = {"",
                                "{",
                                "null",
                                "[]",
                                "\"x\"",
                                "{\"model_type\": 1e999}",
                                "{\"model_type\": \"\xff\"}",
                                "{\"model_type\": \"qwen2_5_vl\"",
                                deep,
                                deep_object,
                                std::string(2 << 20, ' ')};
  for (const std::string& input : inputs) {
    CAPTURE(input.substr(0, 40), input.size());
    CHECK(ParseModelConfig(input).status().code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("every truncation and every single-field type change of a config gives a status") {
  const std::string text = FlatConfig().dump();
  for (size_t size = 0; size < text.size(); size += 7) {
    CHECK_FALSE(ParseModelConfig(text.substr(0, size)).ok());
  }
  const json values[] = {nullptr, true, -1, 0, 1e300, "x", json::array(), json::object()};
  for (const json& base : {FlatConfig(), NestedConfig()}) {
    for (const auto& [key, unused] : base.items()) {
      for (const json& value : values) {
        json config = base;
        config[key] = value;
        (void)ParseModelConfig(config.dump());  // must return, either way
      }
    }
  }
}

}  // namespace
}  // namespace rserve::model
