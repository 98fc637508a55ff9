#include "src/sim/workload.h"

#include "tests/support/catch.h"

namespace rserve::sim {
namespace {

TEST_CASE("every generated request is a plan that the orchestrator accepts") {
  for (const std::string& name : WorkloadKindNames()) {
    WorkloadSpec spec;
    spec.kind = *ParseWorkloadKind(name);
    spec.requests = 200;
    spec.arrivals = ArrivalKind::kBursty;
    TimeNs last = 0;
    for (const SimRequest& request : DrainSource(*MakeSource(spec))) {
      CAPTURE(name);
      CHECK(ValidatePlan(MakePlan(request, 1, 16)).ok());
      CHECK(request.arrival_ns >= last);
      last = request.arrival_ns;
    }
  }
}

TEST_CASE("the MMMU-like workloads have the paper's mean lengths") {
  for (const auto& [name, mean, pictures] :
       {std::tuple{"mmmu-1k", 8000.0, 5000.0}, std::tuple{"mmmu-2k", 12000.0, 9000.0}}) {
    WorkloadSpec spec;
    spec.kind = *ParseWorkloadKind(name);
    spec.requests = 4000;
    double tokens = 0, in_pictures = 0;
    for (const SimRequest& request : DrainSource(*MakeSource(spec))) {
      tokens += static_cast<double>(request.prompt_tokens);
      for (const SimItem& item : request.items) in_pictures += static_cast<double>(item.tokens);
    }
    CHECK(tokens / 4000 == Approx(mean).epsilon(0.03));
    CHECK(in_pictures / 4000 == Approx(pictures).epsilon(0.04));
  }
}

TEST_CASE("a seed gives the same sizes at every rate, and another seed others") {
  WorkloadSpec spec;
  spec.requests = 50;
  const auto a = DrainSource(*MakeSource(spec));
  spec.rate = 7;
  const auto b = DrainSource(*MakeSource(spec));
  spec.seed = 2;
  const auto c = DrainSource(*MakeSource(spec));
  int64_t different = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].items == b[i].items);
    different += a[i].items == c[i].items ? 0 : 1;
  }
  CHECK(different > 40);
}

TEST_CASE("JSONL comes back as it went out, and a bad line is named") {
  WorkloadSpec spec;
  spec.kind = WorkloadKind::kVideo;
  spec.requests = 20;
  const auto requests = DrainSource(*MakeSource(spec));
  const auto back = FromJsonl(ToJsonl(requests));
  REQUIRE(back.ok());
  CHECK(*back == requests);
  const char* bad[] = {
      "{",
      "[]",
      "{\"arrival_ns\": 0}",
      "{\"arrival_ns\": -1, \"prompt_tokens\": 5}",
      "{\"arrival_ns\": 0, \"prompt_tokens\": 5, \"items\": 3}",
      "{\"arrival_ns\": 0, \"prompt_tokens\": 5, \"items\": [{\"at\": 2, \"tokens\": 4}]}",
      "{\"arrival_ns\": 0, \"prompt_tokens\": 5, \"items\": [{\"at\": 0, \"tokens\": 2, \"units\": "
      "3}]}",
  };
  for (const char* line : bad) {
    const auto result =
        FromJsonl(std::string("{\"arrival_ns\": 0, \"prompt_tokens\": 5}\n\n") + line);
    CAPTURE(line);
    REQUIRE_FALSE(result.ok());
    CHECK(std::string(result.status().message()).find("line 3") != std::string::npos);
  }
}

}  // namespace
}  // namespace rserve::sim
