#include "tests/engine/harness.h"

#include <poll.h>

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/engine/tiny_model.h"
#include "tests/support/catch.h"

namespace rserve::testing {

namespace {

// Only a hang takes this long, also under a sanitizer on a busy machine.
constexpr int kHangMs = 120000;

void CheckEvents(const Outcome& outcome, size_t num_items) {
  const std::vector<Event>& events = outcome.events;
  REQUIRE(events.size() >= 2);
  CHECK(events.front().type == EventType::kAccepted);
  std::multiset<int32_t> released;
  int first_tokens = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    CHECK(events[i].more == (i + 1 < events.size()));
    CHECK(IsTerminal(events[i].type) == (i + 1 == events.size()));
    if (events[i].type == EventType::kInputReleased) released.insert(events[i].item);
    if (events[i].type == EventType::kFirstToken) ++first_tokens;
  }
  CHECK(first_tokens <= 1);
  if (outcome.terminal().type == EventType::kFinished) CHECK(first_tokens == 1);
  CHECK(released.size() == num_items);
  CHECK(std::set<int32_t>(released.begin(), released.end()).size() == num_items);
}

}  // namespace

ModelEngineOptions TinyOptions() {
  ModelEngineOptions options;
  options.scheme = Scheme::kRserve;
  options.model_path = TinyModelFolder();
  options.pin_threads = false;
  options.threads = 1;
  options.kv_tokens = 16384;
  return options;
}

std::unique_ptr<OwnedRequest> MakeRequest(const std::string& layout, uint64_t seed) {
  auto owned = std::make_unique<OwnedRequest>();
  owned->request.keep_logits = true;
  owned->request.keep_embeddings = true;
  for (const char kind : layout) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const auto width = static_cast<int32_t>(9 + (seed >> 33) % 40);
    const auto height = static_cast<int32_t>(9 + (seed >> 43) % 40);
    if (kind == 't') {
      owned->request.parts.push_back(
          UserText{absl::StrCat("What do the numbers say about ", seed % 97, "?")});
    } else if (kind == 'c') {
      owned->request.parts.push_back(TokenIds{{1267}});
    } else if (kind == 'p') {
      owned->memory.push_back(TestPng(width, height, seed));
      owned->request.parts.push_back(EncodedImage{owned->memory.back(), false});
    } else {
      owned->memory.push_back(TestPixels(width, height, seed));
      owned->request.parts.push_back(
          PixelImage{PixelLayout::kRgb8, owned->memory.back(), width, height, 0, false});
    }
  }
  return owned;
}

std::map<RequestId, Outcome> WaitForAll(ModelEngine& engine, std::vector<RequestId> requests,
                                        const std::function<void(const Event&)>& on_event) {
  std::map<RequestId, Outcome> outcomes;
  for (const RequestId id : requests) outcomes[id];
  size_t open = requests.size();
  std::vector<Event> events;
  while (open > 0) {
    pollfd wait = {engine.wait_fd(), POLLIN, 0};
    REQUIRE(poll(&wait, 1, kHangMs) == 1);
    events.clear();
    engine.Poll(7, &events);
    for (Event& event : events) {
      if (on_event) on_event(event);
      const auto it = outcomes.find(event.request);
      if (it == outcomes.end()) continue;
      if (!event.more) {
        --open;
        auto detail = engine.Detail(event.request);
        REQUIRE(detail.ok());
        it->second.detail = *std::move(detail);
        CHECK(engine.Acknowledge(event.request).ok());
      }
      it->second.events.push_back(std::move(event));
    }
  }
  for (const auto& [id, outcome] : outcomes) CheckEvents(outcome, outcome.detail->items.size());
  return outcomes;
}

std::vector<Outcome> RunAll(ModelEngine& engine,
                            const std::vector<std::unique_ptr<OwnedRequest>>& requests,
                            bool together) {
  std::vector<Outcome> outcomes;
  if (!together) {
    for (const auto& request : requests) {
      const RequestId id = MustSubmit(engine, request->request);
      outcomes.push_back(WaitForAll(engine, {id}).at(id));
    }
    return outcomes;
  }
  std::vector<RequestId> ids;
  for (const auto& request : requests) ids.push_back(MustSubmit(engine, request->request));
  std::map<RequestId, Outcome> by_id = WaitForAll(engine, ids);
  for (const RequestId id : ids) outcomes.push_back(std::move(by_id.at(id)));
  return outcomes;
}

std::unique_ptr<ModelEngine> MustCreate(ModelEngineOptions options) {
  auto engine = ModelEngine::Create(std::move(options));
  INFO(engine.status().ToString());
  REQUIRE(engine.ok());
  return *std::move(engine);
}

RequestId MustSubmit(ModelEngine& engine, const ModelRequest& request) {
  const absl::StatusOr<RequestId> id = engine.Submit(request);
  INFO(id.status().ToString());
  REQUIRE(id.ok());
  return *id;
}

}  // namespace rserve::testing
