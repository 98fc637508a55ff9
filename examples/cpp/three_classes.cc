// The paper's three classes used alone, with an encoder and a prefill of one's own.
//
// Two requests with pictures in their prompts; a toy encoder that needs some ticks a picture, a toy
// language model that needs a tick for each 32 tokens. The loop below is all the "engine" there is:
//
//   EncoderScheduler  says which pictures to encode next        (Algorithm 1, batches of C tokens)
//   EmbeddingTracker  says which tokens are ready, and which embeddings can go      (section 3.1)
//   TokenScheduler    says which tokens make the next micro-batch    (Algorithm 2, budget B)
//
// It prints what ran in each tick and shows that the answers equal those of a run without overlap.

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "rserve/cc/embedding_tracker.h"
#include "rserve/cc/encoder_scheduler.h"
#include "rserve/cc/token_scheduler.h"

namespace {

constexpr int64_t kPictureTokens = 64;
constexpr int64_t kEncodeTicks = 3;     // a batch, however many pictures
constexpr int64_t kTokensPerTick = 32;  // prefill speed

// The toy model: a picture's embedding is one number a row, text is its position, and the language
// model folds the rows of a prompt in order. The fold depends on the order and on every row.
uint64_t PictureRow(rserve::UnitRef unit, int64_t row) {
  return unit.request * 1000003 + static_cast<uint64_t>(unit.unit) * 1009 +
         static_cast<uint64_t>(row);
}
uint64_t Fold(uint64_t state, uint64_t row) { return (state ^ row) * 1099511628211u; }

// A prompt of `pictures` pictures with 16 tokens of text before each and 8 at the end.
rserve::RequestPlan MakePlan(rserve::RequestId id, int32_t pictures) {
  rserve::RequestPlan plan;
  plan.id = id;
  plan.num_items = pictures;
  for (int32_t i = 0; i < pictures; ++i) {
    plan.prompt_tokens += 16;
    rserve::SpanPlan span;
    span.token_begin = plan.prompt_tokens;
    span.tokens = kPictureTokens;
    span.item = i;
    plan.spans.push_back(span);
    plan.prompt_tokens += kPictureTokens;
    rserve::UnitPlan unit;
    unit.item = i;
    unit.tokens = kPictureTokens;
    unit.embedding_bytes = kPictureTokens * static_cast<int64_t>(sizeof(uint64_t));
    plan.units.push_back(unit);
  }
  plan.prompt_tokens += 8;
  return plan;
}

uint64_t AnswerWithoutOverlap(const rserve::RequestPlan& plan) {
  uint64_t state = 14695981039346656037u;
  size_t next = 0;
  for (int64_t token = 0; token < plan.prompt_tokens; ++token) {
    while (next < plan.spans.size() &&
           token >= plan.spans[next].token_begin + plan.spans[next].tokens) {
      ++next;
    }
    const bool in_picture = next < plan.spans.size() && token >= plan.spans[next].token_begin;
    state = Fold(state, in_picture ? PictureRow({plan.id, plan.spans[next].item},
                                                token - plan.spans[next].token_begin)
                                   : static_cast<uint64_t>(token));
  }
  return state;
}

class ToyEngine {
 public:
  ToyEngine() : encoder_(EncoderOptions()), tokens_(TokenOptions()) {}

  void Submit(const rserve::RequestPlan& plan) {
    if (absl::Status s = tracker_.Add(plan); !s.ok()) {
      std::printf("refused: %s\n", std::string(s.message()).c_str());
      return;
    }
    std::vector<int32_t> units;
    std::vector<int64_t> unit_tokens;
    for (size_t u = 0; u < plan.units.size(); ++u) {
      units.push_back(static_cast<int32_t>(u));
      unit_tokens.push_back(plan.units[u].tokens);
    }
    encoder_.Add(plan.id, plan.id, units, unit_tokens);
    tokens_.Add(plan.id, plan.id, plan.prompt_tokens);
    tokens_.SetSchedulable(plan.id, tracker_.Schedulable(plan.id));
    state_[plan.id] = 14695981039346656037u;
    ++open_;
  }

  void RunToTheEnd() {
    std::printf("%4s  %-22s %-30s %s\n", "tick", "encoder", "prefill", "live embedding bytes");
    for (int64_t tick = 0; open_ > 0; ++tick) {
      FinishEncode(tick);
      FinishPrefill(tick);
      StartEncode(tick);
      StartPrefill(tick);
      std::printf("%4" PRId64 "  %-22s %-30s %" PRId64 "\n", tick,
                  encode_end_ > tick ? encode_text_.c_str() : "-",
                  prefill_end_ > tick ? prefill_text_.c_str() : "-", tracker_.live_bytes());
    }
  }

  uint64_t Answer(rserve::RequestId id) const { return state_.at(id); }
  int64_t peak_bytes() const { return tracker_.peak_bytes(); }

