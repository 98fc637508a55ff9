#include "tests/core/random_prefix.h"

#include <cstring>

namespace rserve::test {
namespace {

constexpr int64_t kLongest = 60;  // prompt tokens; no plan is put behind a longer one
constexpr size_t kKept = 6;

// `tail` behind the prompt of `head`, as a conversation goes on.
void Append(const RequestPlan& tail, RequestPlan* head) {
  for (UnitPlan unit : tail.units) {
    unit.item += head->num_items;
    head->units.push_back(unit);
  }
  for (SpanPlan span : tail.spans) {
    span.item += head->num_items;
    span.token_begin += head->prompt_tokens;
    head->spans.push_back(span);
  }
  head->num_items += tail.num_items;
  head->prompt_tokens += tail.prompt_tokens;
}

KvBlockKey RandomKey(Rng& rng) {
  KvBlockKey key;
  for (size_t at = 0; at < key.size(); at += sizeof(uint64_t)) {
    const uint64_t bits = rng.Next();
    std::memcpy(key.data() + at, &bits, sizeof(bits));
  }
  return key;
}

}  // namespace

RequestPlan RandomPrefix::Apply(Rng& rng, int32_t block_tokens, const RequestPlan& plan) {
  RequestPlan made = plan;
  if (!earlier_.empty() && rng.Percent(70)) {
    const RequestPlan& old = earlier_[rng.In(0, static_cast<int64_t>(earlier_.size()) - 1)];
    made.prompt_tokens = old.prompt_tokens;
    made.num_items = old.num_items;
    made.units = old.units;
    made.spans = old.spans;
    made.kv_block_keys = old.kv_block_keys;
    const int64_t change = rng.In(0, 2);
    if (change == 1 && old.prompt_tokens <= kLongest) Append(plan, &made);
    if (change == 2) {
      made.kv_block_keys.resize(rng.In(0, static_cast<int64_t>(made.kv_block_keys.size())));
    }
  }
  while (static_cast<int64_t>(made.kv_block_keys.size()) < made.prompt_tokens / block_tokens) {
    made.kv_block_keys.push_back(RandomKey(rng));
  }
  if (earlier_.size() < kKept) {
    earlier_.push_back(made);
  } else {
    earlier_[rng.In(0, static_cast<int64_t>(kKept) - 1)] = made;
  }
  return made;
}

}  // namespace rserve::test
