#include "capi/host_config.h"

#include <cstddef>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "capi/enums.h"
#include "capi/guard.h"
#include "capi/structs.h"

namespace rserve::capi {
namespace {

constexpr size_t kFirstConfigSize = sizeof(rserve_host_config);
constexpr size_t kFirstRequestSize = offsetof(rserve_host_request, kv_block_keys);
constexpr size_t kMaxWorkers = 65536;
constexpr size_t kMaxUnits = 1 << 24;
constexpr uint32_t kKnownFlags =
    RSERVE_ENGINE_F_VANILLA_PP | RSERVE_ENGINE_F_ENCODE_ACROSS_REQUESTS;
constexpr uint32_t kKnownWorkerFlags =
    RSERVE_WORKER_F_STAGE | RSERVE_WORKER_F_ENCODER | RSERVE_WORKER_F_ENCODER_FIRST;

// A field whose 0 keeps the default.
template <typename T>
void Override(T value, T* field) {
  if (value != 0) *field = value;
}

absl::Status ReadPolicy(const rserve_host_config& c, Policy* policy) {
  if (c.scheme < RSERVE_SCHEME_RSERVE || c.scheme > RSERVE_SCHEME_ADAPTIVE) {
    return UnknownValue("scheme", c.scheme);
  }
  if ((c.flags & ~kKnownFlags) != 0) return UnknownValue("flags", c.flags);
  *policy = SchemePolicy(static_cast<Scheme>(c.scheme));
  std::optional<Gate> gate;
  std::optional<Sharing> sharing;
  std::optional<EncodeTrigger> trigger;
  absl::Status status = ReadEnum("gate", c.gate, Gate::kWholeRequest, &gate);
  status.Update(ReadEnum("sharing", c.sharing, Sharing::kOneRequest, &sharing));
  status.Update(ReadEnum("trigger", c.trigger, EncodeTrigger::kOnChunk, &trigger));
  policy->gate = gate.value_or(policy->gate);
  policy->sharing = sharing.value_or(policy->sharing);
  policy->trigger = trigger.value_or(policy->trigger);
  Override(c.encode_batch_tokens, &policy->encode_batch_tokens);
  if (c.encode_batch_tokens != 0) policy->adaptive_encode_batch = false;
  Override(c.token_budget, &policy->token_budget);
  Override(c.encode_flush_ns, &policy->encode_flush_ns);
  policy->one_chunk_in_flight = (c.flags & RSERVE_ENGINE_F_VANILLA_PP) != 0;
  if ((c.flags & RSERVE_ENGINE_F_ENCODE_ACROSS_REQUESTS) != 0)
    policy->encode_across_requests = true;
  return status;
}

absl::Status ReadWorkers(const rserve_host_config& c, std::vector<WorkerSpec>* workers) {
  if (absl::Status s = CheckList("workers", c.workers, c.num_workers, kMaxWorkers); !s.ok()) {
    return s;
  }
  if (c.num_workers == 0) {
    const int32_t stages = c.stages == 0 ? 1 : c.stages;
    const bool shared = c.scheme == RSERVE_SCHEME_ADAPTIVE && c.encoders == RSERVE_ENCODERS_SHARED;
    const int32_t encoders = c.encoders == 0 || shared ? 1 : c.encoders;
    const auto most = static_cast<int32_t>(kMaxWorkers);
    if (stages < 1 || stages > most) return UnknownValue("stages", stages);
    if (encoders < 1 || encoders > most) return UnknownValue("encoders", encoders);
    *workers = SchemePlacement(static_cast<Scheme>(c.scheme), stages, shared ? 0 : encoders);
    return absl::OkStatus();
  }
  for (size_t i = 0; i < c.num_workers; ++i) {
    const rserve_worker& from = c.workers[i];
    if ((from.flags & ~kKnownWorkerFlags) != 0) return UnknownValue("workers::flags", from.flags);
    WorkerSpec worker;
    worker.encoder = (from.flags & RSERVE_WORKER_F_ENCODER) != 0;
    if ((from.flags & RSERVE_WORKER_F_STAGE) != 0) {
      if (from.stage < 0) return UnknownValue("workers::stage", from.stage);
      worker.stage = from.stage;
    }
    if ((from.flags & RSERVE_WORKER_F_ENCODER_FIRST) != 0) worker.first = Role::kEncoder;
    Override(from.depth, &worker.depth);
    Override(from.max_passes, &worker.max_passes);
    workers->push_back(worker);
  }
  return absl::OkStatus();
}

absl::Status ReadBudgets(const rserve_host_config& c, Budgets* budgets) {
  if (c.kv_blocks < 0 || c.kv_blocks > INT32_MAX) return UnknownValue("kv_blocks", c.kv_blocks);
  Override(static_cast<int32_t>(c.kv_blocks), &budgets->kv_blocks);
  Override(c.kv_block_tokens, &budgets->kv_block_tokens);
  Override(c.embedding_bytes, &budgets->embedding_bytes);
  Override(c.pixel_bytes, &budgets->pixel_bytes);
  Override(c.units_in_flight, &budgets->units_in_flight);
  Override(c.encoder_batch_tokens, &budgets->encoder_batch_tokens);
  Override(c.input_bytes, &budgets->input_bytes);
  Override(c.queue_requests, &budgets->queue_requests);
  return absl::OkStatus();
}

absl::Status CheckReserved(const char* field, uint32_t value) {
  if (value == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, "; it must be 0"));
}

absl::Status ReadUnits(const rserve_host_request& r, RequestPlan* plan) {
  absl::Status status = CheckList("units", r.units, r.num_units, kMaxUnits);
  status.Update(CheckList("spans", r.spans, r.num_spans, kMaxUnits));
  if (!status.ok()) return status;
  plan->units.reserve(r.num_units);
  for (size_t i = 0; i < r.num_units; ++i) {
    const rserve_unit& unit = r.units[i];
    if (status = CheckReserved("units::reserved", unit.reserved); !status.ok()) return status;
    plan->units.push_back({unit.item, unit.tokens, unit.embedding_bytes, unit.pixel_bytes});
  }
  plan->spans.reserve(r.num_spans);
  for (size_t i = 0; i < r.num_spans; ++i) {
    const rserve_span& span = r.spans[i];
    if ((span.flags & ~RSERVE_SPAN_F_ATOMIC) != 0) return UnknownValue("spans::flags", span.flags);
    plan->spans.push_back({span.token_begin, span.tokens, span.item, span.row_begin,
                           (span.flags & RSERVE_SPAN_F_ATOMIC) != 0});
  }
  return absl::OkStatus();
}

absl::Status ReadKvKeys(const rserve_host_request& r, RequestPlan* plan) {
  static_assert(sizeof(KvBlockKey) == RSERVE_KV_KEY_BYTES);
  absl::Status status = CheckList("kv_block_keys", r.kv_block_keys, r.num_kv_block_keys, kMaxUnits);
  if (!status.ok() || r.num_kv_block_keys == 0) return status;
  plan->kv_block_keys.resize(r.num_kv_block_keys);
  std::memcpy(plan->kv_block_keys.data(), r.kv_block_keys,
              r.num_kv_block_keys * RSERVE_KV_KEY_BYTES);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OrchestratorConfig> ReadHostConfig(const rserve_host_config* config) {
  if (absl::Status s = CheckNotNull(config, "config"); !s.ok()) return s;
  rserve_host_config c;
  absl::Status status = CopyIn("rserve_host_config", config, kFirstConfigSize, &c);
  if (!status.ok()) return status;
  OrchestratorConfig core;
  status = ReadPolicy(c, &core.policy);
  status.Update(status.ok() ? ReadWorkers(c, &core.workers) : absl::OkStatus());
  status.Update(ReadBudgets(c, &core.budgets));
  if (!status.ok()) return status;
  core.prepare_lanes = c.prepare_lanes;
  core.max_micro_batches = c.max_micro_batches;
  if (c.max_micro_batches == 0 && c.scheme == RSERVE_SCHEME_ADAPTIVE) {
    core.max_micro_batches = AdaptiveMicroBatches(core.workers);
  }
  Override(c.max_encode_attempts, &core.max_encode_attempts);
  return core;
}

absl::StatusOr<HostRequest> ReadHostRequest(const rserve_host_request* request) {
  if (absl::Status s = CheckNotNull(request, "request"); !s.ok()) return s;
  rserve_host_request r;
  absl::Status status = CopyIn("rserve_host_request", request, kFirstRequestSize, &r);
  if (!status.ok()) return status;
  if ((r.flags & ~RSERVE_REQUEST_F_NO_DETAIL) != 0) return UnknownValue("flags", r.flags);
  if (r.deadline_ns < 0) return UnknownValue("deadline_ns", r.deadline_ns);
  HostRequest out;
  out.user_data = r.user_data;
  out.discard_detail = (r.flags & RSERVE_REQUEST_F_NO_DETAIL) != 0;
  out.plan.id = r.request_id;
  out.plan.prompt_tokens = r.prompt_tokens;
  Override(r.max_new_tokens, &out.plan.max_new_tokens);
  out.plan.num_items = r.num_items;
  out.plan.last_reader_stage = r.last_reader_stage;
  Override(r.deadline_ns, &out.plan.deadline_ns);
  out.plan.input_bytes = r.input_bytes;
  if (status = ReadUnits(r, &out.plan); !status.ok()) return status;
  if (status = ReadKvKeys(r, &out.plan); !status.ok()) return status;
  return out;
}

absl::Status ReadStatus(rserve_status_t code, const char* message, size_t message_length,
                        absl::Status* status) {
  if (code < RSERVE_STATUS_OK || code > RSERVE_STATUS_UNAUTHENTICATED) {
    return UnknownValue("status", code);
  }
  if (message == nullptr && message_length > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("message is NULL with ", message_length, " bytes"));
  }
  const absl::string_view text(message == nullptr ? "" : message, message_length);
  *status = absl::Status(static_cast<absl::StatusCode>(code), text);
  return absl::OkStatus();
}

}  // namespace rserve::capi
