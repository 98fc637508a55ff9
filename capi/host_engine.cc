// An engine over the host's model.

#include "src/runtime/host/host_engine.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "capi/callback_executor.h"
#include "capi/engine_handle.h"
#include "capi/host_config.h"
#include "rserve/host.h"

namespace rserve::capi {
namespace {

absl::StatusOr<std::unique_ptr<rserve_engine>> CreateHostEngine(const rserve_host_config* config,
                                                                ExecutorCallback executor,
                                                                LogCallback log) {
  auto core = ReadHostConfig(config);
  if (!core.ok()) return core.status();
  if (core->prepare_lanes > 0) {
    absl::Status status =
        CheckNotNull(reinterpret_cast<const void*>(executor.get().prepare), "executor::prepare");
    if (!status.ok()) return status;
  }
  std::unique_ptr<rserve_engine> handle(
      new rserve_engine{.owner = getpid(),
                        .log = std::move(log),
                        .model = nullptr,
                        .host = nullptr,
                        .completions = std::make_shared<CompletionTable>(),
                        .gate = {},
                        .polling = false,
                        .events = {}});
  handle->events.reserve(kPollStep);
  EngineOptions options;
  options.core = *std::move(core);
  options.log = [log = &handle->log](int32_t level, const std::string& message) {
    WriteLog(log->get(), level, message);
  };
  auto engine = runtime::HostEngine::Create(
      std::move(options),
      std::make_unique<CallbackExecutor>(std::move(executor), handle->completions));
  if (!engine.ok()) return engine.status();
  handle->host = *std::move(engine);
  return handle;
}

}  // namespace
}  // namespace rserve::capi

using namespace rserve::capi;  // NOLINT(google-build-using-namespace): the shim of that namespace

extern "C" {

rserve_status_t rserve_engine_create_with_executor(const rserve_host_config* config,
                                                   const rserve_executor* executor,
                                                   const rserve_log* log, rserve_engine** engine,
                                                   rserve_error** err) {
  return Guard(err, [&]() -> absl::Status {
    absl::Status status, log_status;
    ExecutorCallback callbacks = TakeExecutor(executor, &status);
    LogCallback log_callback = TakeCallback("rserve_log", log, &log_status);
    status.Update(log_status);
    status.Update(CheckNotNull(engine, "engine"));
    if (!status.ok()) return status;
    auto made = CreateHostEngine(config, std::move(callbacks), std::move(log_callback));
    if (!made.ok()) return made.status();
    *engine = made->release();
    return absl::OkStatus();
  });
}

rserve_status_t rserve_engine_submit_plan(rserve_engine* engine, const rserve_host_request* request,
                                          rserve_error** err) {
  return WithEngine(engine, err, [&](auto& any) -> absl::Status {
    if constexpr (std::is_same_v<decltype(any), rserve::runtime::HostEngine&>) {
      auto read = ReadHostRequest(request);
      if (!read.ok()) return read.status();
      return any.Submit(std::move(read->plan), read->user_data, read->discard_detail);
    } else {
      return absl::FailedPreconditionError(
          "the engine was made from a checkpoint; its requests come through rserve_engine_submit");
    }
  });
}

// Not through the gate: destroy waits for the actions that this call ends.
rserve_status_t rserve_engine_complete(rserve_engine* engine, uint64_t token,
                                       rserve_status_t status, const char* message,
                                       size_t message_length, rserve_error** err) {
  return Guard(err, [&]() -> absl::Status {
    if (absl::Status s = CheckNotNull(engine, "engine"); !s.ok()) return s;
    if (engine->completions == nullptr) {
      return absl::FailedPreconditionError("the engine has no executor of the host's");
    }
    absl::Status of_action;
    if (absl::Status s = ReadStatus(status, message, message_length, &of_action); !s.ok()) return s;
    rserve::Done done;
    if (!engine->completions->Take(token, &done)) {
      return absl::NotFoundError(
          absl::StrCat("token ", token, " is unknown or was completed before"));
    }
    std::move(done)(std::move(of_action));
    return absl::OkStatus();
  });
}

}  // extern "C"
