// Logger: the host's log function behind a guard. Silent without one.

#ifndef RSERVE_SRC_RUNTIME_LOGGER_H_
#define RSERVE_SRC_RUNTIME_LOGGER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/runtime/exception_guard.h"

namespace rserve::runtime {

// The `level` of EngineOptions::log.
inline constexpr int32_t kLogWarning = 2;
inline constexpr int32_t kLogError = 3;

// [any-thread], and so must the function be.
class Logger {
 public:
  using Fn = std::function<void(int32_t level, const std::string& message)>;

  explicit Logger(Fn fn) : fn_(std::move(fn)) {}

  // Writes "<who> <number>: <status>". An exception of the log function is dropped: there is nobody
  // left to tell.
  void Write(int32_t level, absl::string_view who, int64_t number,
             const absl::Status& status) const noexcept {
    if (!fn_) return;
    RunGuarded("log", [&] {
      fn_(level, absl::StrCat(who, " ", number, ": ", status.ToString()));
    }).IgnoreError();
  }

 private:
  const Fn fn_;
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_LOGGER_H_
