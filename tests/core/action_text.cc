#include "tests/core/action_text.h"

#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rserve::test {
namespace {

std::string Limit(int64_t value) { return value == INT64_MAX ? "max" : absl::StrCat(value); }

std::string StatusText(const absl::Status& status) {
  return status.ok() ? "OK" : absl::StatusCodeToString(status.code());
}

std::string UnitText(UnitRef unit) { return absl::StrCat("r", unit.request, ".u", unit.unit); }

template <typename T>
constexpr bool AlwaysFalse = false;

}  // namespace

std::string PlanText(const RequestPlan& plan) {
  std::string text =
      absl::StrCat("id=", plan.id, " prompt=", plan.prompt_tokens, " new=", plan.max_new_tokens,
                   " items=", plan.num_items, " reader=", plan.last_reader_stage,
                   " deadline=", Limit(plan.deadline_ns), " input=", plan.input_bytes, " units=[");
  for (const UnitPlan& unit : plan.units) {
    absl::StrAppend(&text, "{i", unit.item, " t", unit.tokens, " e", unit.embedding_bytes, " p",
                    unit.pixel_bytes, "}");
  }
  absl::StrAppend(&text, "] spans=[");
  for (const SpanPlan& span : plan.spans) {
    absl::StrAppend(&text, "{", span.token_begin, "+", span.tokens, " i", span.item, " row",
                    span.row_begin, span.atomic ? " atomic" : "", "}");
  }
  return text + "]";
}

std::string ConfigText(const OrchestratorConfig& config) {
  std::string text = "workers=[";
  for (const WorkerSpec& worker : config.workers) {
    absl::StrAppend(&text, "{", worker.encoder ? "E " : "", "s", worker.stage, " d", worker.depth,
                    worker.first == Role::kEncoder ? " encoder-first" : "", " passes",
                    worker.max_passes, "}");
  }
  const Policy& policy = config.policy;
  absl::StrAppend(
      &text, "] gate=", static_cast<int>(policy.gate),
      " sharing=", static_cast<int>(policy.sharing), " trigger=", static_cast<int>(policy.trigger),
      " C=", Limit(policy.encode_batch_tokens), " across=", policy.encode_across_requests,
      " flush=", policy.encode_flush_ns, " B=", policy.token_budget,
      " one_chunk=", policy.one_chunk_in_flight, " lanes=", config.prepare_lanes,
      " max_mb=", config.max_micro_batches, " attempts=", config.max_encode_attempts);
  const Budgets& budgets = config.budgets;
  absl::StrAppend(&text, " emb=", Limit(budgets.embedding_bytes),
                  " pix=", Limit(budgets.pixel_bytes), " units=", Limit(budgets.units_in_flight),
                  " enc_batch=", Limit(budgets.encoder_batch_tokens), " kv=", budgets.kv_blocks,
                  "x", budgets.kv_block_tokens, " queue=", Limit(budgets.queue_requests),
                  " input=", Limit(budgets.input_bytes));
  return text;
}

std::string InputText(const Input& input) {
  return std::visit(
      [](const auto& in) -> std::string {
        using T = std::decay_t<decltype(in)>;
        if constexpr (std::is_same_v<T, SubmitInput>) {
          return absl::StrCat("submit ", PlanText(in.plan));
        } else if constexpr (std::is_same_v<T, CancelInput>) {
          return absl::StrCat("cancel r", in.request);
        } else if constexpr (std::is_same_v<T, PrepareFinishedInput>) {
          return absl::StrCat("prepare-finished #", in.token, " ", StatusText(in.status));
        } else if constexpr (std::is_same_v<T, EncodeFinishedInput>) {
          std::string text =
              absl::StrCat("encode-finished #", in.token, " ", StatusText(in.status));
          for (const absl::Status& status : in.unit_status) {
            absl::StrAppend(&text, " ", StatusText(status));
          }
          return text;
        } else if constexpr (std::is_same_v<T, StageFinishedInput>) {
          return absl::StrCat("stage-finished #", in.token, " ", StatusText(in.status));
        } else if constexpr (std::is_same_v<T, StartedInput>) {
          return absl::StrCat("started #", in.token);
        } else if constexpr (std::is_same_v<T, WorkerLostInput>) {
          return absl::StrCat("worker-lost ", in.worker);
        } else if constexpr (std::is_same_v<T, DrainInput>) {
          return "drain";
        } else if constexpr (std::is_same_v<T, AbortInput>) {
          return "abort";
        } else {
          static_assert(AlwaysFalse<T>, "an input without text");
        }
      },
      input);
}

