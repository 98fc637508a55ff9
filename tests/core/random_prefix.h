// Prompts that begin as earlier ones did: what makes KV worth keeping.

#ifndef RSERVE_TESTS_CORE_RANDOM_PREFIX_H_
#define RSERVE_TESTS_CORE_RANDOM_PREFIX_H_

#include <cstdint>
#include <vector>

#include "rserve/cc/request_plan.h"
#include "tests/core/rng.h"

namespace rserve::test {

class RandomPrefix {
 public:
  // Gives a plan keys of its KV blocks. Often it becomes an earlier plan first: as it was, with the
  // plan behind it, or with another content from some block on.
  RequestPlan Apply(Rng& rng, int32_t block_tokens, const RequestPlan& plan);

 private:
  std::vector<RequestPlan> earlier_;
};

}  // namespace rserve::test

#endif  // RSERVE_TESTS_CORE_RANDOM_PREFIX_H_
