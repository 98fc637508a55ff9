// The orchestrator for hosts with a loop of their own.

#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "capi/action_log.h"
#include "capi/guard.h"
#include "capi/host_config.h"
#include "capi/stats.h"
#include "capi/structs.h"
#include "rserve/cc/orchestrator.h"
#include "rserve/host.h"

struct rserve_orchestrator {
  std::unique_ptr<rserve::Orchestrator> core;
  std::vector<rserve::Input> inputs;  // for the next step
  rserve::capi::ActionLog actions;
  bool failed = false;  // a step ran out of memory

  ~rserve_orchestrator() {
    // A step that ran out of memory can leave hash tables in a state that even their destructor
    // cannot stand. Better lost than freed wrongly.
    if (failed) static_cast<void>(core.release());
  }
};

namespace rserve::capi {
namespace {

// An entry point on an orchestrator.
template <typename Handle, typename Body>
rserve_status_t With(Handle* handle, rserve_error** err, Body&& body) noexcept {
  return Guard(err, [&]() -> absl::Status {
    if (absl::Status s = CheckNotNull(handle, "orchestrator"); !s.ok()) return s;
    if (handle->failed) {
      return absl::FailedPreconditionError(
          "a step of the orchestrator ran out of memory; it can only be destroyed");
    }
    return body();
  });
}

absl::Status QueueFinish(rserve_orchestrator* handle, rserve_action_kind_t kind, uint64_t token,
                         absl::Status status) {
  switch (kind) {
    case RSERVE_ACTION_PREPARE:
      handle->inputs.emplace_back(PrepareFinishedInput{token, std::move(status)});
      return absl::OkStatus();
    case RSERVE_ACTION_ENCODE:
      handle->inputs.emplace_back(EncodeFinishedInput{token, std::move(status), {}});
      return absl::OkStatus();
    case RSERVE_ACTION_STAGE:
      handle->inputs.emplace_back(StageFinishedInput{token, std::move(status)});
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "kind is ", kind, "; only PREPARE (1), ENCODE (2) and STAGE (3) are finished"));
  }
}

}  // namespace
}  // namespace rserve::capi

using namespace rserve::capi;  // NOLINT(google-build-using-namespace): the shim of that namespace

