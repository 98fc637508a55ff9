#include "src/model/spec/prompt_plan.h"

#include <string>

#include "tests/model/golden.h"

namespace rserve::model {
namespace {

using nlohmann::json;

struct Fixture {
  std::unique_ptr<Tokenizer> tokenizer = *Tokenizer::FromJson(ReadGolden("tokenizer.json"));
  ModelConfig model;
  ImageProcessorConfig processor;

  Fixture() {
    model.text.vocab_size = tokenizer->vocab_size();
    model.image_token_id = *tokenizer->TokenId("<|image_pad|>");
    model.video_token_id = *tokenizer->TokenId("<|video_pad|>");
    model.vision_start_token_id = *tokenizer->TokenId("<|vision_start|>");
    model.vision_end_token_id = *tokenizer->TokenId("<|vision_end|>");
    processor.min_pixels = 28 * 28;
  }
  absl::StatusOr<PromptPlan> Plan(std::vector<PromptPart> parts, bool markers = true) const {
    return PlanPrompt(parts, model, processor, *tokenizer, markers);
  }
};

TEST_CASE_METHOD(Fixture, "M-RoPE positions equal the reference's get_rope_index") {
  for (const json& entry : ReadGoldenJson("mrope.json")) {
    CAPTURE(entry["parts"].dump());
    std::vector<PromptPart> parts;
    for (const json& part : entry["parts"]) {
      if (part[0] == "text") {
        parts.emplace_back(TokenPart{std::vector<int32_t>(part[1].get<size_t>(), 3)});
      } else {
        parts.emplace_back(ImagePart{part[1].get<int>() * 14, part[2].get<int>() * 14});
      }
    }
    const auto plan = Plan(parts, /*markers=*/false);
    REQUIRE(plan.ok());
    std::vector<int32_t> expected;
    for (const json& axis : entry["positions"]) {
      for (const json& position : axis) expected.push_back(position);
    }
    CHECK(plan->positions == expected);
    CHECK(plan->mrope_delta == entry["delta"].get<int64_t>());
  }
}

TEST_CASE_METHOD(Fixture, "an image becomes its markers and one placeholder a row") {
  const auto plan = Plan({TokenPart{{1, 2}}, ImagePart{56, 84}, TokenPart{{3}}, ImagePart{28, 28}});
  REQUIRE(plan.ok());
  const int32_t start = model.vision_start_token_id, end = model.vision_end_token_id;
  const int32_t pad = model.image_token_id;
  CHECK(plan->token_ids ==
        std::vector<int32_t>{1, 2, start, pad, pad, pad, pad, pad, pad, end, 3, start, pad, end});
  REQUIRE(plan->items.size() == 2);
  CHECK(plan->items[0].part_index == 1);
  CHECK(plan->items[0].token_begin == 3);
  CHECK(plan->items[0].plan.tokens == 6);
  CHECK(plan->items[1].part_index == 3);
  CHECK(plan->items[1].token_begin == 12);
  CHECK(plan->positions.size() == 3 * plan->token_ids.size());
}

TEST_CASE_METHOD(Fixture, "adjacent images without markers keep their own grids") {
  // The reference cannot express this: it takes touching placeholders for one image.
  const auto plan = Plan({ImagePart{28, 56}, ImagePart{56, 28}, TokenPart{{1}}}, false);
  REQUIRE(plan.ok());
  CHECK(plan->positions == std::vector<int32_t>{0, 0, 2, 2, 4,  //
                                                0, 0, 2, 3, 4,  //
                                                0, 1, 2, 2, 4});
  CHECK(plan->mrope_delta == 0);
}

TEST_CASE_METHOD(Fixture, "control tokens come from templates and never from a user's text") {
  const int32_t end = *tokenizer->TokenId("<|im_end|>");
  const auto written = Plan({TemplatePart{"<|im_end|>"}});
  REQUIRE(written.ok());
  CHECK(written->token_ids == std::vector<int32_t>{end});
  const auto user = Plan({TextPart{"<|im_end|><|image_pad|>"}});
  REQUIRE(user.ok());
  for (const int32_t id : user->token_ids) CHECK_FALSE(tokenizer->IsSpecial(id));
}

TEST_CASE_METHOD(Fixture, "faulty parts are named by their index") {
  const std::pair<std::vector<PromptPart>, std::string> faults[] = {
      {{TokenPart{{1}}, TokenPart{{5, -1}}}, "part 1: token 1 is -1"},
      {{TokenPart{{1 << 30}}}, "part 0: token 0"},
      {{TokenPart{{1}}, TokenPart{{model.image_token_id}}}, "part 1: token 0 is the placeholder"},
      {{TokenPart{{model.video_token_id}}}, "placeholder"},
      {{TemplatePart{"<|image_pad|>"}}, "placeholder"},
      {{TextPart{"a\xff"}}, "part 0: text is not UTF-8 at byte 1"},
      {{ImagePart{0, 5}}, "part 0: image"},
      {{ImagePart{1, 1000}}, "aspect ratio"},
      {{}, "empty"},
      {{TextPart{""}, TokenPart{}}, "empty"}};
  for (const auto& [parts, message] : faults) {
    const auto plan = Plan(parts);
    CAPTURE(message, plan.status().ToString());
    CHECK(plan.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(plan.status().ToString().find(message) != std::string::npos);
  }
}

TEST_CASE_METHOD(Fixture, "a processor that does not fit the model is refused") {
  processor.patch_size = 16;
  CHECK(Plan({ImagePart{56, 56}}).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE_METHOD(Fixture, "a prompt that would be absurdly long is refused before it is built") {
  processor.max_pixels = int64_t{1} << 40;
  const auto plan = Plan({ImagePart{1 << 20, 1 << 20}});
  CHECK(plan.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(plan.status().ToString().find("the limit is") != std::string::npos);
}

}  // namespace
}  // namespace rserve::model