const char* EventName(EventType type) {
  switch (type) {
    case EventType::kAccepted:
      return "accepted";
    case EventType::kItemEncoded:
      return "item-encoded";
    case EventType::kInputReleased:
      return "input-released";
    case EventType::kFirstToken:
      return "first-token";
    case EventType::kFinished:
      return "finished";
    case EventType::kFailed:
      return "failed";
    case EventType::kCancelled:
      return "cancelled";
    case EventType::kRefused:
      return "refused";
  }
  return "unknown-event";
}

void ActionLog::Begin(const char* verb, ActionToken token) {
  absl::StrAppend(&text, options_.indent, verb);
  if (options_.tokens) absl::StrAppend(&text, " #", token);
}

void ActionLog::OnPrepare(const PrepareAction& action) {
  Begin("prepare", action.token);
  absl::StrAppend(&text, " ", UnitText(action.unit), "\n");
}

void ActionLog::OnEncode(const EncodeAction& action) {
  Begin("encode", action.token);
  absl::StrAppend(&text, " w", action.worker, " tokens=", action.tokens);
  for (const UnitRef& unit : action.units) absl::StrAppend(&text, " ", UnitText(unit));
  text += "\n";
}

void ActionLog::OnStage(const StageAction& action) {
  Begin("stage", action.token);
  absl::StrAppend(&text, " w", action.worker, " s", action.stage, action.last_stage ? "(last)" : "",
                  " mb", action.micro_batch, " tokens=", action.tokens);
  for (const StageEntryAction& entry : action.entries) {
    absl::StrAppend(&text, " r", entry.chunk.request, "[", entry.chunk.begin, "..",
                    entry.chunk.begin + entry.chunk.tokens, entry.last_chunk ? " end" : "",
                    entry.ended ? " ended" : "");
    for (const EmbeddingSlice& slice : entry.embeddings) {
      absl::StrAppend(&text, " u", slice.unit, ":", slice.row_begin, "+", slice.tokens, "@",
                      slice.token_begin);
    }
    if (options_.blocks) absl::StrAppend(&text, " kv:", absl::StrJoin(entry.kv_blocks, ","));
    text += "]";
  }
  text += "\n";
}

void ActionLog::OnMicroBatchDropped(uint64_t micro_batch) {
  absl::StrAppend(&text, options_.indent, "drop mb", micro_batch, "\n");
}

void ActionLog::OnReleasePixels(UnitRef unit) {
  if (!options_.releases) return;
  absl::StrAppend(&text, options_.indent, "release-pixels ", UnitText(unit), "\n");
}

void ActionLog::OnReleaseEmbedding(UnitRef unit) {
  if (!options_.releases) return;
  absl::StrAppend(&text, options_.indent, "release-embedding ", UnitText(unit), "\n");
}

void ActionLog::OnEvent(const EventAction& event) {
  absl::StrAppend(&text, options_.indent, "event r", event.request, " ", EventName(event.type));
  if (event.item >= 0) absl::StrAppend(&text, " item", event.item);
  if (event.type == EventType::kAccepted && event.reused_tokens > 0) {
    absl::StrAppend(&text, " reused=", event.reused_tokens);
  }
  if (event.status != nullptr) absl::StrAppend(&text, " ", event.status->ToString());
  if (options_.times && event.times != nullptr) {
    absl::StrAppend(&text, " submitted=", event.times->submitted_ns,
                    " first_encode=", event.times->first_encode_ns,
                    " last_encode=", event.times->last_encode_ns,
                    " first_prefill=", event.times->first_prefill_ns,
                    " first_token=", event.times->first_token_ns);
  }
  text += "\n";
}

void ActionLog::OnForget(RequestId request) {
  absl::StrAppend(&text, options_.indent, "forget r", request, "\n");
}

}  // namespace rserve::test
