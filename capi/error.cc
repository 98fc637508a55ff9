#include "absl/strings/str_cat.h"
#include "capi/guard.h"

namespace rserve::capi {

namespace {

// Never freed; made before main, short enough to need no memory.
const rserve_error kOutOfMemory = {RSERVE_STATUS_RESOURCE_EXHAUSTED, "out of memory"};

}  // namespace

rserve_status_t ReportOutOfMemory(rserve_error** err) noexcept {
  // Errors are only ever read and destroyed, and destroy leaves this one alone.
  if (err != nullptr) *err = const_cast<rserve_error*>(&kOutOfMemory);
  return RSERVE_STATUS_RESOURCE_EXHAUSTED;
}

rserve_status_t Report(const absl::Status& status, rserve_error** err) noexcept {
  if (status.ok()) return RSERVE_STATUS_OK;
  const auto code = static_cast<rserve_status_t>(status.code());
  if (err == nullptr) return code;
  try {
    *err = new rserve_error{code, std::string(status.message())};
  } catch (...) {
    ReportOutOfMemory(err);
  }
  return code;
}

rserve_status_t ReportException(const char* what, rserve_error** err) noexcept {
  try {
    return Report(absl::InternalError(absl::StrCat("unexpected exception: ", what)), err);
  } catch (...) {
    return ReportOutOfMemory(err);
  }
}

absl::Status CheckNotNull(const void* pointer, const char* name) {
  if (pointer != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is NULL"));
}

}  // namespace rserve::capi

extern "C" {

rserve_status_t rserve_error_code(const rserve_error* err) {
  return err == nullptr ? RSERVE_STATUS_OK : err->code;
}

const char* rserve_error_message(const rserve_error* err, size_t* length) {
  if (length != nullptr) *length = err == nullptr ? 0 : err->message.size();
  return err == nullptr ? "" : err->message.c_str();
}

void rserve_error_destroy(rserve_error* err) {
  if (err != &rserve::capi::kOutOfMemory) delete err;
}

}  // extern "C"
