// Plans of requests that are not run.

#include <string>
#include <utility>

#include "capi/engine_handle.h"
#include "capi/items.h"
#include "capi/request.h"
#include "capi/structs.h"

struct rserve_plan {
  rserve::RequestPreview preview;
  std::string message;  // why it does not fit, ended by a NUL
};

namespace rserve::capi {

namespace {

rserve_plan_info MakePlanInfo(const RequestPreview& from) {
  rserve_plan_info info{};
  info.fits = static_cast<rserve_status_t>(from.fits.code());
  info.prompt_tokens = static_cast<int64_t>(from.token_ids.size());
  info.mrope_delta = from.mrope_delta;
  info.kv_blocks = from.kv_blocks;
  info.embedding_bytes = from.embedding_bytes;
  info.pixel_bytes = from.pixel_bytes;
  info.input_bytes = from.input_bytes;
  info.num_items = static_cast<int32_t>(from.items.size());
  return info;
}

}  // namespace

}  // namespace rserve::capi

using namespace rserve::capi;  // NOLINT(google-build-using-namespace): the shim of that namespace

extern "C" {

rserve_status_t rserve_engine_plan(const rserve_engine* engine, const rserve_request* request,
                                   rserve_plan** plan, rserve_error** err) {
  return WithModel(engine, err, [&](const rserve::ModelEngine& model_engine) -> absl::Status {
    if (absl::Status status = CheckNotNull(plan, "plan"); !status.ok()) return status;
    absl::StatusOr<rserve::ModelRequest> read = ReadRequest(model_engine, request);
    if (!read.ok()) return read.status();
    absl::StatusOr<rserve::RequestPreview> preview = model_engine.PlanRequest(*read);
    if (!preview.ok()) return preview.status();
    std::string message(preview->fits.message());
    *plan = new rserve_plan{*std::move(preview), std::move(message)};
    return absl::OkStatus();
  });
}

rserve_status_t rserve_plan_get_info(const rserve_plan* plan, rserve_plan_info* info,
                                     rserve_error** err) {
  return Guard(err, [&]() -> absl::Status {
    absl::Status status = CheckNotNull(plan, "plan");
    status.Update(CheckNotNull(info, "info"));
    if (!status.ok()) return status;
    return CopyOut("rserve_plan_info", MakePlanInfo(plan->preview), sizeof(rserve_plan_info), info);
  });
}

rserve_status_t rserve_plan_get_item(const rserve_plan* plan, size_t index, rserve_item* item,
                                     rserve_error** err) {
  return Guard(err, [&]() -> absl::Status {
    if (absl::Status status = CheckNotNull(plan, "plan"); !status.ok()) return status;
    return WriteItem(plan->preview.items, index, item);
  });
}

const char* rserve_plan_message(const rserve_plan* plan, size_t* count) {
  if (count != nullptr) *count = plan == nullptr ? 0 : plan->message.size();
  return plan == nullptr ? "" : plan->message.c_str();
}

const int32_t* rserve_plan_tokens(const rserve_plan* plan, size_t* count) {
  return Expose(plan == nullptr ? nullptr : &plan->preview.token_ids, count);
}

const int32_t* rserve_plan_positions(const rserve_plan* plan, size_t* count) {
  return Expose(plan == nullptr ? nullptr : &plan->preview.positions, count);
}

void rserve_plan_destroy(rserve_plan* plan) { delete plan; }

}  // extern "C"