extern "C" {

rserve_status_t rserve_orchestrator_create(const rserve_host_config* config,
                                           rserve_orchestrator** orchestrator, rserve_error** err) {
  return Guard(err, [&]() -> absl::Status {
    absl::Status status = CheckNotNull(orchestrator, "orchestrator");
    if (!status.ok()) return status;
    auto read = ReadHostConfig(config);
    if (!read.ok()) return read.status();
    auto core = rserve::Orchestrator::Create(*read);
    if (!core.ok()) return core.status();
    auto handle = std::make_unique<rserve_orchestrator>();
    handle->core = *std::move(core);
    *orchestrator = handle.release();
    return absl::OkStatus();
  });
}

void rserve_orchestrator_destroy(rserve_orchestrator* orchestrator) { delete orchestrator; }

rserve_status_t rserve_orchestrator_check(const rserve_orchestrator* orchestrator,
                                          const rserve_host_request* request, rserve_error** err) {
  return With(orchestrator, err, [&]() -> absl::Status {
    auto read = ReadHostRequest(request);
    return read.ok() ? orchestrator->core->CheckFits(read->plan) : read.status();
  });
}

rserve_status_t rserve_orchestrator_submit(rserve_orchestrator* orchestrator,
                                           const rserve_host_request* request, rserve_error** err) {
  return With(orchestrator, err, [&]() -> absl::Status {
    auto read = ReadHostRequest(request);
    if (!read.ok()) return read.status();
    std::vector<rserve::Input>& inputs = orchestrator->inputs;
    inputs.emplace_back(rserve::SubmitInput{std::move(read->plan)});
    try {
      orchestrator->actions.Submitted(read->user_data);
    } catch (...) {
      inputs.pop_back();
      throw;
    }
    return absl::OkStatus();
  });
}

rserve_status_t rserve_orchestrator_cancel(rserve_orchestrator* orchestrator, uint64_t request_id,
                                           rserve_error** err) {
  return With(orchestrator, err, [&] {
    orchestrator->inputs.emplace_back(rserve::CancelInput{request_id});
    return absl::OkStatus();
  });
}

rserve_status_t rserve_orchestrator_finish(rserve_orchestrator* orchestrator,
                                           rserve_action_kind_t kind, uint64_t token,
                                           rserve_status_t status, const char* message,
                                           size_t message_length, rserve_error** err) {
  return With(orchestrator, err, [&]() -> absl::Status {
    absl::Status of_action;
    absl::Status read = ReadStatus(status, message, message_length, &of_action);
    return read.ok() ? QueueFinish(orchestrator, kind, token, std::move(of_action)) : read;
  });
}

rserve_status_t rserve_orchestrator_finish_units(rserve_orchestrator* orchestrator, uint64_t token,
                                                 const rserve_status_t* unit_status,
                                                 size_t num_units, rserve_error** err) {
  return With(orchestrator, err, [&]() -> absl::Status {
    if (absl::Status s = CheckNotNull(unit_status, "unit_status"); !s.ok()) return s;
    rserve::EncodeFinishedInput input{token, absl::OkStatus(), {}};
    for (size_t i = 0; i < num_units; ++i) {
      absl::Status& status = input.unit_status.emplace_back();
      if (absl::Status s = ReadStatus(unit_status[i], nullptr, 0, &status); !s.ok()) return s;
    }
    orchestrator->inputs.emplace_back(std::move(input));
    return absl::OkStatus();
  });
}

rserve_status_t rserve_orchestrator_started(rserve_orchestrator* orchestrator, uint64_t token,
                                            rserve_error** err) {
  return With(orchestrator, err, [&] {
    orchestrator->inputs.emplace_back(rserve::StartedInput{token});
    return absl::OkStatus();
  });
}

rserve_status_t rserve_orchestrator_lose_worker(rserve_orchestrator* orchestrator, int32_t worker,
                                                const char* message, size_t message_length,
                                                rserve_error** err) {
  return With(orchestrator, err, [&]() -> absl::Status {
    const size_t workers = orchestrator->core->config().workers.size();
    if (worker < 0 || static_cast<size_t>(worker) >= workers) {
      return absl::InvalidArgumentError(
          absl::StrCat("worker is ", worker, "; there are ", workers));
    }
    rserve::WorkerLostInput input{worker, absl::OkStatus()};
    absl::Status read =
        ReadStatus(RSERVE_STATUS_UNAVAILABLE, message, message_length, &input.status);
    if (read.ok()) orchestrator->inputs.emplace_back(std::move(input));
    return read;
  });
}

rserve_status_t rserve_orchestrator_drain(rserve_orchestrator* orchestrator, rserve_error** err) {
  return With(orchestrator, err, [&] {
    orchestrator->inputs.emplace_back(rserve::DrainInput{});
    return absl::OkStatus();
  });
}

rserve_status_t rserve_orchestrator_abort(rserve_orchestrator* orchestrator, rserve_error** err) {
  return With(orchestrator, err, [&] {
    orchestrator->inputs.emplace_back(rserve::AbortInput{});
    return absl::OkStatus();
  });
}

rserve_status_t rserve_orchestrator_step(rserve_orchestrator* orchestrator, int64_t now_ns,
                                         rserve_error** err) {
  return With(orchestrator, err, [&] {
    orchestrator->actions.Clear();
    orchestrator->failed = true;  // until the step is through
    orchestrator->core->Step(now_ns, absl::MakeSpan(orchestrator->inputs), orchestrator->actions);
    orchestrator->failed = false;
    orchestrator->inputs.clear();
    return absl::OkStatus();
  });
}

rserve_status_t rserve_orchestrator_next_action(rserve_orchestrator* orchestrator,
                                                rserve_action* action, rserve_error** err) {
  return With(orchestrator, err, [&]() -> absl::Status {
    if (absl::Status s = CheckNotNull(action, "action"); !s.ok()) return s;
    // Judged before an action is taken, so that a wrong size loses none.
    absl::Status status =
        CheckStructSize("rserve_action", action->struct_size, sizeof(rserve_action));
    if (!status.ok()) return status;
    return CopyOut("rserve_action", orchestrator->actions.Next(), sizeof(rserve_action), action);
  });
}

int64_t rserve_orchestrator_next_wake_ns(const rserve_orchestrator* orchestrator) {
  if (orchestrator == nullptr || orchestrator->failed) return INT64_MAX;
  return orchestrator->core->next_wake_ns();
}

rserve_status_t rserve_orchestrator_get_stats(const rserve_orchestrator* orchestrator,
                                              rserve_stats* stats, rserve_error** err) {
  return With(orchestrator, err, [&]() -> absl::Status {
    if (absl::Status s = CheckNotNull(stats, "stats"); !s.ok()) return s;
    return CopyOut("rserve_stats",
                   MakeStats(orchestrator->core->stats(), orchestrator->core->idle()),
                   kFirstStatsSize, stats);
  });
}

}  // extern "C"
