// Requests through the C ABI: pictures, chats, plans, details.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/capi/c_fixture.h"

namespace rserve::testing {
namespace {

struct DetailDelete {
  void operator()(rserve_detail* detail) const { rserve_detail_destroy(detail); }
};
using DetailPtr = std::unique_ptr<rserve_detail, DetailDelete>;

DetailPtr DetailOf(rserve_engine* engine, uint64_t id) {
  rserve_detail* detail = nullptr;
  REQUIRE(rserve_request_detail(engine, id, &detail, nullptr) == RSERVE_STATUS_OK);
  return DetailPtr(detail);
}

struct PlanDelete {
  void operator()(rserve_plan* plan) const { rserve_plan_destroy(plan); }
};
using PlanPtr = std::unique_ptr<rserve_plan, PlanDelete>;

PlanPtr PlanOf(rserve_engine* engine, const rserve_request& request) {
  rserve_plan* plan = nullptr;
  const Failure failure =
      Try([&](rserve_error** err) { return rserve_engine_plan(engine, &request, &plan, err); });
  INFO(failure.message);
  REQUIRE(failure.code == RSERVE_STATUS_OK);
  return PlanPtr(plan);
}

std::string Decode(rserve_engine* engine, const int32_t* tokens, size_t count) {
  size_t length = 0;
  REQUIRE(rserve_engine_decode(engine, tokens, count, nullptr, 0, &length, nullptr) ==
          RSERVE_STATUS_OK);
  std::string text(length, '\0');
  size_t again = 0;
  REQUIRE(rserve_engine_decode(engine, tokens, count, text.data(), length, &again, nullptr) ==
          RSERVE_STATUS_OK);
  CHECK(again == length);
  return text;
}

TEST_CASE("a detail tells all of a finished request and outlives acknowledge and engine") {
  EnginePtr engine = MustCreate(TinyConfig());
  const std::vector<uint8_t> png = TestPng(40, 24, 3);
  const std::vector<rserve_part> parts = {ImagePart(png), TextPart("What?")};
  rserve_request request = RequestOf(parts);
  request.flags = RSERVE_REQUEST_F_KEEP_LOGITS | RSERVE_REQUEST_F_KEEP_EMBEDDINGS;
  request.user_data = 99;
  uint64_t id = 0;
  REQUIRE(Submit(engine.get(), request, &id).code == RSERVE_STATUS_OK);
  CHECK(rserve_engine_acknowledge(engine.get(), id, nullptr) == RSERVE_STATUS_FAILED_PRECONDITION);
  const std::vector<rserve_event> events = WaitFor(engine.get(), 1);
  const DetailPtr detail = DetailOf(engine.get(), id);
  CHECK(rserve_engine_acknowledge(engine.get(), id, nullptr) == RSERVE_STATUS_OK);
  engine.reset();

  rserve_detail_info info = RSERVE_DETAIL_INFO_INIT;
  REQUIRE(rserve_detail_get_info(detail.get(), &info, nullptr) == RSERVE_STATUS_OK);
  CHECK(info.last_event == RSERVE_EVENT_FINISHED);
  CHECK(info.request_id == id);
  CHECK(info.user_data == 99);
  CHECK(info.status == RSERVE_STATUS_OK);
  CHECK(info.num_items == 1);
  CHECK(info.submitted_ns > 0);
  CHECK(info.first_prepare_ns >= info.submitted_ns);
  CHECK(info.last_prepare_ns >= info.first_prepare_ns);
  CHECK(info.first_encode_ns >= info.last_prepare_ns);
  CHECK(info.last_encode_ns >= info.first_encode_ns);
  CHECK(info.first_prefill_ns >= info.submitted_ns);
  CHECK(info.first_token_ns >= info.last_encode_ns);
  CHECK(info.ended_ns >= info.first_token_ns);

  rserve_item item = RSERVE_ITEM_INIT;
  REQUIRE(rserve_detail_get_item(detail.get(), 0, &item, nullptr) == RSERVE_STATUS_OK);
  CHECK(item.tokens == 15);
  CHECK(item.token_begin == 1);  // after <|vision_start|>
  CHECK(item.grid_h == 6);
  CHECK(item.grid_w == 10);
  CHECK(item.resized_width == 40);
  CHECK(rserve_detail_get_item(detail.get(), 1, &item, nullptr) == RSERVE_STATUS_OUT_OF_RANGE);

  size_t count = 0;
  const float* logits = rserve_detail_logits(detail.get(), &count);
  REQUIRE(count == static_cast<size_t>(kTinyVocab));
  for (size_t i = 0; i < count; ++i) CHECK(logits[i] <= logits[info.token]);
  REQUIRE(rserve_detail_embeddings(detail.get(), &count) != nullptr);
  CHECK(count == static_cast<size_t>(15 * kTinyHidden));
  REQUIRE(rserve_detail_tokens(detail.get(), &count) != nullptr);
  CHECK(count == static_cast<size_t>(info.prompt_tokens));
  CHECK(std::string(rserve_detail_message(detail.get(), &count)).empty());

  for (const rserve_event& event : events) {
    CHECK(event.user_data == 99);
    if (event.type == RSERVE_EVENT_FIRST_TOKEN) {
      CHECK(event.u.first_token.token == info.token);
      CHECK(event.u.first_token.ttft_ns == info.first_token_ns - info.submitted_ns);
    }
    if (event.type == RSERVE_EVENT_ITEM_ENCODED) CHECK(event.u.item.tokens == 15);
  }
}

TEST_CASE("a failed request's detail says why") {
  const EnginePtr engine = MustCreate(TinyConfig());
  std::vector<uint8_t> png = TestPng(40, 40, 3);
  png.erase(png.end() - 100, png.end());
  const std::vector<rserve_part> parts = {ImagePart(png)};
  uint64_t id = 0;
  REQUIRE(Submit(engine.get(), RequestOf(parts), &id).code == RSERVE_STATUS_OK);
  const std::vector<rserve_event> events = WaitFor(engine.get(), 1);
  CHECK(events.back().type == RSERVE_EVENT_FAILED);
  CHECK(events.back().status == RSERVE_STATUS_INVALID_ARGUMENT);
  const DetailPtr detail = DetailOf(engine.get(), id);
  size_t length = 0;
  const char* message = rserve_detail_message(detail.get(), &length);
  CHECK(std::strlen(message) == length);
  CHECK(std::string(message).find("picture 0") != std::string::npos);
}

TEST_CASE("a request without a detail is gone with its terminal event") {
  const EnginePtr engine = MustCreate(TinyConfig());
  const std::vector<uint8_t> png = TestPng(56, 56, 1);
  const std::vector<rserve_part> parts = {TextPart("a"), ImagePart(png)};
  rserve_request request = RequestOf(parts);
  request.flags = RSERVE_REQUEST_F_NO_DETAIL;
  uint64_t id = 0;
  REQUIRE(Submit(engine.get(), request, &id).code == RSERVE_STATUS_OK);
  // Polled when all is over: what an event says must not depend on how late it is polled.
  rserve_stats stats = RSERVE_STATS_INIT;
  while (stats.finished == 0) rserve_engine_get_stats(engine.get(), &stats, nullptr);
  for (const rserve_event& event : WaitFor(engine.get(), 1)) {
    if (event.type == RSERVE_EVENT_ITEM_ENCODED || event.type == RSERVE_EVENT_INPUT_RELEASED) {
      CHECK(event.u.item.tokens == 49);
    }
  }
  rserve_detail* detail = nullptr;
  CHECK(rserve_request_detail(engine.get(), id, &detail, nullptr) == RSERVE_STATUS_NOT_FOUND);
}

TEST_CASE("a timeout that has passed fails the request with DEADLINE_EXCEEDED") {
  const EnginePtr engine = MustCreate(TinyConfig());
  const std::vector<uint8_t> png = TestPng(120, 120, 1);
  const std::vector<rserve_part> parts(16, ImagePart(png));
  rserve_request request = RequestOf(parts);
  request.timeout_ns = 1;
  uint64_t id = 0;
  REQUIRE(Submit(engine.get(), request, &id).code == RSERVE_STATUS_OK);
  CHECK(WaitFor(engine.get(), 1).back().status == RSERVE_STATUS_DEADLINE_EXCEEDED);
}

TEST_CASE("hostile pictures are refused at submit without being decoded") {
  const EnginePtr engine = MustCreate(TinyConfig());
  const std::vector<std::pair<std::vector<uint8_t>, rserve_status_t>> pictures = {
      {PngHeader(65535, 65535), RSERVE_STATUS_RESOURCE_EXHAUSTED},
      {PngHeader(0x7fffffff, 0x7fffffff), RSERVE_STATUS_RESOURCE_EXHAUSTED},
      {PngHeader(0, 10), RSERVE_STATUS_INVALID_ARGUMENT},
      {PngHeader(1, 5000), RSERVE_STATUS_INVALID_ARGUMENT},  // an aspect ratio of 5000
      {{0x89, 'P', 'N', 'G'}, RSERVE_STATUS_INVALID_ARGUMENT},
      {{0xff, 0xd8, 0xff, 0xc0, 0, 11, 8, 0xff}, RSERVE_STATUS_INVALID_ARGUMENT},
      {{'G', 'I', 'F', '8', '9', 'a', 0xff, 0xff, 0xff, 0x7f}, RSERVE_STATUS_INVALID_ARGUMENT},
      {{0}, RSERVE_STATUS_INVALID_ARGUMENT},
  };
  for (size_t i = 0; i < pictures.size(); ++i) {
    const std::vector<rserve_part> parts = {TextPart("a"), ImagePart(pictures[i].first)};
    uint64_t id = 0;
    const Failure failure = Submit(engine.get(), RequestOf(parts), &id);
    CAPTURE(i, failure.message);
    CHECK(failure.code == pictures[i].second);
    CHECK(failure.Mentions("part 1"));
  }
}

TEST_CASE("a literal <|image_pad|> in a user's text is text") {
  const EnginePtr engine = MustCreate(TinyConfig());
  const std::string text = "<|image_pad|> and <|im_end|>";
  const std::vector<rserve_part> parts = {TextPart(text)};
  const PlanPtr plan = PlanOf(engine.get(), RequestOf(parts));
  size_t count = 0;
  const int32_t* tokens = rserve_plan_tokens(plan.get(), &count);
  for (size_t i = 0; i < count; ++i) CHECK(tokens[i] < 1266);
  CHECK(Decode(engine.get(), tokens, count) == text);
  uint64_t id = 0;
  CHECK(Submit(engine.get(), RequestOf(parts), &id).code == RSERVE_STATUS_OK);
  CHECK(WaitFor(engine.get(), 1).back().type == RSERVE_EVENT_FINISHED);
}

TEST_CASE("a chat is divided by its roles") {
  const EnginePtr engine = MustCreate(TinyConfig());
  const std::vector<uint8_t> png = TestPng(8, 8, 1);
  const std::string system = "system", user = "user";
  std::vector<rserve_part> parts = {TextPart(system), TextPart("Be brief."), TextPart(user),
                                    ImagePart(png), TextPart("?")};
  parts[0].type = parts[2].type = RSERVE_PART_ROLE;
  rserve_request request = RequestOf(parts);
  request.flags = RSERVE_REQUEST_F_CHAT | RSERVE_REQUEST_F_NUMBER_IMAGES;
  const PlanPtr plan = PlanOf(engine.get(), request);
  size_t count = 0;
  const int32_t* tokens = rserve_plan_tokens(plan.get(), &count);
  CHECK(Decode(engine.get(), tokens, count) ==
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nPicture 1: "
        "<|vision_start|><|image_pad|><|vision_end|>?<|im_end|>\n<|im_start|>assistant\n");

  const std::vector<rserve_part> plain(parts.begin() + 3, parts.end());
  request = RequestOf(plain);
  request.flags = RSERVE_REQUEST_F_CHAT;
  const PlanPtr user_only = PlanOf(engine.get(), request);
  tokens = rserve_plan_tokens(user_only.get(), &count);
  CHECK(Decode(engine.get(), tokens, count).find("user\n<|vision_start|>") != std::string::npos);

  parts[0] = TextPart("nobody");
  parts[0].type = RSERVE_PART_ROLE;
  request = RequestOf(parts);
  request.flags = RSERVE_REQUEST_F_CHAT;
  uint64_t id = 0;
  CHECK(Submit(engine.get(), request, &id).code == RSERVE_STATUS_INVALID_ARGUMENT);
  parts[0].type = RSERVE_PART_TEMPLATE;
  CHECK(Submit(engine.get(), request, &id).Mentions("parts[0]"));
  request.flags = RSERVE_REQUEST_F_NUMBER_IMAGES;
  CHECK(Submit(engine.get(), request, &id).code == RSERVE_STATUS_INVALID_ARGUMENT);
}

TEST_CASE("a plan says what does not fit and is a plan all the same") {
  rserve_engine_config config = TinyConfig();
  config.kv_tokens = 16;
  const EnginePtr engine = MustCreate(config);
  const std::vector<uint8_t> png = TestPng(40, 40, 1);
  const std::vector<rserve_part> parts = {ImagePart(png)};
  const PlanPtr plan = PlanOf(engine.get(), RequestOf(parts));
  rserve_plan_info info = RSERVE_PLAN_INFO_INIT;
  REQUIRE(rserve_plan_get_info(plan.get(), &info, nullptr) == RSERVE_STATUS_OK);
  CHECK(info.fits == RSERVE_STATUS_RESOURCE_EXHAUSTED);
  size_t length = 0;
  CHECK(std::string(rserve_plan_message(plan.get(), &length)).find("kv_tokens") !=
        std::string::npos);
  CHECK(info.prompt_tokens == 27);  // 25 and two markers
  CHECK(info.num_items == 1);
  CHECK(info.embedding_bytes == 25 * kTinyRowBytes);
  CHECK(info.pixel_bytes == 100 * 96 * 4);
  CHECK(info.kv_blocks == 2);
  rserve_item item = RSERVE_ITEM_INIT;
  CHECK(rserve_plan_get_item(plan.get(), 0, &item, nullptr) == RSERVE_STATUS_OK);
  CHECK(item.tokens == 25);
  size_t count = 0;
  const int32_t* positions = rserve_plan_positions(plan.get(), &count);
  REQUIRE(count == 81);
  CHECK(positions[26] == 6);  // after the picture: the largest position used plus one
  CHECK(info.mrope_delta == 7 - 27);
  uint64_t id = 0;
  CHECK(Submit(engine.get(), RequestOf(parts), &id).code == RSERVE_STATUS_RESOURCE_EXHAUSTED);
}

TEST_CASE("decode cuts at the capacity and tells the whole length") {
  const EnginePtr engine = MustCreate(TinyConfig());
  const int32_t tokens[] = {1267, 1268, -5, 99999};
  char text[6] = {'x', 'x', 'x', 'x', 'x', 'x'};
  size_t length = 0;
  CHECK(rserve_engine_decode(engine.get(), tokens, 4, text, 5, &length, nullptr) ==
        RSERVE_STATUS_OK);
  CHECK(length == std::strlen("<|im_start|><|im_end|>"));
  CHECK(std::string(text, 6) == "<|im_x");
}

}  // namespace
}  // namespace rserve::testing