 private:
  static rserve::EncoderSchedulerOptions EncoderOptions() {
    rserve::EncoderSchedulerOptions options;
    options.batch_tokens = 100;  // C: two pictures of 64 tokens
    return options;
  }
  static rserve::TokenSchedulerOptions TokenOptions() {
    rserve::TokenSchedulerOptions options;
    options.budget_tokens = 96;  // B
    return options;
  }

  void StartEncode(int64_t tick) {
    if (!encoding_.empty()) return;
    auto place = [this](rserve::UnitRef unit) {
      tracker_.Reserve(unit);  // a budget would be checked here
      return true;
    };
    if (!encoder_.NextBatch(tick, 0, place, &encoding_)) return;
    encode_end_ = tick + kEncodeTicks;
    encode_text_.clear();
    for (const rserve::UnitRef& unit : encoding_) {
      encode_text_ += "r" + std::to_string(unit.request) + ".pic" + std::to_string(unit.unit) + " ";
    }
  }

  void FinishEncode(int64_t tick) {
    if (encoding_.empty() || tick < encode_end_) return;
    for (const rserve::UnitRef& unit : encoding_) {
      std::vector<uint64_t>& rows = embeddings_[unit];
      for (int64_t row = 0; row < kPictureTokens; ++row) rows.push_back(PictureRow(unit, row));
      tracker_.MarkReady(unit);
      tokens_.SetSchedulable(unit.request, tracker_.Schedulable(unit.request));
    }
    encoding_.clear();
  }

  void StartPrefill(int64_t tick) {
    if (!batch_.empty()) return;
    auto chunk = [this](rserve::RequestId id, int64_t limit) {
      return tracker_.LargestChunk(id, limit);
    };
    auto enter = [](rserve::RequestId) { return true; };  // KV blocks would be taken here
    if (!tokens_.Next(chunk, enter, &batch_)) return;
    int64_t total = 0;
    prefill_text_.clear();
    for (const rserve::BatchEntry& entry : batch_) {
      tracker_.Schedule(entry.request, entry.tokens);
      total += entry.tokens;
      prefill_text_ += "r" + std::to_string(entry.request) + "[" + std::to_string(entry.begin) +
                       "," + std::to_string(entry.begin + entry.tokens) + ") ";
    }
    prefill_end_ = tick + (total + kTokensPerTick - 1) / kTokensPerTick;
  }

  void FinishPrefill(int64_t tick) {
    if (batch_.empty() || tick < prefill_end_) return;
    for (const rserve::BatchEntry& entry : batch_) {
      Prefill(entry);
      std::vector<int32_t> released;
      tracker_.Commit(entry.request, entry.tokens, &released);
      for (int32_t unit : released) embeddings_.erase({entry.request, unit});
      tokens_.Retire(entry.request);
      if (tracker_.Committed(entry.request) == tracker_.PromptTokens(entry.request)) {
        std::printf("      first token of request %" PRIu64 "\n", entry.request);
        tokens_.Remove(entry.request);
        encoder_.Remove(entry.request);
        tracker_.Remove(entry.request);
        --open_;
      }
    }
    batch_.clear();
  }

  void Prefill(const rserve::BatchEntry& entry) {
    std::vector<rserve::EmbeddingSlice> slices;
    tracker_.Slices(entry.request, entry.begin, entry.tokens, &slices);
    size_t next = 0;
    for (int64_t token = entry.begin; token < entry.begin + entry.tokens; ++token) {
      while (next < slices.size() && token >= slices[next].token_begin + slices[next].tokens)
        ++next;
      uint64_t row = static_cast<uint64_t>(token);
      if (next < slices.size() && token >= slices[next].token_begin) {
        const int64_t index = slices[next].row_begin + token - slices[next].token_begin;
        row = embeddings_.at({entry.request, slices[next].unit})[static_cast<size_t>(index)];
      }
      state_[entry.request] = Fold(state_[entry.request], row);
    }
  }

  rserve::EmbeddingTracker tracker_;
  rserve::EncoderScheduler encoder_;
  rserve::TokenScheduler tokens_;
  std::map<rserve::UnitRef, std::vector<uint64_t>> embeddings_;
  std::map<rserve::RequestId, uint64_t> state_;  // what the toy language model has folded so far
  std::vector<rserve::UnitRef> encoding_;
  std::vector<rserve::BatchEntry> batch_;
  int64_t encode_end_ = 0, prefill_end_ = 0;
  std::string encode_text_, prefill_text_;
  int64_t open_ = 0;
};

}  // namespace

int main() {
  const rserve::RequestPlan plans[] = {MakePlan(1, 4), MakePlan(2, 2)};
  ToyEngine engine;
  for (const rserve::RequestPlan& plan : plans) engine.Submit(plan);
  engine.RunToTheEnd();
  bool same = true;
  for (const rserve::RequestPlan& plan : plans) {
    same = same && engine.Answer(plan.id) == AnswerWithoutOverlap(plan);
  }
  std::printf("peak embedding bytes: %" PRId64 "\n", engine.peak_bytes());
  std::printf("answers equal those without overlap: %s\n", same ? "yes" : "NO");
  return same ? 0 : 1;
}
