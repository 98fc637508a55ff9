// What the tests of the engine share: small plans and options, an engine over a GatedExecutor, and
// events as text.

#ifndef RSERVE_TESTS_RUNTIME_ENGINE_FIXTURE_H_
#define RSERVE_TESTS_RUNTIME_ENGINE_FIXTURE_H_

#include <memory>
#include <string>
#include <vector>

#include "rserve/cc/engine.h"
#include "tests/runtime/gated_executor.h"

namespace rserve::testing {

// `tokens` tokens of text.
RequestPlan TextPlan(RequestId id, int64_t tokens);
// Two tokens of text, then each image's tokens followed by two of text. 16 bytes of embedding and 4
// of pixels a token.
RequestPlan ImagePlan(RequestId id, const std::vector<int64_t>& image_tokens);

// `stages` stages and one encoder on workers of their own, scheme rserve, B = 8, C = 1 (each image
// is a batch), no preparation.
EngineOptions SmallOptions(int32_t stages);

// "1 accepted", "1 encoded 0", "1 released 0", "1 first token 101", "1 finished",
// "1 failed INTERNAL: why", "1 cancelled".
std::string ToString(const Event& event);

class EngineFixture {
 public:
  explicit EngineFixture(EngineOptions options = SmallOptions(1));
  // Opens the gate, ends the engine, and checks that it kept the executor's contract.
  ~EngineFixture();

  Engine& engine() { return *engine_; }
  ActionGate& gate() { return *gate_; }

  // Waits on the fd, with poll(2), for the next event.
  Event NextEvent();
  std::string Next() { return ToString(NextEvent()); }
  // Events up to and with the request's terminal event.
  std::vector<std::string> UntilEnd(RequestId request);
  // Waits until nothing is open or lingering.
  void AwaitIdle();
  void Destroy() { engine_.reset(); }

 private:
  const std::shared_ptr<ActionGate> gate_;
  std::unique_ptr<Engine> engine_;
};

bool Readable(int fd);
void AwaitReadable(int fd);

}  // namespace rserve::testing

#endif  // RSERVE_TESTS_RUNTIME_ENGINE_FIXTURE_H_
