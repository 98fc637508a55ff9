#include "src/runtime/exception_guard.h"

#include <exception>
#include <new>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace rserve::runtime {
namespace {

absl::Status Describe(absl::StatusCode code, absl::string_view what,
                      absl::string_view text) noexcept {
  try {
    return absl::Status(code, absl::StrCat(what, text));
  } catch (...) {
    return absl::Status(code, "");  // a status without a message needs no memory
  }
}

}  // namespace

absl::Status RunGuarded(absl::string_view what, absl::FunctionRef<void()> fn) noexcept {
  try {
    fn();
    return absl::OkStatus();
  } catch (const std::bad_alloc&) {
    return Describe(absl::StatusCode::kResourceExhausted, what, ": out of memory");
  } catch (const std::exception& e) {
    try {
      const auto* system = dynamic_cast<const std::system_error*>(&e);
      if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again) {
        return absl::ResourceExhaustedError(
            absl::StrCat(what, ": the system refused another thread: ", e.what()));
      }
      return absl::InternalError(absl::StrCat(what, " threw: ", e.what()));
    } catch (...) {
      return absl::Status(absl::StatusCode::kInternal, "");
    }
  } catch (...) {
    return Describe(absl::StatusCode::kInternal, what, " threw an unknown exception");
  }
}

absl::Status StatusWithoutThrow(absl::StatusCode code, absl::string_view message) noexcept {
  return Describe(code, message, "");
}

}  // namespace rserve::runtime
