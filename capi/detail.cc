// Details of requests: snapshots behind a handle.

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "capi/engine_handle.h"
#include "capi/items.h"
#include "capi/structs.h"

struct rserve_detail {
  std::shared_ptr<const rserve::RequestDetail> detail;
  std::string message;  // of its status, ended by a NUL
};

namespace rserve::capi {

namespace {

rserve_detail_info MakeDetailInfo(const RequestDetail& from) {
  rserve_detail_info info{};
  info.last_event = static_cast<rserve_event_type_t>(from.last_event);
  info.request_id = from.request;
  info.user_data = from.user_data;
  info.status = static_cast<rserve_status_t>(from.status.code());
  info.token = from.first_token.token;
  info.logprob = from.first_token.logprob;
  info.num_items = static_cast<int32_t>(from.items.size());
  info.prompt_tokens = static_cast<int64_t>(from.token_ids.size());
  info.kv_blocks = from.kv_blocks;
  info.submitted_ns = from.times.submitted_ns;
  info.first_encode_ns = from.times.first_encode_ns;
  info.last_encode_ns = from.times.last_encode_ns;
  info.first_prefill_ns = from.times.first_prefill_ns;
  info.first_token_ns = from.times.first_token_ns;
  info.ended_ns = from.ended_ns;
  info.first_prepare_ns = from.times.first_prepare_ns;
  info.last_prepare_ns = from.times.last_prepare_ns;
  info.reused_tokens = from.reused_tokens;
  return info;
}

}  // namespace

}  // namespace rserve::capi

using namespace rserve::capi;  // NOLINT(google-build-using-namespace): the shim of that namespace

extern "C" {

rserve_status_t rserve_request_detail(const rserve_engine* engine, uint64_t request_id,
                                      rserve_detail** detail, rserve_error** err) {
  return WithEngine(engine, err, [&](const auto& any) -> absl::Status {
    if (absl::Status status = CheckNotNull(detail, "detail"); !status.ok()) return status;
    auto found = any.Detail(request_id);
    if (!found.ok()) return found.status();
    std::string message((*found)->status.message());
    *detail = new rserve_detail{*std::move(found), std::move(message)};
    return absl::OkStatus();
  });
}

rserve_status_t rserve_detail_get_info(const rserve_detail* detail, rserve_detail_info* info,
                                       rserve_error** err) {
  return Guard(err, [&]() -> absl::Status {
    absl::Status status = CheckNotNull(detail, "detail");
    status.Update(CheckNotNull(info, "info"));
    if (!status.ok()) return status;
    return CopyOut("rserve_detail_info", MakeDetailInfo(*detail->detail),
                   offsetof(rserve_detail_info, reused_tokens), info);
  });
}

rserve_status_t rserve_detail_get_item(const rserve_detail* detail, size_t index, rserve_item* item,
                                       rserve_error** err) {
  return Guard(err, [&]() -> absl::Status {
    if (absl::Status status = CheckNotNull(detail, "detail"); !status.ok()) return status;
    return WriteItem(detail->detail->items, index, item);
  });
}

const char* rserve_detail_message(const rserve_detail* detail, size_t* count) {
  if (count != nullptr) *count = detail == nullptr ? 0 : detail->message.size();
  return detail == nullptr ? "" : detail->message.c_str();
}

const int32_t* rserve_detail_tokens(const rserve_detail* detail, size_t* count) {
  return Expose(detail == nullptr ? nullptr : &detail->detail->token_ids, count);
}

const float* rserve_detail_logits(const rserve_detail* detail, size_t* count) {
  return Expose(detail == nullptr ? nullptr : &detail->detail->logits, count);
}

const float* rserve_detail_embeddings(const rserve_detail* detail, size_t* count) {
  return Expose(detail == nullptr ? nullptr : &detail->detail->embeddings, count);
}

void rserve_detail_destroy(rserve_detail* detail) { delete detail; }

}  // extern "C"
