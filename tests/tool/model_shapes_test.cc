#include "tools/rserve/model_shapes.h"

#include <cstdint>
#include <string>

#include "tests/support/catch.h"

namespace rserve::tool {
namespace {

int64_t Parameters(const model::ModelConfig& config) {
  int64_t sum = 0;
  for (const TensorPlan& tensor : CheckpointTensors(config)) sum += tensor.elements();
  return sum;
}

TEST_CASE("presets have the published number of parameters and write a config that is read back") {
  const struct {
    const char* name;
    double billions;
  } kPublished[] = {{"3b", 3.75}, {"7b", 8.29}, {"32b", 33.5}, {"72b", 73.4}};
  for (const auto& published : kPublished) {
    CAPTURE(published.name);
    auto config = PresetConfig(published.name);
    REQUIRE(config.ok());
    CHECK(static_cast<double>(Parameters(*config)) / 1e9 ==
          Approx(published.billions).epsilon(0.01));
    config->torch_dtype = "bfloat16";
    const auto parsed = model::ParseModelConfig(ConfigJson(*config));
    REQUIRE(parsed.ok());
    CHECK(parsed->text.num_layers == config->text.num_layers);
    CHECK(parsed->text.mrope_section == config->text.mrope_section);
    CHECK(parsed->text.tie_word_embeddings == config->text.tie_word_embeddings);
    CHECK(parsed->vision.fullatt_block_indexes == config->vision.fullatt_block_indexes);
  }
  CHECK_FALSE(PresetConfig("1b").ok());
}

TEST_CASE("overrides keep the shape consistent at every size") {
  for (const char* preset : {"3b", "7b", "72b"}) {
    for (const int64_t hidden : {32, 64, 128, 192, 256, 512, 896, 1024}) {
      for (const int64_t layers : {1, 3, 9}) {
        CAPTURE(preset, hidden, layers);
        auto config = PresetConfig(preset);
        REQUIRE(config.ok());
        ShapeOverrides overrides;
        overrides.hidden = hidden;
        overrides.layers = layers;
        overrides.vision_hidden = hidden;
        overrides.vision_layers = layers;
        overrides.vocab = 1300;
        REQUIRE(ApplyOverrides(overrides, &*config).ok());
        config->image_token_id = 1278;
        config->video_token_id = 1279;
        config->vision_start_token_id = 1275;
        config->vision_end_token_id = 1276;
        config->eos_token_id = 1268;
        const auto parsed = model::ParseModelConfig(ConfigJson(*config));
        CAPTURE(parsed.status().ToString());
        REQUIRE(parsed.ok());
        CHECK(parsed->vision.out_hidden_size == hidden);
        CHECK(parsed->vision.fullatt_block_indexes.back() == layers - 1);
      }
    }
  }
}

TEST_CASE("overrides that do not fit are refused by the option's name") {
  const auto refusal = [](ShapeOverrides overrides) {
    auto config = PresetConfig("3b");
    return std::string(ApplyOverrides(overrides, &*config).message());
  };
  CHECK(refusal({.hidden = 100}).find("--hidden: 100") == 0);
  CHECK(refusal({.heads = 3}).find("--heads: 3") == 0);
  CHECK(refusal({.kv_heads = 3}).find("--kv-heads: 3") == 0);
  CHECK(refusal({.vision_heads = 7}).find("--vision-heads: 7") == 0);
}

}  // namespace
}  // namespace rserve::tool
