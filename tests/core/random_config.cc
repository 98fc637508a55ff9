#include "tests/core/random_config.h"

#include <algorithm>
#include <utility>

namespace rserve::test {
namespace {

std::vector<WorkerSpec> RandomWorkers(Rng& rng) {
  const int32_t stages = static_cast<int32_t>(rng.Pick({1, 1, 1, 2, 2, 3, 4}));
  const int32_t encoders = static_cast<int32_t>(rng.Pick({0, 1, 1, 1, 2, 3}));
  std::vector<WorkerSpec> workers;
  for (int32_t stage = 0; stage < stages; ++stage) {
    WorkerSpec worker;
    worker.stage = stage;
    worker.encoder = rng.Percent(stage == 0 ? 30 : 10);
    workers.push_back(worker);
  }
  for (int32_t i = 0; i < encoders; ++i) {
    WorkerSpec worker;
    worker.encoder = true;
    workers.push_back(worker);
  }
  for (WorkerSpec& worker : workers) {
    worker.depth = static_cast<int32_t>(rng.Pick({1, 1, 1, 2, 3}));
    worker.first = rng.Percent(50) ? Role::kStage : Role::kEncoder;
    worker.max_passes = static_cast<int32_t>(rng.In(1, 4));
  }
  if (rng.Percent(20)) rng.Shuffle(&workers);
  return workers;
}

Policy RandomPolicy(Rng& rng, bool encoder_on_first_stage) {
  Policy policy;
  policy.gate = rng.Percent(70) ? Gate::kStreaming : Gate::kWholeRequest;
  policy.sharing = rng.Percent(75) ? Sharing::kMany : Sharing::kOneRequest;
  if (encoder_on_first_stage && rng.Percent(50)) {
    const bool whole = policy.gate == Gate::kWholeRequest;
    policy.trigger = whole ? EncodeTrigger::kOnFirstChunk : EncodeTrigger::kOnChunk;
  }
  policy.encode_batch_tokens = rng.Pick<int64_t>({1, rng.In(2, 16), rng.In(2, 16), kEncodeAll});
  policy.encode_across_requests = rng.Percent(40);
  policy.encode_flush_ns = rng.Pick<TimeNs>({0, rng.In(1, 20), 1000000, kNever});
  policy.token_budget = rng.Pick<int64_t>({rng.In(1, 4), rng.In(4, 24), rng.In(8, 64), 1000});
  policy.one_chunk_in_flight = rng.Percent(25);
  return policy;
}

// Order, B and C that follow the load. `rng` is a copy: what a seed gives without them stays.
void AdaptSometimes(Rng rng, Policy* policy) {
  rng.Next();
  if (!rng.Percent(45)) return;
  if (policy->trigger == EncodeTrigger::kOnArrival) {
    policy->order = rng.Pick({Order::kArrival, Order::kShortestFirst, Order::kFeasibleFirst});
  }
  policy->order_stretch = rng.Pick<int64_t>({0, 1, 8, 1000});
  policy->order_guard_ns = rng.Pick<TimeNs>({0, rng.In(1, 30), 100000});
  policy->slo_ns = rng.In(1, 60);
  policy->hopeless_guard_ns = policy->order_guard_ns + rng.In(0, 200);
  policy->square_root_budget = rng.Percent(50);
  policy->min_token_budget = rng.In(1, 12);
  policy->adaptive_encode_batch = rng.Percent(50);
}

Budgets RandomBudgets(Rng& rng) {
  Budgets budgets;
  if (rng.Percent(50)) budgets.embedding_bytes = rng.In(4, 80);
  if (rng.Percent(40)) budgets.pixel_bytes = rng.In(4, 80);
  if (rng.Percent(40)) budgets.units_in_flight = rng.In(1, 6);
  if (rng.Percent(40)) budgets.encoder_batch_tokens = rng.In(4, 24);
  budgets.kv_block_tokens = static_cast<int32_t>(rng.In(1, 8));
  budgets.kv_blocks = static_cast<int32_t>(rng.Pick<int64_t>({rng.In(8, 40), rng.In(30, 400)}));
  if (rng.Percent(40)) budgets.queue_requests = rng.In(1, 6);
  if (rng.Percent(25)) budgets.input_bytes = rng.In(30, 200);
  return budgets;
}

bool AllFit(const OrchestratorConfig& config, const std::vector<RequestPlan>& plans) {
  const auto orchestrator = Orchestrator::Create(config);
  if (!orchestrator.ok()) return false;
  return std::all_of(plans.begin(), plans.end(), [&](const RequestPlan& plan) {
    return (*orchestrator)->CheckFits(plan).ok();
  });
}

// The smallest value of [1, high] with which all plans fit, if they do with `high`.
template <typename T>
void Shrink(OrchestratorConfig* config, T* value, T high, const std::vector<RequestPlan>& plans) {
  const T before = *value;
  *value = high;
  if (!AllFit(*config, plans)) {
    *value = before;
    return;
  }
  T low = 0;  // does not fit
  while (high - low > 1) {
    const T middle = low + (high - low) / 2;
    *value = middle;
    (AllFit(*config, plans) ? high : low) = middle;
  }
  *value = high;
}

void ShrinkBudgets(Rng& rng, const PlanTraits& traits, OrchestratorConfig* config) {
  int32_t stages = 0;
  for (const WorkerSpec& worker : config->workers) stages = std::max(stages, worker.stage + 1);
  std::vector<RequestPlan> plans;
  for (int32_t i = 0; i < 3; ++i) {
    plans.push_back(RandomPlan(rng, traits, 1, stages, 0));
    plans.back().deadline_ns = kNever;
  }
  Budgets* budgets = &config->budgets;
  budgets->embedding_bytes = budgets->pixel_bytes = budgets->units_in_flight = INT64_MAX;
  budgets->encoder_batch_tokens = INT64_MAX;
  budgets->kv_blocks = 4000;
  config->policy.token_budget = std::max<int64_t>(config->policy.token_budget, 64);
  const auto chosen = [&] { return rng.Percent(60); };
  if (chosen()) Shrink<int64_t>(config, &budgets->embedding_bytes, 1000, plans);
  if (chosen()) Shrink<int64_t>(config, &budgets->pixel_bytes, 1000, plans);
  if (chosen()) Shrink<int64_t>(config, &budgets->units_in_flight, 40, plans);
  if (chosen()) Shrink<int64_t>(config, &budgets->encoder_batch_tokens, 100, plans);
  if (chosen()) Shrink<int32_t>(config, &budgets->kv_blocks, 4000, plans);
  if (chosen()) Shrink<int64_t>(config, &config->policy.token_budget, 64, plans);
}

struct Segment {
  int32_t item = -1;
  int64_t tokens = 0;
  int64_t row_begin = 0;
  bool atomic = false;
};

}  // namespace

PlanTraits RandomTraits(Rng& rng) {
  PlanTraits traits;
  traits.max_items = static_cast<int32_t>(rng.In(1, 4));
  traits.max_units_per_item = static_cast<int32_t>(rng.Pick({1, 1, 2, 3}));
  traits.max_unit_tokens = rng.In(1, 8);
  traits.max_text = rng.In(0, 10);
  traits.atomic_percent = static_cast<int32_t>(rng.Pick({0, 0, 0, 30, 100}));
  traits.shuffle_percent = static_cast<int32_t>(rng.Pick({0, 0, 20}));
  traits.repeat_percent = static_cast<int32_t>(rng.Pick({0, 0, 30}));
  traits.deadline_percent = static_cast<int32_t>(rng.Pick({0, 0, 0, 30}));
  traits.text_only_percent = static_cast<int32_t>(rng.Pick({5, 20, 60}));
  return traits;
}

RequestPlan RandomPlan(Rng& rng, const PlanTraits& traits, RequestId id, int32_t stages,
                       TimeNs now_ns) {
  RequestPlan plan;
  plan.id = id;
  plan.max_new_tokens = rng.In(1, 4);
  plan.input_bytes = rng.In(0, 40);
  plan.last_reader_stage = rng.Percent(70) ? 0 : static_cast<int32_t>(rng.In(0, stages - 1));
  if (rng.Percent(traits.deadline_percent)) plan.deadline_ns = now_ns + rng.In(1, 120);
  plan.num_items =
      rng.Percent(traits.text_only_percent) ? 0 : static_cast<int32_t>(rng.In(1, traits.max_items));

  std::vector<Segment> segments;
  for (int32_t item = 0; item < plan.num_items; ++item) {
    int64_t rows = 0;
    const int64_t units = rng.In(1, traits.max_units_per_item);
    for (int64_t i = 0; i < units; ++i) {
      UnitPlan unit;
      unit.item = item;
      unit.tokens = rng.In(1, traits.max_unit_tokens);
      unit.embedding_bytes = unit.tokens * rng.In(1, 3);
      unit.pixel_bytes = unit.tokens * rng.In(1, 3);
      rows += unit.tokens;
      plan.units.push_back(unit);
    }
    for (int64_t row = 0; row < rows;) {  // one span, or cut at any row
      const int64_t tokens = rng.Percent(60) ? rows - row : rng.In(1, rows - row);
      segments.push_back({item, tokens, row, rng.Percent(traits.atomic_percent)});
      row += tokens;
    }
    if (rng.Percent(traits.repeat_percent)) {
      const int64_t row = rng.In(0, rows - 1);
      segments.push_back({item, rng.In(1, rows - row), row, rng.Percent(traits.atomic_percent)});
    }
  }
  if (rng.Percent(traits.shuffle_percent)) rng.Shuffle(&segments);

  int64_t at = 0;
  const bool image_first = rng.Percent(30);
  for (size_t i = 0; i < segments.size(); ++i) {
    const bool adjacent = rng.Percent(35) || (i == 0 && image_first);
    if (!adjacent) at += rng.In(0, traits.max_text);
    plan.spans.push_back({.token_begin = at,
                          .tokens = segments[i].tokens,
                          .item = segments[i].item,
                          .row_begin = segments[i].row_begin,
                          .atomic = segments[i].atomic});
    at += segments[i].tokens;
  }
  at += rng.In(0, traits.max_text);
  plan.prompt_tokens = std::max<int64_t>(at, 1);
  return plan;
}

void Malform(Rng& rng, RequestPlan* plan) {
  switch (rng.In(0, 5)) {
    case 0:
      plan->prompt_tokens = rng.Pick<int64_t>({0, -5, INT64_MIN});
      break;
    case 1:
      if (plan->spans.empty()) {
        plan->max_new_tokens = -1;
      } else {
        plan->spans.back().tokens = INT64_MAX;
      }
      break;
    case 2:
      plan->units.push_back({.item = plan->num_items, .tokens = 1});
      break;
    case 3:
      plan->spans.push_back({.token_begin = -1, .tokens = 1});
      break;
    case 4:
      plan->num_items += 1;
      break;
    default:
      plan->id = 0;
      break;
  }
}

RandomSetup RandomSetupFor(Rng& rng) {
  RandomSetup setup;
  setup.traits = RandomTraits(rng);
  OrchestratorConfig& config = setup.config;
  config.workers = RandomWorkers(rng);
  const auto first = std::find_if(config.workers.begin(), config.workers.end(),
                                  [](const WorkerSpec& worker) { return worker.stage == 0; });
  config.policy = RandomPolicy(rng, first->encoder);
  config.budgets = RandomBudgets(rng);
  config.prepare_lanes = static_cast<int32_t>(rng.In(0, 3));
  config.max_micro_batches = static_cast<int32_t>(rng.Pick({0, 0, 1, 2, 4}));
  config.max_encode_attempts = static_cast<int32_t>(rng.In(1, 3));
  if (rng.Percent(15)) {
    const Scheme scheme = static_cast<Scheme>(rng.In(0, 3));
    const int64_t budget = config.policy.token_budget;
    const int64_t c = config.policy.encode_batch_tokens;
    config.policy = SchemePolicy(scheme);
    config.policy.token_budget = budget;
    config.policy.encode_batch_tokens = c;
    config.workers =
        SchemePlacement(scheme, static_cast<int32_t>(rng.In(1, 4)),
                        static_cast<int32_t>(rng.In(1, 3)), static_cast<int32_t>(rng.In(1, 2)));
  }
  AdaptSometimes(rng, &config.policy);
  if (rng.Percent(30)) ShrinkBudgets(rng, setup.traits, &config);
  auto orchestrator = Orchestrator::Create(config);
  if (orchestrator.ok()) setup.orchestrator = *std::move(orchestrator);
  return setup;
}

}  // namespace rserve::test
