#include "tests/core/golden_scenario.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace rserve::test {
namespace {

using Words = std::vector<std::string>;

bool Number(const std::string& word, int64_t* value) {
  if (word == "all" || word == "max") {
    *value = INT64_MAX;
    return true;
  }
  return absl::SimpleAtoi(word, value);
}

bool SetOption(const std::string& name, int64_t value, OrchestratorConfig* config) {
  Policy& policy = config->policy;
  Budgets& budgets = config->budgets;
  if (name == "B") {
    policy.token_budget = value;
  } else if (name == "C") {
    policy.encode_batch_tokens = value;
  } else if (name == "flush") {
    policy.encode_flush_ns = value;
  } else if (name == "across_requests") {
    policy.encode_across_requests = value != 0;
  } else if (name == "one_chunk_in_flight") {
    policy.one_chunk_in_flight = value != 0;
  } else if (name == "depth") {
    for (WorkerSpec& worker : config->workers) worker.depth = static_cast<int32_t>(value);
  } else if (name == "lanes") {
    config->prepare_lanes = static_cast<int32_t>(value);
  } else if (name == "attempts") {
    config->max_encode_attempts = static_cast<int32_t>(value);
  } else if (name == "embedding_bytes") {
    budgets.embedding_bytes = value;
  } else if (name == "pixel_bytes") {
    budgets.pixel_bytes = value;
  } else if (name == "units") {
    budgets.units_in_flight = value;
  } else if (name == "kv_blocks") {
    budgets.kv_blocks = static_cast<int32_t>(value);
  } else {
    return false;
  }
  return true;
}

// An embedding row and its pixels are one byte each, so that budgets read as tokens.
bool AddPart(const std::string& part, RequestPlan* plan) {
  const std::pair<std::string, std::string> halves = absl::StrSplit(part, absl::MaxSplits(':', 1));
  if (halves.first == "text") {
    int64_t tokens = 0;
    if (!absl::SimpleAtoi(halves.second, &tokens)) return false;
    plan->prompt_tokens += tokens;
    return true;
  }
  if (halves.first != "image" && halves.first != "video") return false;
  SpanPlan span;
  span.token_begin = plan->prompt_tokens;
  span.item = plan->num_items++;
  for (const absl::string_view piece : absl::StrSplit(halves.second, ',')) {
    UnitPlan unit;
    if (!absl::SimpleAtoi(piece, &unit.tokens)) return false;
    unit.item = span.item;
    unit.embedding_bytes = unit.pixel_bytes = unit.tokens;
    span.tokens += unit.tokens;
    plan->units.push_back(unit);
  }
  plan->prompt_tokens += span.tokens;
  plan->spans.push_back(span);
  return true;
}

class Parser {
 public:
  bool Line(const Words& words) {
    const std::string& verb = words[0];
    if (verb == "scheme" && words.size() == 2) return Scheme(words[1]);
    if (verb == "set" && words.size() == 3) {
      int64_t value = 0;
      if (!Number(words[2], &value)) return false;
      options_.push_back({words[1], value});
      return SetOption(words[1], value, &out.config);  // again in Finish, when workers exist
    }
    if ((verb == "stages" || verb == "encoders") && words.size() == 2) {
      return absl::SimpleAtoi(words[1], verb == "stages" ? &stages_ : &encoders_);
    }
    if (verb == "cost" && words.size() == 4) return Cost(words);
    if (verb == "at" && words.size() >= 4) return At(words);
    return false;
  }

  void Finish() {
    out.config.policy = SchemePolicy(scheme_);
    const bool may_share = scheme_ == rserve::Scheme::kAdaptive;
    out.config.workers =
        SchemePlacement(scheme_, stages_, may_share ? encoders_ : std::max(encoders_, 1));
    if (encoders_ == 0) {
      std::erase_if(out.config.workers, [](const WorkerSpec& worker) { return worker.stage < 0; });
    }
    for (const auto& [name, value] : options_) SetOption(name, value, &out.config);
    for (ScenarioInput& timed : out.inputs) {
      auto* submit = std::get_if<SubmitInput>(&timed.input);
      if (submit != nullptr && deadlines_.contains(submit->plan.id)) {
        submit->plan.deadline_ns = deadlines_[submit->plan.id];
      }
    }
    std::stable_sort(out.inputs.begin(), out.inputs.end(),
                     [](const auto& a, const auto& b) { return a.at < b.at; });
  }

  Scenario out;

 private:
  bool Scheme(const std::string& name) {
    const auto scheme = ParseScheme(name);
    if (!scheme.ok()) return false;
    scheme_ = *scheme;
    return true;
  }

  bool Cost(const Words& words) {
    ScenarioCost* cost = words[1] == "prepare"  ? &out.prepare
                         : words[1] == "encode" ? &out.encode
                         : words[1] == "stage"  ? &out.stage
                                                : nullptr;
    return cost != nullptr && absl::SimpleAtoi(words[2], &cost->base) &&
           absl::SimpleAtoi(words[3], &cost->per_token);
  }

  bool At(const Words& words) {
    ScenarioInput timed;
    RequestId id = 0;
    if (!absl::SimpleAtoi(words[1], &timed.at)) return false;
    if (words[2] == "fail" && words.size() == 6 && words[3] == "encode") {
      int64_t number = 0;
      if (!absl::SimpleAtoi(words[4], &number)) return false;
      out.encode_failures[number] = words[5] == "unavailable"
                                        ? absl::UnavailableError("planned by the scenario")
                                        : absl::InternalError("planned by the scenario");
      return true;
    }
    if (!absl::SimpleAtoi(words[3], &id)) return false;
    if (words[2] == "deadline" && words.size() == 5) {
      return absl::SimpleAtoi(words[4], &deadlines_[id]);
    }
    if (words[2] == "cancel") {
      timed.input = CancelInput{id};
    } else if (words[2] == "submit") {
      SubmitInput submit;
      submit.plan.id = id;
      for (size_t i = 4; i < words.size(); ++i) {
        if (!AddPart(words[i], &submit.plan)) return false;
      }
      timed.input = std::move(submit);
    } else {
      return false;
    }
    out.inputs.push_back(std::move(timed));
    return true;
  }

  rserve::Scheme scheme_ = rserve::Scheme::kRserve;
  int32_t stages_ = 1, encoders_ = 1;
  std::vector<std::pair<std::string, int64_t>> options_;
  std::map<RequestId, TimeNs> deadlines_;
};

}  // namespace

absl::StatusOr<Scenario> ParseScenario(const std::string& text) {
  Parser parser;
  int32_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const std::string content(line.substr(0, line.find('#')));
    const Words words = absl::StrSplit(content, ' ', absl::SkipWhitespace());
    if (words.empty()) continue;
    if (words[0] == "title") {
      parser.out.title = content.substr(6);
    } else if (!parser.Line(words)) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", content));
    }
  }
  parser.Finish();
  return std::move(parser.out);
}

}  // namespace rserve::test
