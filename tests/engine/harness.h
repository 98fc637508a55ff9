// Runs requests through an engine and gathers what came of them.

#ifndef RSERVE_TESTS_ENGINE_HARNESS_H_
#define RSERVE_TESTS_ENGINE_HARNESS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rserve/cc/model_engine.h"
#include "tests/support/numbers.h"

namespace rserve::testing {

// Options for the tiny model: unpinned threads, one a worker, so that tests share a machine.
ModelEngineOptions TinyOptions();

// A request that owns its pictures: alternating text and pictures as `layout` says. A character
// each: 't' some user text, 'c' a control token by its id, 'p' a PNG, 'x' RGB pixels. Sizes and
// contents follow from `seed`.
struct OwnedRequest {
  ModelRequest request;
  std::vector<std::vector<uint8_t>> memory;
};
std::unique_ptr<OwnedRequest> MakeRequest(const std::string& layout, uint64_t seed);

struct Outcome {
  std::vector<Event> events;
  std::shared_ptr<const RequestDetail> detail;
  const Event& terminal() const { return events.back(); }
};

// Polls until `requests` have their terminal events, waiting on the fd. Checks what holds for every
// request: accepted first, one terminal event and nothing after it, each input released once.
// `on_event` (may be empty) sees every event. Acknowledges them.
std::map<RequestId, Outcome> WaitForAll(ModelEngine& engine, std::vector<RequestId> requests,
                                        const std::function<void(const Event&)>& on_event = {});

// Submits, waits and returns the outcomes in order; `together`: submits all before it waits.
std::vector<Outcome> RunAll(ModelEngine& engine,
                            const std::vector<std::unique_ptr<OwnedRequest>>& requests,
                            bool together);

// A failed Create or Submit ends the test.
std::unique_ptr<ModelEngine> MustCreate(ModelEngineOptions options);
RequestId MustSubmit(ModelEngine& engine, const ModelRequest& request);

}  // namespace rserve::testing

#endif  // RSERVE_TESTS_ENGINE_HARNESS_H_
