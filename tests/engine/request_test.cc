// What a request can be, what is refused, and how requests end.

#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rserve/cc/model_engine.h"
#include "tests/engine/harness.h"
#include "tests/engine/tiny_model.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

bool Mentions(const absl::Status& status, const std::string& text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

ModelRequest OfParts(std::vector<RequestPart> parts) {
  ModelRequest request;
  request.parts = std::move(parts);
  return request;
}

// ---- Refusals
// ------------------------------------------------------------------------------------

struct Refusal {
  const char* what;
  std::function<void(ModelEngineOptions*, ModelRequest*)> arrange;
  absl::StatusCode code;
  std::vector<std::string> words;
};

TEST_CASE("a request that can never run is refused at submit, with value and option") {
  static const std::vector<uint8_t> picture = TestPng(64, 64, 1);  // 64 tokens
  static const std::vector<uint8_t> bomb = PngHeader(65535, 65535);
  static const std::vector<uint8_t> thin = TestPixels(2, 2, 1);
  static const std::vector<uint8_t> tall = TestPixels(8, 1608, 1);  // 201 : 1
  const Refusal refusals[] = {
      {"prompt over the KV cache",
       [](ModelEngineOptions* o, ModelRequest* r) {
         o->kv_tokens = 32;
         r->parts = {TokenIds{std::vector<int32_t>(32, 5)}};
       },
       absl::StatusCode::kResourceExhausted,
       {"32", "33", "kv_tokens"}},
      {"prompt over the context",
       [](ModelEngineOptions*, ModelRequest* r) {
         r->parts = {TokenIds{std::vector<int32_t>(kTinyContext + 1, 5)}};
       },
       absl::StatusCode::kResourceExhausted,
       {"4097", "4096", "max_prompt_tokens"}},
      {"picture over the encoder's batch",
       [](ModelEngineOptions* o, ModelRequest* r) {
         o->encoder_batch_tokens = 63;
         r->parts = {UserText{"a"}, EncodedImage{picture}};
       },
       absl::StatusCode::kResourceExhausted,
       {"picture 0", "part 1", "64", "63", "encoder_batch_tokens"}},
      {"picture over the embedding budget",
       [](ModelEngineOptions* o, ModelRequest* r) {
         o->embedding_bytes = 63 * kTinyRowBytes;
         r->parts = {EncodedImage{picture}};
       },
       absl::StatusCode::kResourceExhausted,
       {"embedding_bytes"}},
      {"input over the host's budget",
       [](ModelEngineOptions* o, ModelRequest* r) {
         o->input_bytes = 100;
         r->parts = {EncodedImage{picture}};
       },
       absl::StatusCode::kResourceExhausted,
       {"100", "input_bytes"}},
      {"image bomb",
       [](ModelEngineOptions*, ModelRequest* r) { r->parts = {EncodedImage{bomb}}; },
       absl::StatusCode::kResourceExhausted,
       {"picture 0", "max_image_pixels"}},
      {"pixel bomb",
       [](ModelEngineOptions* o, ModelRequest* r) {
         o->max_image_pixels = 1000;
         r->parts = {PixelImage{PixelLayout::kRgb8, tall, 8, 1608, 0}};
       },
       absl::StatusCode::kResourceExhausted,
       {"8 x 1608", "1000", "max_image_pixels"}},
      {"aspect ratio over 200",
       [](ModelEngineOptions*, ModelRequest* r) {
         r->parts = {PixelImage{PixelLayout::kRgb8, tall, 8, 1608, 0}};
       },
       absl::StatusCode::kInvalidArgument,
       {"picture 0"}},
      {"no picture file",
       [](ModelEngineOptions*, ModelRequest* r) { r->parts = {EncodedImage{thin}}; },
       absl::StatusCode::kInvalidArgument,
       {"picture 0"}},
      {"no bytes",
       [](ModelEngineOptions*, ModelRequest* r) { r->parts = {EncodedImage{}}; },
       absl::StatusCode::kInvalidArgument,
       {"picture 0"}},
      {"no parts",
       [](ModelEngineOptions*, ModelRequest*) {},
       absl::StatusCode::kInvalidArgument,
       {}},
      {"empty text",
       [](ModelEngineOptions*, ModelRequest* r) { r->parts = {UserText{""}}; },
       absl::StatusCode::kInvalidArgument,
       {}},
      {"text that is not UTF-8",
       [](ModelEngineOptions*, ModelRequest* r) { r->parts = {UserText{"a\xff"}}; },
       absl::StatusCode::kInvalidArgument,
       {}},
      {"token out of the vocabulary",
       [](ModelEngineOptions*, ModelRequest* r) { r->parts = {TokenIds{{kTinyVocab}}}; },
       absl::StatusCode::kInvalidArgument,
       {"1280"}},
      {"placeholder among token ids",
       [](ModelEngineOptions*, ModelRequest* r) { r->parts = {TokenIds{{1278}}}; },
       absl::StatusCode::kInvalidArgument,
       {"1278"}},
      {"too few pixels",
       [](ModelEngineOptions*, ModelRequest* r) {
         r->parts = {PixelImage{PixelLayout::kRgb8, thin, 2, 3, 0}};
       },
       absl::StatusCode::kInvalidArgument,
       {"2 x 3", "18", "12"}},
      {"rows that overlap",
       [](ModelEngineOptions*, ModelRequest* r) {
         r->parts = {PixelImage{PixelLayout::kRgb8, thin, 2, 2, 5}};
       },
       absl::StatusCode::kInvalidArgument,
       {"row_stride_bytes", "5"}},
      {"a stride that overflows",
       [](ModelEngineOptions*, ModelRequest* r) {
         r->parts = {PixelImage{PixelLayout::kRgb8, thin, 2, 2, INT64_MAX}};
       },
       absl::StatusCode::kInvalidArgument,
       {"row_stride_bytes"}},
      {"no pixels at all",
       [](ModelEngineOptions*, ModelRequest* r) {
         r->parts = {PixelImage{PixelLayout::kRgb8, thin, 0, -1, 0}};
       },
       absl::StatusCode::kInvalidArgument,
       {"width 0", "height -1"}},
      {"negative temperature",
       [](ModelEngineOptions*, ModelRequest* r) {
         r->parts = {UserText{"a"}};
         r->sampling.temperature = -1;
       },
       absl::StatusCode::kInvalidArgument,
       {"temperature"}},
      {"top_p over 1",
       [](ModelEngineOptions*, ModelRequest* r) {
         r->parts = {UserText{"a"}};
         r->sampling.top_p = 1.5f;
       },
       absl::StatusCode::kInvalidArgument,
       {"top_p"}},
  };
  for (const Refusal& refusal : refusals) {
    ModelEngineOptions options = TinyOptions();
    ModelRequest request;
    refusal.arrange(&options, &request);
    const auto engine = MustCreate(options);
    const absl::StatusOr<RequestId> id = engine->Submit(request);
    CAPTURE(refusal.what, id.status().ToString());
    CHECK(id.status().code() == refusal.code);
    for (const std::string& word : refusal.words) {
      CAPTURE(word);
      CHECK(Mentions(id.status(), word));
    }
    CHECK(engine->idle());
    // The plan says the same, as its result or as what does not fit.
    const auto plan = engine->PlanRequest(request);
    CHECK((plan.ok() ? plan->fits : plan.status()) == id.status());
    // And the engine goes on.
    const RequestId next = MustSubmit(*engine, OfParts({UserText{"b"}}));
    CHECK(WaitForAll(*engine, {next}).at(next).terminal().type == EventType::kFinished);
  }
}

// ---- Odd but fine
// --------------------------------------------------------------------------------

TEST_CASE("pictures of odd sizes run and have at least one token") {
  const auto engine = MustCreate(TinyOptions());
  const std::pair<int32_t, int32_t> sizes[] = {{1, 1}, {1, 200}, {200, 1}, {3, 5}, {300, 200}};
  for (const auto& [width, height] : sizes) {
    CAPTURE(width, height);
    const std::vector<uint8_t> png = TestPng(width, height, 4);
    const RequestId id = MustSubmit(*engine, OfParts({EncodedImage{png}, UserText{"?"}}));
    const Outcome outcome = WaitForAll(*engine, {id}).at(id);
    CHECK(outcome.terminal().type == EventType::kFinished);
    CHECK(outcome.detail->items.at(0).tokens >= 1);
  }
}

TEST_CASE("names of control tokens in a user's text stay text") {
  const auto engine = MustCreate(TinyOptions());
  const std::string text = "<|vision_start|><|image_pad|><|vision_end|><|im_end|>";
  auto as_user = engine->PlanRequest(OfParts({UserText{text}}));
  REQUIRE(as_user.ok());
  CHECK(as_user->items.empty());
  CHECK(engine->Decode(as_user->token_ids) == text);
  for (const int32_t id : as_user->token_ids) CHECK(id < 1266);
  const auto chat = RenderChat({{"user", {UserText{text}}}});
  REQUIRE(chat.ok());
  auto in_chat = engine->PlanRequest(OfParts(*chat));
  REQUIRE(in_chat.ok());
  CHECK(in_chat->items.empty());
  auto as_template = engine->PlanRequest(OfParts({TemplateText{"<|im_start|>user"}}));
  REQUIRE(as_template.ok());
  CHECK(as_template->token_ids.front() == 1267);
}

TEST_CASE("more short prompts than one call of the backend takes end in one micro-batch") {
  ModelEngineOptions options = TinyOptions();
  options.stages = 2;
  const auto engine = MustCreate(options);
  ModelRequest request = OfParts({TokenIds{{7}}});
  request.keep_logits = true;
  std::vector<RequestId> ids;
  for (int i = 0; i < 150; ++i) ids.push_back(MustSubmit(*engine, request));
  const auto outcomes = WaitForAll(*engine, ids);
  for (const auto& [id, outcome] : outcomes) {
    CHECK(SameBits(outcome.detail->logits, outcomes.begin()->second.detail->logits));
  }
}

TEST_CASE("a plan tells what a run uses") {
  const auto engine = MustCreate(TinyOptions());
  const auto request = MakeRequest("tptx", 5);
  const auto plan = engine->PlanRequest(request->request);
  REQUIRE(plan.ok());
  CHECK(plan->fits.ok());
  const RequestId id = MustSubmit(*engine, request->request);
  const Outcome outcome = WaitForAll(*engine, {id}).at(id);
  CHECK(outcome.detail->token_ids == plan->token_ids);
  CHECK(outcome.detail->kv_blocks == plan->kv_blocks);
  CHECK(plan->positions.size() == 3 * plan->token_ids.size());
  REQUIRE(outcome.detail->items.size() == 2);
  int64_t tokens = 0;
  for (size_t i = 0; i < 2; ++i) {
    CHECK(outcome.detail->items[i].tokens == plan->items[i].tokens);
    CHECK(plan->items[i].tokens == int64_t{plan->items[i].grid_h} * plan->items[i].grid_w / 4);
    tokens += plan->items[i].tokens;
  }
  CHECK(plan->embedding_bytes == tokens * kTinyRowBytes);
  CHECK(outcome.detail->embeddings.size() == static_cast<size_t>(tokens * kTinyHidden));
  CHECK(engine->stats().peak_embedding_bytes <= plan->embedding_bytes);
  CHECK(engine->stats().kv_blocks_used == 0);
}

TEST_CASE("a chat message is the template around its parts") {
  const auto engine = MustCreate(TinyOptions());
  const std::vector<uint8_t> png = TestPng(16, 16, 9);
  const auto parts = RenderChat({{"user", {EncodedImage{png}, UserText{"Which digit?"}}}});
  REQUIRE(parts.ok());
  const auto plan = engine->PlanRequest(OfParts(*parts));
  REQUIRE(plan.ok());
  CHECK(engine->Decode(plan->token_ids) ==
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
        "<|vision_start|><|image_pad|><|image_pad|><|image_pad|><|image_pad|><|vision_end|>"
        "Which digit?<|im_end|>\n<|im_start|>assistant\n");
  const auto numbered = RenderChat({{"user", {EncodedImage{png}, UserText{"?"}}}}, true);
  REQUIRE(numbered.ok());
  const auto numbered_plan = engine->PlanRequest(OfParts(*numbered));
  REQUIRE(numbered_plan.ok());
  CHECK(engine->Decode(numbered_plan->token_ids).find("Picture 1: <|vision_start|>") !=
        std::string::npos);
  CHECK_FALSE(RenderChat({}).ok());
  CHECK_FALSE(RenderChat({{"user", {TokenIds{{1}}}}}).ok());
  CHECK_FALSE(RenderChat({{"nobody", {UserText{"a"}}}}).ok());
}

// ---- Memory of the host
// --------------------------------------------------------------------------

TEST_CASE("borrowed pixels may be overwritten after their input-released event") {
  const auto engine = MustCreate(TinyOptions());
  std::vector<std::vector<uint8_t>> pictures;
  for (uint64_t i = 0; i < 6; ++i) pictures.push_back(TestPixels(40, 32, i));
  ModelRequest request;
  request.keep_logits = true;
  for (const auto& pixels : pictures) {
    request.parts.push_back(PixelImage{PixelLayout::kRgb8, pixels, 40, 32, 0, true});
  }
  const RequestId clean = MustSubmit(*engine, request);
  const auto expected = WaitForAll(*engine, {clean}).at(clean).detail;
  const RequestId id = MustSubmit(*engine, request);
  const auto outcome = WaitForAll(*engine, {id}, [&](const Event& event) {
    if (event.type != EventType::kInputReleased) return;
    std::vector<uint8_t>& pixels = pictures[static_cast<size_t>(event.item)];
    pixels.assign(pixels.size(), 0xee);
  });
  CHECK(SameBits(outcome.at(id).detail->logits, expected->logits));
}

TEST_CASE("rows with padding, files and copied pixels of one picture give the same bits") {
  const auto engine = MustCreate(TinyOptions());
  const std::vector<uint8_t> pixels = TestPixels(19, 27, 8);
  const std::vector<uint8_t> png = TestPng(19, 27, 8);
  std::vector<uint8_t> padded(26 * 64 + 57, 0xaa);
  for (size_t y = 0; y < 27; ++y) std::copy_n(&pixels[y * 57], 57, &padded[y * 64]);
  std::vector<std::vector<float>> logits;
  for (const bool borrow : {false, true}) {
    for (const RequestPart& part :
         {RequestPart{EncodedImage{png, borrow}},
          RequestPart{PixelImage{PixelLayout::kRgb8, pixels, 19, 27, 0, borrow}},
          RequestPart{PixelImage{PixelLayout::kRgb8, padded, 19, 27, 64, borrow}}}) {
      ModelRequest request = OfParts({part, UserText{"?"}});
      request.keep_logits = true;
      const RequestId id = MustSubmit(*engine, request);
      logits.push_back(WaitForAll(*engine, {id}).at(id).detail->logits);
    }
  }
  for (const auto& other : logits) CHECK(SameBits(other, logits.front()));
}

TEST_CASE("a picture whose pixels are corrupt fails its request alone") {
  const auto engine = MustCreate(TinyOptions());
  std::vector<uint8_t> cut = TestPng(48, 48, 2);
  cut.resize(cut.size() / 2);
  std::vector<uint8_t> flipped = TestPng(48, 48, 2);
  flipped[flipped.size() / 2] ^= 0x10;
  const RequestId first = MustSubmit(*engine, OfParts({EncodedImage{cut}, UserText{"?"}}));
  const RequestId second = MustSubmit(*engine, OfParts({EncodedImage{flipped}, UserText{"?"}}));
  const RequestId third = MustSubmit(*engine, OfParts({UserText{"fine"}}));
  const auto outcomes = WaitForAll(*engine, {first, second, third});
  for (const RequestId id : {first, second}) {
    CHECK(outcomes.at(id).terminal().type == EventType::kFailed);
    CHECK(outcomes.at(id).detail->status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(Mentions(outcomes.at(id).detail->status, "picture 0"));
  }
  CHECK(outcomes.at(third).terminal().type == EventType::kFinished);
}

// ---- Ends
// ----------------------------------------------------------------------------------------

TEST_CASE("requests that end early leave the others' bits alone and give everything back") {
  ModelEngineOptions options = TinyOptions();
  options.token_budget = 16;
  options.encode_batch_tokens = 8;
  options.stages = 3;
  options.encoders = 2;
  options.scheme = GENERATE(Scheme::kRserve, Scheme::kEpd, Scheme::kColocated, Scheme::kAdaptive);
  const auto engine = MustCreate(options);
  std::vector<std::unique_ptr<OwnedRequest>> requests;
  for (uint64_t i = 0; i < 8; ++i) requests.push_back(MakeRequest("tpxptx", 40 + i));
  const std::vector<Outcome> alone = RunAll(*engine, requests, /*together=*/false);
  for (uint64_t round = 0; round < 6; ++round) {
    CAPTURE(round, SchemeName(options.scheme));
    std::vector<RequestId> ids;
    for (const auto& request : requests) ids.push_back(MustSubmit(*engine, request->request));
    uint64_t seen = 0;
    const auto outcomes = WaitForAll(*engine, ids, [&](const Event&) {
      // Every other request is cancelled at some event of the round, the same one every time.
      const uint64_t victim = 2 * (seen++ / (3 + 2 * round));
      if (victim < ids.size()) engine->Cancel(ids[victim]).IgnoreError();
    });
    for (size_t i = 0; i < ids.size(); ++i) {
      const Outcome& outcome = outcomes.at(ids[i]);
      CAPTURE(i, outcome.terminal().status.ToString());
      if (i % 2 == 1) CHECK(outcome.terminal().type == EventType::kFinished);
      CHECK(outcome.terminal().type != EventType::kFailed);
      if (outcome.terminal().type != EventType::kFinished) continue;
      CHECK(SameBits(outcome.detail->logits, alone[i].detail->logits));
    }
  }
  const RequestId last = MustSubmit(*engine, requests[0]->request);
  CHECK(SameBits(WaitForAll(*engine, {last}).at(last).detail->logits, alone[0].detail->logits));
}

TEST_CASE("a deadline that has passed fails the request") {
  const auto engine = MustCreate(TinyOptions());
  const auto request = MakeRequest("ptp", 1);
  request->request.deadline_ns = Engine::now_ns() - 1;
  const RequestId id = MustSubmit(*engine, request->request);
  const Outcome outcome = WaitForAll(*engine, {id}).at(id);
  CHECK(outcome.terminal().type == EventType::kFailed);
  CHECK(outcome.detail->status.code() == absl::StatusCode::kDeadlineExceeded);
}

TEST_CASE("after a drain the open requests finish and new ones are refused") {
  const auto engine = MustCreate(TinyOptions());
  const auto request = MakeRequest("ptpt", 1);
  const RequestId id = MustSubmit(*engine, request->request);
  engine->Drain();
  CHECK(engine->Submit(request->request).status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK(WaitForAll(*engine, {id}).at(id).terminal().type == EventType::kFinished);
}

TEST_CASE("an abort ends every request once") {
  const auto engine = MustCreate(TinyOptions());
  std::vector<std::unique_ptr<OwnedRequest>> requests;
  std::vector<RequestId> ids;
  for (uint64_t i = 0; i < 12; ++i) {
    requests.push_back(MakeRequest("ppptpp", i));
    ids.push_back(MustSubmit(*engine, requests.back()->request));
  }
  engine->Abort();
  for (const auto& [id, outcome] : WaitForAll(*engine, ids)) {
    CHECK(outcome.terminal().type != EventType::kFailed);
  }
}

TEST_CASE("an engine with open requests and borrowed pictures can be destroyed") {
  const auto request = MakeRequest("pppxxx", 1);
  for (RequestPart& part : request->request.parts) {
    if (auto* image = std::get_if<EncodedImage>(&part)) image->borrow = true;
    if (auto* image = std::get_if<PixelImage>(&part)) image->borrow = true;
  }
  auto engine = MustCreate(TinyOptions());
  for (int i = 0; i < 4; ++i) MustSubmit(*engine, request->request);
  engine.reset();
  for (auto& memory : request->memory) memory.assign(memory.size(), 0);
}

// ---- Details
// -------------------------------------------------------------------------------------

TEST_CASE("a detail is there from submit to acknowledge") {
  ModelEngineOptions options = TinyOptions();
  options.max_unacknowledged = 1;
  const auto engine = MustCreate(options);
  ModelRequest request = OfParts({UserText{"hello"}});
  request.user_data = 77;
  const RequestId id = MustSubmit(*engine, request);
  REQUIRE(engine->Detail(id).ok());
  CHECK((*engine->Detail(id))->user_data == 77);
  CHECK(engine->Acknowledge(id).code() == absl::StatusCode::kFailedPrecondition);
  const Outcome outcome = WaitForAll(*engine, {id}).at(id);  // acknowledges
  CHECK(outcome.detail->last_event == EventType::kFinished);
  CHECK(outcome.detail->times.submitted_ns <= outcome.detail->times.first_prefill_ns);
  CHECK(outcome.detail->times.first_prefill_ns <= outcome.detail->times.first_token_ns);
  CHECK(outcome.detail->times.first_token_ns <= outcome.detail->ended_ns);
  CHECK(outcome.detail->logits.empty());  // not asked for
  CHECK(engine->Detail(id).status().code() == absl::StatusCode::kNotFound);
  CHECK(engine->Acknowledge(id).code() == absl::StatusCode::kNotFound);
  CHECK(engine->Cancel(id).code() == absl::StatusCode::kNotFound);

  request.discard_detail = true;
  const RequestId silent = MustSubmit(*engine, request);
  const RequestId kept = MustSubmit(*engine, OfParts({UserText{"kept"}}));
  std::vector<Event> events;
  for (int open = 2; open > 0;) {
    events.clear();
    engine->Poll(16, &events);
    for (const Event& event : events) open -= event.more ? 0 : 1;
  }
  CHECK(engine->Detail(silent).status().code() == absl::StatusCode::kNotFound);
  CHECK(engine->Detail(kept).ok());
  const absl::Status full = engine->Submit(request).status();
  CHECK(full.code() == absl::StatusCode::kResourceExhausted);
  CHECK(Mentions(full, "max_unacknowledged"));
  CHECK(engine->Acknowledge(kept).ok());
  CHECK(engine->Submit(request).ok());
}

TEST_CASE("the first token is the largest logit and its probability the softmax's") {
  const auto engine = MustCreate(TinyOptions());
  const auto request = MakeRequest("tp", 12);
  const RequestId id = MustSubmit(*engine, request->request);
  const auto detail = WaitForAll(*engine, {id}).at(id).detail;
  const std::vector<float>& logits = detail->logits;
  const auto best = static_cast<size_t>(detail->first_token.token);
  double sum = 0;
  for (const float logit : logits) {
    CHECK(logit <= logits[best]);
    sum += std::exp(static_cast<double>(logit));
  }
  CHECK(static_cast<double>(detail->first_token.logprob) ==
        Approx(static_cast<double>(logits[best]) - std::log(sum)));
}

// ---- Creation
// ------------------------------------------------------------------------------------

TEST_CASE("a folder that is missing, incomplete or damaged is refused with the file's name") {
  ModelEngineOptions options = TinyOptions();
  options.model_path = TinyModelFolder() + "/nowhere";
  CHECK(ModelEngine::Create(options).status().code() == absl::StatusCode::kNotFound);
  options.model_path = "";
  CHECK(ModelEngine::Create(options).status().code() == absl::StatusCode::kInvalidArgument);

  const TempFolder folder;
  options.model_path = folder.path();
  CHECK(ModelEngine::Create(options).status().code() == absl::StatusCode::kNotFound);
  REQUIRE(WriteTinyModel(RSERVE_SOURCE_DIR, folder.path()));
  const std::string weights = folder.path() + "/model.safetensors";
  std::string bytes;
  {
    std::ifstream in(weights, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  for (const size_t size : {size_t{0}, size_t{7}, size_t{100}, bytes.size() - 1}) {
    CAPTURE(size);
    std::ofstream(weights, std::ios::binary | std::ios::trunc).write(bytes.data(), size);
    const absl::Status status = ModelEngine::Create(options).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(Mentions(status, "model.safetensors"));
  }
}

TEST_CASE("an option out of range is refused by its name") {
  const std::pair<const char*, std::function<void(ModelEngineOptions*)>> wrong[] = {
      {"stages", [](ModelEngineOptions* o) { o->stages = 0; }},
      {"stages", [](ModelEngineOptions* o) { o->stages = kTinyLayers + 1; }},
      {"encoders", [](ModelEngineOptions* o) { o->encoders = -1; }},
      {"order_stretch", [](ModelEngineOptions* o) { o->order_stretch = 1001; }},
      {"order_guard_ns", [](ModelEngineOptions* o) { o->order_guard_ns = -1; }},
      {"slo_ns", [](ModelEngineOptions* o) { o->order = Order::kFeasibleFirst; }},
      {"min_token_budget", [](ModelEngineOptions* o) { o->min_token_budget = -1; }},
      {"stage_layers", [](ModelEngineOptions* o) { o->stage_layers = {1}; }},
      {"media_threads", [](ModelEngineOptions* o) { o->media_threads = 0; }},
      {"token_budget", [](ModelEngineOptions* o) { o->token_budget = -1; }},
      {"encode_batch_tokens", [](ModelEngineOptions* o) { o->encode_batch_tokens = -1; }},
      {"kv_tokens", [](ModelEngineOptions* o) { o->kv_tokens = -5; }},
      {"kv_tokens", [](ModelEngineOptions* o) { o->kv_tokens = int64_t{1} << 60; }},
      {"worker_cores", [](ModelEngineOptions* o) { o->worker_cores = {{0}}; }},
      {"worker_cores",
       [](ModelEngineOptions* o) {
         o->worker_cores = {{100000}, {0}};
       }},
      {"worker_threads",
       [](ModelEngineOptions* o) {
         o->worker_threads = {1, 0};
       }},
      {"trigger", [](ModelEngineOptions* o) { o->trigger = EncodeTrigger::kOnChunk; }},
  };
  for (const auto& [name, spoil] : wrong) {
    ModelEngineOptions options = TinyOptions();
    spoil(&options);
    const absl::Status status = ModelEngine::Create(options).status();
    CAPTURE(name, status.ToString());
    CHECK_FALSE(status.ok());
    CHECK(Mentions(status, name));
  }
}

TEST_CASE("info, progress and trace tell what the engine is and does") {
  ModelEngineOptions options = TinyOptions();
  options.stages = 2;
  int64_t done = 0, total = 0;
  options.load_progress = [&](int64_t done_bytes, int64_t total_bytes) {
    done = done_bytes;
    total = total_bytes;
  };
  std::vector<TraceSpan> spans;  // written by the driver's thread, read after its end
  options.trace = [&](const TraceSpan& span) { spans.push_back(span); };
  auto engine = MustCreate(options);
  CHECK(done == total);
  CHECK(total > 0);
  const ModelInfo& info = engine->info();
  CHECK(info.vocab_size == kTinyVocab);
  CHECK(info.hidden_size == kTinyHidden);
  CHECK(info.num_layers == kTinyLayers);
  CHECK(info.topology == "PP2+E1");
  REQUIRE(info.workers.size() == 3);
  CHECK(info.workers[0].num_layers == 3);
  CHECK(info.workers[1].first_layer == 3);
  CHECK(info.workers[2].spec.encoder);
  CHECK(info.weight_bytes > 0);
  const auto request = MakeRequest("pt", 3);
  const RequestId id = MustSubmit(*engine, request->request);
  const auto detail = WaitForAll(*engine, {id}).at(id).detail;
  engine.reset();
  int64_t prepares = 0, encoded_tokens = 0, stage_tokens = 0;
  for (const TraceSpan& span : spans) {
    CHECK(span.begin_ns <= span.end_ns);
    if (span.kind == TraceSpan::Kind::kPrepare) ++prepares;
    if (span.kind == TraceSpan::Kind::kEncode) encoded_tokens += span.tokens;
    if (span.kind == TraceSpan::Kind::kStage) stage_tokens += span.tokens;
  }
  CHECK(prepares == 1);
  CHECK(encoded_tokens == detail->items.at(0).tokens);
  CHECK(stage_tokens == 2 * static_cast<int64_t>(detail->token_ids.size()));
}

}  // namespace
}  // namespace rserve::testing
