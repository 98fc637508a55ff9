#include "capi/callback_executor.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "capi/guard.h"
#include "capi/host_config.h"
#include "capi/host_work.h"
#include "capi/structs.h"

namespace rserve::capi {
namespace {

// What a callback returned, as a status that says whose it is.
absl::Status FromCallback(const char* callback, rserve_status_t code) {
  absl::Status status;
  absl::Status read = ReadStatus(code, nullptr, 0, &status);
  if (!read.ok()) {
    return absl::InternalError(
        absl::StrCat("the executor's ", callback, " returned ", code, ", which is no status"));
  }
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("the executor's ", callback, " failed with ",
                                                  rserve_status_name(code)));
}

}  // namespace

ExecutorCallback TakeExecutor(const rserve_executor* executor, absl::Status* status) {
  *status = CheckNotNull(executor, "executor");
  if (!status->ok()) return ExecutorCallback();
  ExecutorCallback taken = TakeCallback("rserve_executor", executor, status);
  const rserve_executor& host = taken.get();
  status->Update(CheckNotNull(reinterpret_cast<const void*>(host.encode), "executor::encode"));
  status->Update(CheckNotNull(reinterpret_cast<const void*>(host.forward), "executor::forward"));
  status->Update(CheckNotNull(reinterpret_cast<const void*>(host.take_first_token),
                              "executor::take_first_token"));
  return taken;
}

void CallbackExecutor::Started(const char* callback, uint64_t token, rserve_status_t status) {
  Done done;
  if (status == RSERVE_STATUS_OK || !completions_->Take(token, &done)) return;
  std::move(done)(FromCallback(callback, status));
}

absl::Status CallbackExecutor::Prepare(UnitRef unit) {
  return FromCallback("prepare", host().prepare(host().ctx, unit.request, unit.unit));
}

void CallbackExecutor::Encode(EncodeJob job, Done done) {
  std::vector<rserve_unit_ref> units;
  units.reserve(job.units.size());
  for (const UnitRef& unit : job.units) units.push_back(MakeUnitRef(unit));
  rserve_encode_job out{};
  out.struct_size = sizeof(out);
  out.worker = job.worker;
  out.units = units.data();
  out.num_units = units.size();
  out.tokens = job.tokens;
  const uint64_t token = completions_->Add(std::move(done));
  Started("encode", token, host().encode(host().ctx, &out, token));
}

void CallbackExecutor::Forward(StageJob job, Done done) {
  StageEntries entries;
  for (const StageJobEntry& entry : job.entries) {
    entries.Add(entry.chunk, entry.kv_blocks, entry.embeddings, entry.last_chunk, entry.ended);
  }
  const std::vector<rserve_stage_entry>& list = entries.Finish();
  rserve_stage_job out{};
  out.struct_size = sizeof(out);
  out.worker = job.worker;
  out.stage = job.stage;
  out.flags = job.last_stage ? RSERVE_ACTION_F_LAST_STAGE : 0u;
  out.micro_batch = job.micro_batch;
  out.entries = list.data();
  out.num_entries = list.size();
  out.tokens = job.tokens;
  const uint64_t token = completions_->Add(std::move(done));
  Started("forward", token, host().forward(host().ctx, &out, token));
}

void CallbackExecutor::DropMicroBatch(uint64_t micro_batch) {
  if (host().drop_micro_batch != nullptr) host().drop_micro_batch(host().ctx, micro_batch);
}

void CallbackExecutor::ReleasePixels(UnitRef unit) {
  if (host().release_pixels != nullptr) {
    host().release_pixels(host().ctx, unit.request, unit.unit);
  }
}

void CallbackExecutor::ReleaseEmbedding(UnitRef unit) {
  if (host().release_embedding != nullptr) {
    host().release_embedding(host().ctx, unit.request, unit.unit);
  }
}

absl::Status CallbackExecutor::TakeFirstToken(RequestId request, FirstToken* out) {
  return FromCallback("take_first_token",
                      host().take_first_token(host().ctx, request, &out->token, &out->logprob));
}

void CallbackExecutor::Forget(RequestId request) {
  if (host().forget != nullptr) host().forget(host().ctx, request);
}

}  // namespace rserve::capi
