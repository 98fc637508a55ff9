// A C++ host without exceptions and RTTI, on the header-only wrapper. Prints what is wrong and
// returns 1.

#include <poll.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "rserve/rserve.hpp"
#include "tests/capi/hpp_other_unit.h"

namespace {

int Fail(const char* what, const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", what, why.c_str());
  return 1;
}

int Run(rserve::capi::Engine engine) {
  rserve::capi::Engine moved = std::move(engine);
  rserve::capi::Request request = OtherUnitsRequest();
  request.Flags(RSERVE_REQUEST_F_KEEP_LOGITS);
  rserve::capi::Result<rserve::capi::Plan> plan = moved.Plan(request);
  if (!plan) return Fail("plan", plan.error().message());
  rserve::capi::Result<uint64_t> id = moved.Submit(request);
  if (!id) return Fail("submit", id.error().message());

  std::vector<rserve_event> events;
  int32_t token = -1;
  for (bool ended = false; !ended;) {
    pollfd wait = {moved.wait_fd(), POLLIN, 0};
    if (poll(&wait, 1, 120000) != 1) return Fail("poll", "nothing came");
    if (rserve::capi::Done done = moved.Poll(&events); !done) {
      return Fail("poll", done.error().message());
    }
    for (const rserve_event& event : events) {
      if (event.type == RSERVE_EVENT_FIRST_TOKEN) token = event.u.first_token.token;
      ended = ended || (event.flags & RSERVE_EVENT_F_MORE) == 0;
    }
  }
  rserve::capi::Result<rserve::capi::Detail> detail = moved.Detail(*id);
  if (!detail) return Fail("detail", detail.error().message());
  rserve::capi::Result<rserve_detail_info> info = detail->Info();
  if (!info || info->token != token) return Fail("detail", "another token");
  if (detail->logits().size == 0) return Fail("detail", "no logits");
  if (detail->tokens().size != plan->tokens().size) return Fail("plan", "other tokens");
  rserve::capi::Result<std::string> text = moved.Decode(plan->tokens().data, plan->tokens().size);
  if (!text || text->find("Is it round?") == std::string::npos) return Fail("decode", "other text");
  if (!moved.Acknowledge(*id)) return Fail("acknowledge", "refused");
  if (moved.Acknowledge(*id)) return Fail("acknowledge", "taken twice");
  const rserve::capi::Result<rserve_stats> stats = moved.Stats();
  if (!stats || stats.value().finished != 1) return Fail("stats", "not one finished");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  rserve::capi::Config config;
  config.model_path(argv[1]);
  config.fields().kv_tokens = 2048;
  config.fields().flags = RSERVE_ENGINE_F_NO_PINNING;
  rserve::capi::Result<rserve::capi::Engine> engine = rserve::capi::Engine::Create(config.get());
  if (!engine) return Fail("create", engine.error().message());
  config.model_path(std::string(argv[1]) + "/nowhere");
  const auto missing = rserve::capi::Engine::Create(config.get());
  if (missing || missing.error().code() != RSERVE_STATUS_NOT_FOUND) {
    return Fail("create", "a missing folder is not NOT_FOUND");
  }
  return Run(std::move(engine.value()));
}
