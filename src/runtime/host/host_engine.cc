#include "src/runtime/host/host_engine.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "rserve/cc/kv_block_pool.h"

namespace rserve::runtime {
namespace {

// Sizes as ItemDetail has them; a host's items have no pixels and no grid that we know of.
std::vector<ItemDetail> Items(const RequestPlan& plan) {
  std::vector<ItemDetail> items(static_cast<size_t>(plan.num_items));
  for (const UnitPlan& unit : plan.units)
    items[static_cast<size_t>(unit.item)].tokens += unit.tokens;
  for (auto span = plan.spans.rbegin(); span != plan.spans.rend(); ++span) {
    items[static_cast<size_t>(span->item)].token_begin = span->token_begin;
  }
  return items;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostEngine>> HostEngine::Create(EngineOptions options,
                                                               std::unique_ptr<Executor> executor) {
  std::unique_ptr<HostEngine> host(new HostEngine(options.core.budgets.kv_block_tokens));
  auto engine = Engine::Create(std::move(options), std::move(executor));
  if (!engine.ok()) return engine.status();
  host->engine_ = *std::move(engine);
  return host;
}

absl::Status HostEngine::Submit(RequestPlan plan, uint64_t user_data, bool discard_detail) {
  if (absl::Status status = ValidatePlan(plan); !status.ok()) return status;
  if (details_.ended() >= kMaxUnacknowledged) {
    return absl::ResourceExhaustedError(absl::StrCat("the details of ", kMaxUnacknowledged,
                                                     " ended requests are not acknowledged"));
  }
  const RequestId id = plan.id;
  RequestDetail detail;
  detail.request = id;
  detail.user_data = user_data;
  detail.items = Items(plan);
  detail.kv_blocks = KvBlocksFor(plan.prompt_tokens + plan.max_new_tokens, kv_block_tokens_);
  if (!details_.Add(std::move(detail), discard_detail)) {
    return absl::AlreadyExistsError(absl::StrCat("request ", id, " is open or not acknowledged"));
  }
  absl::Cleanup undo = [&] { details_.Remove(id); };  // also when memory runs out
  absl::Status status = engine_->Submit(std::move(plan), user_data);
  if (status.ok()) std::move(undo).Cancel();
  return status;
}

int64_t HostEngine::Poll(int64_t capacity, std::vector<Event>* events) {
  const size_t before = events->size();
  const int64_t count = engine_->Poll(capacity, events);
  for (size_t i = before; i < events->size(); ++i) {
    const Event& event = (*events)[i];
    if (event.type == EventType::kFirstToken) {
      details_.SetFirstToken(event.request, event.first_token, {}, {});
    }
    details_.Record(event);
  }
  return count;
}

}  // namespace rserve::runtime
