#include "tools/rserve/workload.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"

namespace rserve::tool {
namespace {

// Markers around a picture in the prompt: vision start and end.
constexpr int64_t kMarkerTokens = 2;

// Text tokens before picture `index`: the workload's text in equal parts, the first ones one more.
int64_t TextBefore(const Workload& workload, int64_t index) {
  if (workload.images == 0) return 0;
  return workload.text_tokens / workload.images +
         (index < workload.text_tokens % workload.images ? 1 : 0);
}

int64_t TextAfter(const Workload& workload) {
  return workload.trailing_text_tokens + (workload.images == 0 ? workload.text_tokens : 0);
}

// Plain vocabulary entries: byte-level tokenizers have their bytes first and specials last.
TokenIds RandomText(int64_t tokens, const model::ModelConfig& config, Random* random) {
  const int32_t usable = std::clamp(config.text.vocab_size / 2, 1, 1000);
  TokenIds text;
  for (int64_t i = 0; i < tokens; ++i) {
    int32_t id = static_cast<int32_t>(random->Next() % static_cast<uint64_t>(usable));
    if (id == config.image_token_id || id == config.video_token_id) id = usable;
    text.ids.push_back(id);
  }
  return text;
}

}  // namespace

uint64_t Random::Next() {
  state_ += 0x9e3779b97f4a7c15u;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double Random::Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

std::vector<TimeNs> ArrivalTimes(Arrivals arrivals, int64_t requests, double rate, int64_t burst,
                                 uint64_t seed) {
  std::vector<TimeNs> times;
  Random random(seed);
  const int64_t group = arrivals == Arrivals::kBursty ? burst : 1;
  double now_s = 0;
  for (int64_t i = 0; i < requests; ++i) {
    if (arrivals != Arrivals::kAtOnce && i > 0 && i % group == 0) {
      now_s += -std::log(1 - random.Uniform()) * static_cast<double>(group) / rate;
    }
    // A century is late enough, and fits.
    times.push_back(static_cast<TimeNs>(std::min(now_s, 3e9) * 1e9));
  }
  return times;
}

absl::StatusOr<PromptShape> ShapeOf(const Workload& workload,
                                    const model::ImageProcessorConfig& processor) {
  PromptShape shape;
  int64_t at = 0;
  for (int64_t i = 0; i < workload.images; ++i) {
    const auto plan = model::PlanImage(workload.image_height, workload.image_width, processor);
    if (!plan.ok()) return plan.status();
    at += TextBefore(workload, i);
    shape.item_begin.push_back(at + 1);
    shape.item_tokens.push_back(plan->tokens);
    at += plan->tokens + kMarkerTokens;
  }
  shape.prompt_tokens = at + TextAfter(workload);
  if (shape.prompt_tokens == 0) {
    return absl::InvalidArgumentError("the requests are empty: no pictures and no text");
  }
  return shape;
}

SyntheticRequests MakeRequests(const Workload& workload, const model::ModelConfig& config) {
  SyntheticRequests set;
  Random random(workload.seed);
  const auto values = static_cast<size_t>(workload.image_width * workload.image_height * 3);
  for (int64_t r = 0; r < workload.requests; ++r) {
    ModelRequest request;
    request.discard_detail = true;
    for (int64_t i = 0; i < workload.images; ++i) {
      if (const int64_t text = TextBefore(workload, i); text > 0) {
        request.parts.push_back(RandomText(text, config, &random));
      }
      std::vector<uint8_t> pixels(values);
      for (size_t at = 0; at < values; at += 8) {
        const uint64_t bits = random.Next();
        for (size_t b = 0; b < std::min<size_t>(8, values - at); ++b) {
          pixels[at + b] = static_cast<uint8_t>(bits >> (8 * b));
        }
      }
      set.pixels.push_back(std::make_shared<const std::vector<uint8_t>>(std::move(pixels)));
      PixelImage image;
      image.pixels = *set.pixels.back();
      image.width = static_cast<int32_t>(workload.image_width);
      image.height = static_cast<int32_t>(workload.image_height);
      image.borrow = true;
      request.parts.push_back(image);
    }
    if (const int64_t text = TextAfter(workload); text > 0) {
      request.parts.push_back(RandomText(text, config, &random));
    }
    set.requests.push_back(std::move(request));
  }
  return set;
}

int64_t BenchKvTokens(const Workload& workload, const PromptShape& shape,
                      const model::ModelConfig& config) {
  constexpr int64_t kCacheBytes = int64_t{2} << 30;
  constexpr int64_t kSlackTokens = 64;  // the first token, and rounding up to blocks
  const model::TextConfig& text = config.text;
  const int64_t token_bytes = int64_t{2} * 4 * text.num_layers * text.num_kv_heads * text.head_dim;
  const int64_t one = shape.prompt_tokens + kSlackTokens;
  const int64_t room = kCacheBytes / std::max<int64_t>(token_bytes, 1);
  return std::max(one, std::min(one * workload.requests, room));
}

std::vector<RequestPlan> MakePlans(const Workload& workload, const PromptShape& shape,
                                   int64_t embedding_row_bytes) {
  RequestPlan plan;
  plan.prompt_tokens = shape.prompt_tokens;
  plan.num_items = static_cast<int32_t>(workload.images);
  for (size_t i = 0; i < shape.item_begin.size(); ++i) {
    const auto item = static_cast<int32_t>(i);
    const int64_t tokens = shape.item_tokens[i];
    plan.units.push_back({item, tokens, tokens * embedding_row_bytes, 0});
    plan.spans.push_back({shape.item_begin[i], tokens, item, 0, false});
  }
  return std::vector<RequestPlan>(static_cast<size_t>(workload.requests), plan);
}

}  // namespace rserve::tool
