#include "tests/runtime/engine_fixture.h"

#include <poll.h>

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/catch.h"

namespace rserve::testing {

RequestPlan TextPlan(RequestId id, int64_t tokens) {
  RequestPlan plan;
  plan.id = id;
  plan.prompt_tokens = tokens;
  return plan;
}

RequestPlan ImagePlan(RequestId id, const std::vector<int64_t>& image_tokens) {
  RequestPlan plan = TextPlan(id, 2);
  for (const int64_t tokens : image_tokens) {
    UnitPlan unit;
    unit.item = plan.num_items;
    unit.tokens = tokens;
    unit.embedding_bytes = 16 * tokens;
    unit.pixel_bytes = 4 * tokens;
    plan.units.push_back(unit);
    SpanPlan span;
    span.token_begin = plan.prompt_tokens;
    span.tokens = tokens;
    span.item = plan.num_items;
    plan.spans.push_back(span);
    plan.num_items += 1;
    plan.prompt_tokens += tokens + 2;
  }
  return plan;
}

EngineOptions SmallOptions(int32_t stages) {
  EngineOptions options;
  options.core.workers = SchemePlacement(Scheme::kRserve, stages, /*encoders=*/1);
  options.core.policy = SchemePolicy(Scheme::kRserve);
  options.core.policy.token_budget = 8;
  options.core.policy.encode_batch_tokens = 1;
  return options;
}

std::string ToString(const Event& event) {
  const auto with = [&](absl::string_view what) { return absl::StrCat(event.request, " ", what); };
  switch (event.type) {
    case EventType::kAccepted:
      return with("accepted");
    case EventType::kItemEncoded:
      return with(absl::StrCat("encoded ", event.item));
    case EventType::kInputReleased:
      return with(absl::StrCat("released ", event.item));
    case EventType::kFirstToken:
      return with(absl::StrCat("first token ", event.first_token.token));
    case EventType::kFinished:
      return with("finished");
    case EventType::kFailed:
      return with(absl::StrCat("failed ", event.status.ToString()));
    case EventType::kCancelled:
      return with("cancelled");
    case EventType::kRefused:
      break;
  }
  return with("?");
}

EngineFixture::EngineFixture(EngineOptions options) : gate_(std::make_shared<ActionGate>()) {
  auto engine = Engine::Create(std::move(options), std::make_unique<GatedExecutor>(gate_));
  INFO(engine.status());
  REQUIRE(engine.ok());
  engine_ = *std::move(engine);
}

EngineFixture::~EngineFixture() {
  gate_->Open();
  engine_.reset();
  CHECK(gate_->violations() == std::vector<std::string>{});
}

Event EngineFixture::NextEvent() {
  std::vector<Event> events;
  while (engine_->Poll(1, &events) == 0) AwaitReadable(engine_->wait_fd());
  return events.front();
}

std::vector<std::string> EngineFixture::UntilEnd(RequestId request) {
  std::vector<std::string> lines;
  for (;;) {
    const Event event = NextEvent();
    lines.push_back(ToString(event));
    if (event.request == request && IsTerminal(event.type)) return lines;
  }
}

void EngineFixture::AwaitIdle() {
  while (!engine_->idle()) std::this_thread::yield();
}

bool Readable(int fd) {
  pollfd entry = {fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

void AwaitReadable(int fd) {
  pollfd entry = {fd, POLLIN, 0};
  ::poll(&entry, 1, -1);
}

}  // namespace rserve::testing
