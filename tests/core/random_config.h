// Random configurations and plans for the orchestrator: small, odd, and often with budgets so tight
// that one unit more or less decides.

#ifndef RSERVE_TESTS_CORE_RANDOM_CONFIG_H_
#define RSERVE_TESTS_CORE_RANDOM_CONFIG_H_

#include <memory>
#include <vector>

#include "rserve/cc/orchestrator.h"
#include "tests/core/rng.h"

namespace rserve::test {

// What the requests of one sequence look like.
struct PlanTraits {
  int32_t max_items = 3;
  int32_t max_units_per_item = 3;
  int64_t max_unit_tokens = 6;
  int64_t max_text = 8;
  int32_t atomic_percent = 0;
  int32_t shuffle_percent = 0;   // items out of order in the prompt
  int32_t repeat_percent = 0;    // rows read a second time, in any order
  int32_t deadline_percent = 0;  // requests with a deadline
  int32_t text_only_percent = 20;
};

struct RandomSetup {
  OrchestratorConfig config;
  PlanTraits traits;
  std::unique_ptr<Orchestrator> orchestrator;
};

PlanTraits RandomTraits(Rng& rng);

// A well-formed plan; `stages` bounds last_reader_stage.
RequestPlan RandomPlan(Rng& rng, const PlanTraits& traits, RequestId id, int32_t stages,
                       TimeNs now_ns);

// Damages a well-formed plan so that ValidatePlan must refuse it.
void Malform(Rng& rng, RequestPlan* plan);

// A configuration that Create accepts, with its orchestrator. Part of them has every budget shrunk
// to the smallest value with which CheckFits still admits some plans of these traits.
RandomSetup RandomSetupFor(Rng& rng);

}  // namespace rserve::test

#endif  // RSERVE_TESTS_CORE_RANDOM_CONFIG_H_
