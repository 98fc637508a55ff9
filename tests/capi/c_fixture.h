// What the tests of the C ABI share.

#ifndef RSERVE_TESTS_CAPI_C_FIXTURE_H_
#define RSERVE_TESTS_CAPI_C_FIXTURE_H_

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rserve/rserve.h"
#include "tests/engine/tiny_model.h"
#include "tests/support/catch.h"

namespace rserve::testing {

// The error of a call: its code, its message; freed here.
struct Failure {
  rserve_status_t code = RSERVE_STATUS_OK;
  std::string message;
  bool Mentions(const std::string& text) const { return message.find(text) != std::string::npos; }
};
template <typename Call>
Failure Try(Call&& call) {
  rserve_error* err = nullptr;
  Failure failure;
  failure.code = call(&err);
  CHECK((err != nullptr) == (failure.code != RSERVE_STATUS_OK));
  CHECK(rserve_error_code(err) == failure.code);
  size_t length = 0;
  const char* message = rserve_error_message(err, &length);
  CHECK(std::strlen(message) == length);
  failure.message = message;
  rserve_error_destroy(err);
  return failure;
}

struct EngineDelete {
  void operator()(rserve_engine* engine) const { rserve_engine_destroy(engine); }
};
using EnginePtr = std::unique_ptr<rserve_engine, EngineDelete>;

inline rserve_engine_config TinyConfig() {
  rserve_engine_config config = RSERVE_ENGINE_CONFIG_INIT;
  config.scheme = RSERVE_SCHEME_RSERVE;  // whose workers do not depend on what is measured
  config.model_path = TinyModelFolder().data();
  config.model_path_length = TinyModelFolder().size();
  config.kv_tokens = 4096;
  config.flags = RSERVE_ENGINE_F_NO_PINNING;
  return config;
}

inline EnginePtr MustCreate(const rserve_engine_config& config) {
  rserve_engine* engine = nullptr;
  const Failure failure =
      Try([&](rserve_error** err) { return rserve_engine_create(&config, &engine, err); });
  INFO(failure.message);
  REQUIRE(failure.code == RSERVE_STATUS_OK);
  return EnginePtr(engine);
}

inline rserve_part TextPart(std::string_view text) {
  rserve_part part = {};
  part.type = RSERVE_PART_TEXT;
  part.data = text.data();
  part.count = text.size();
  return part;
}
inline rserve_part ImagePart(const std::vector<uint8_t>& file) {
  rserve_part part = {};
  part.type = RSERVE_PART_IMAGE;
  part.data = file.data();
  part.count = file.size();
  return part;
}
inline rserve_request RequestOf(const std::vector<rserve_part>& parts) {
  rserve_request request = RSERVE_REQUEST_INIT;
  request.parts = parts.data();
  request.num_parts = parts.size();
  return request;
}
inline Failure Submit(rserve_engine* engine, const rserve_request& request, uint64_t* id) {
  return Try([&](rserve_error** err) { return rserve_engine_submit(engine, &request, id, err); });
}

// Polls until `terminals` requests have ended; returns all events.
inline std::vector<rserve_event> WaitFor(rserve_engine* engine, size_t terminals) {
  std::vector<rserve_event> all;
  while (terminals > 0) {
    pollfd wait = {rserve_engine_wait_fd(engine), POLLIN, 0};
    REQUIRE(poll(&wait, 1, 120000) == 1);
    rserve_event events[8];
    size_t count = 0;
    REQUIRE(rserve_engine_poll(engine, events, 8, sizeof(rserve_event), &count, nullptr) ==
            RSERVE_STATUS_OK);
    for (size_t i = 0; i < count; ++i) {
      all.push_back(events[i]);
      if ((events[i].flags & RSERVE_EVENT_F_MORE) == 0) --terminals;
    }
  }
  return all;
}

}  // namespace rserve::testing

#endif  // RSERVE_TESTS_CAPI_C_FIXTURE_H_
