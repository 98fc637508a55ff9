// The host's callbacks, owned: each `destroy` runs exactly once, whatever becomes of the call that
// brought it.

#ifndef RSERVE_CAPI_CALLBACKS_H_
#define RSERVE_CAPI_CALLBACKS_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "capi/structs.h"
#include "rserve/rserve.h"

namespace rserve::capi {

// A callback struct taken from the host. `C` begins with struct_size, reserved, ctx and has a
// destroy. Move-only.
template <typename C>
class Callback {
 public:
  Callback() = default;
  explicit Callback(const C& callbacks) : callbacks_(callbacks) {}
  Callback(Callback&& other) noexcept : callbacks_(std::exchange(other.callbacks_, C{})) {}
  Callback& operator=(Callback&& other) noexcept {
    std::swap(callbacks_, other.callbacks_);
    return *this;
  }
  ~Callback() {
    if (callbacks_.destroy != nullptr) callbacks_.destroy(callbacks_.ctx);
  }

  const C& get() const { return callbacks_; }

 private:
  C callbacks_{};
};

// Takes the host's struct, which may be NULL, also when it is refused: then `status` says why.
template <typename C>
Callback<C> TakeCallback(const char* name, const C* from, absl::Status* status) {
  if (from == nullptr) return Callback<C>();
  C copy{};
  uint32_t size = 0;
  std::memcpy(&size, from, sizeof(size));
  // What destroys the context comes first, so that a struct with another fault does not leak it.
  if (size >= sizeof(C)) std::memcpy(&copy, from, sizeof(C));
  Callback<C> taken(copy);
  C checked{};
  absl::Status copied = CopyIn(name, from, sizeof(C), &checked);
  if (copied.ok() && checked.reserved != 0) {
    copied = absl::InvalidArgumentError(absl::StrCat(name, "::reserved is not 0"));
  }
  status->Update(copied);
  return taken;
}

using LogCallback = Callback<rserve_log>;
using ProgressCallback = Callback<rserve_load_progress>;

// Takes the callbacks of a config, also of one that is refused for another reason: whatever
// struct_size covers is taken first and judged then. Never fails itself; `status` keeps the first
// fault.
struct TakenCallbacks {
  LogCallback log;
  ProgressCallback progress;
  absl::Status status;
};
TakenCallbacks TakeCallbacks(const rserve_engine_config& config);

void WriteLog(const rserve_log& log, int32_t level, const std::string& message);

}  // namespace rserve::capi

#endif  // RSERVE_CAPI_CALLBACKS_H_
