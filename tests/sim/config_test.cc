#include "src/sim/config_json.h"

#include "src/sim/scheme.h"
#include "tests/support/catch.h"

namespace rserve::sim {
namespace {

SimConfig Base() {
  SimConfig config;
  config.model = *FindModelShape("7b");
  config.hardware = *FindHardware("h100");
  config.layout = *ParseLayout("PP4+E1");
  return config;
}

TEST_CASE("a configuration comes back from its own JSON") {
  for (const ModelShape& model : ModelShapes()) {
    for (const Hardware& hardware : HardwarePresets()) {
      SimConfig config = Base();
      config.model = model;
      config.hardware = hardware;
      config.calibration = *FindCalibration("a");
      config.policy.token_budget = 777;
      config.media_lanes = 3;
      const std::string text = ToJson(config);
      SimConfig back = Base();
      REQUIRE(FromJson(text, &back).ok());
      CHECK(ToJson(back) == text);
    }
  }
}

TEST_CASE(
    "every knob of placement and policy comes back, so that a written file is the whole run") {
  SimConfig config = Base();
  config.layout = *ParseLayout("PP4");
  config.layout.layers = {4, 8, 8, 8};
  REQUIRE(ApplyScheme("adaptive", &config).ok());
  config.policy.gate = Gate::kWholeRequest;
  config.policy.sharing = Sharing::kOneRequest;
  config.policy.order = Order::kFeasibleFirst;
  config.policy.slo_ns = 5'000'000'000;
  config.policy.square_root_budget = false;
  config.policy.adaptive_encode_batch = false;
  config.policy.one_chunk_in_flight = true;
  config.first = Role::kEncoder;
  SimConfig back = Base();
  REQUIRE(FromJson(ToJson(config), &back).ok());
  CHECK(ToJson(back) == ToJson(config));
  CHECK(back.policy.order == Order::kFeasibleFirst);
  CHECK(back.policy.gate == Gate::kWholeRequest);
  CHECK_FALSE(back.policy.square_root_budget);
  CHECK(back.policy.encode_across_requests);
  CHECK(back.first == Role::kEncoder);
  CHECK(back.layout.layers == config.layout.layers);
}

TEST_CASE("presets can be named, and a number of theirs replaced") {
  SimConfig config = Base();
  REQUIRE(FromJson(R"({"model": "72b", "hardware": {"name": "h200", "memory_gb": 96},
                       "calibration": {"name": "mine", "mfu_linear": 0.3}, "layout": "PP5",
                       "scheme": "colocated", "policy": {"token_budget": 512}})",
                   &config)
              .ok());
  CHECK(config.model.language.layers == 80);
  CHECK(config.hardware.memory_gb == 96);
  CHECK(config.hardware.memory_gb_s == 4800);
  CHECK(config.calibration.mfu_linear == 0.3);
  CHECK(config.scheme == "colocated");
  CHECK(config.policy.token_budget == 512);
}

TEST_CASE("a wrong field is refused by its name and changes nothing") {
  const struct {
    const char* text;
    const char* named;
  } cases[] = {
      {"{", "config"},
      {R"({"modell": "72b"})", "modell"},
      {R"({"model": "71b"})", "71b"},
      {R"({"model": 5})", "model"},
      {R"({"model": {"name": "72b", "layers": 0}})", "layers"},
      {R"({"hardware": {"peak_tflops": -1}})", "peak_tflops"},
      {R"({"calibration": {"mfu": 1}})", "mfu"},
      {R"({"policy": {"token_budget": 0}})", "token_budget"},
      {R"({"policy": {"gate": "open"}})", "whole-request"},
      {R"({"policy": {"order": 2}})", "order"},
      {R"({"policy": {"square_root_budget": 1}})", "square_root_budget"},
      {R"({"layout": "PP4+E1", "scheme": "colocated"})", "colocated"},
  };
  for (const auto& one : cases) {
    SimConfig config = Base();
    const std::string before = ToJson(config);
    const absl::Status status = FromJson(one.text, &config);
    CAPTURE(one.text, std::string(status.message()));
    REQUIRE_FALSE(status.ok());
    CHECK(std::string(status.message()).find(one.named) != std::string::npos);
    CHECK(ToJson(config) == before);
  }
}

}  // namespace
}  // namespace rserve::sim
