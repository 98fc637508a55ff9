// rserve sim fit: the simulator against a measurement.

#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "src/sim/fit.h"
#include "src/sim/layout.h"
#include "src/sim/scheme.h"
#include "tools/rserve/bench_run.h"
#include "tools/rserve/files.h"
#include "tools/rserve/sim_flags.h"
#include "tools/rserve/text.h"

namespace rserve::tool {
namespace {

using nlohmann::json;

constexpr CommandText kText = {
    "sim fit",
    "Reads what `rserve bench --json` measured, fits what actions cost to the actions of the "
    "first\n"
    "scheme on each topology, and predicts TTFT and throughput of every scheme of the same files\n"
    "with the same arrivals. Each pass is predicted at its own pace (encodes / micro-batches: how\n"
    "long its actions took over the fitted costs): a machine that was slower for a while is no\n"
    "error of the model. Rows of the schemes that were fitted on are marked.\n",
    "  rserve bench MODEL --requests 40 --rate 2 --schemes rserve,epd,colocated --json load.json\n"
    "  rserve sim fit load.json --csv fit.csv\n"};

struct Run {
  std::string file;
  std::string scheme, topology, encode_batch;
  int64_t token_budget = 0;
  double rate = 0;                                    // requests a second, as they came
  std::vector<double> ttft_ms, p99_ms, tokens_per_s;  // by pass
  std::vector<std::vector<sim::ActionSample>> passes;
  double front_end_ns = 0, decision_ns = 0;  // means over the passes
  size_t set = 0;                            // of Data::sets
};

struct RequestSet {
  std::vector<sim::SimRequest> requests;
  int64_t media_threads = 1;
};

struct Data {
  std::vector<RequestSet> sets;  // one a file
  std::vector<Run> runs;
};

absl::Status Bad(const std::string& file, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": ", what, "; write it with `rserve bench --json` of this version"));
}

bool Integers(const json& value, std::vector<int64_t>* out) {
  if (!value.is_array()) return false;
  for (const json& one : value) {
    if (!one.is_number_integer()) return false;
    out->push_back(one.get<int64_t>());
  }
  return true;
}

double Number(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number() ? it->get<double>() : 0;
}

std::string String(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

absl::Status ReadSet(const std::string& file, const json& root, RequestSet* set) {
  std::vector<int64_t> begins, tokens, arrivals;
  const auto workload = root.find("workload");
  if (workload == root.end() || !workload->is_object() ||
      !Integers(workload->value("item_begin", json()), &begins) ||
      !Integers(workload->value("item_tokens", json()), &tokens) ||
      !Integers(workload->value("arrival_ns", json()), &arrivals) ||
      begins.size() != tokens.size() || arrivals.empty()) {
    return Bad(file, "it has no workload with item_begin, item_tokens and arrival_ns");
  }
  sim::SimRequest request;
  request.prompt_tokens = static_cast<int64_t>(Number(*workload, "prompt_tokens"));
  int64_t end = 0;
  for (size_t i = 0; i < begins.size(); ++i) {
    if (begins[i] < end || tokens[i] < 1 || tokens[i] > int64_t{1} << 24) {
      return Bad(file,
                 absl::StrCat("item ", i, " of the workload is not behind the one before it"));
    }
    end = begins[i] + tokens[i];
    request.items.push_back({begins[i], tokens[i], 1, 0});
  }
  if (request.prompt_tokens < std::max<int64_t>(end, 1) || request.prompt_tokens > int64_t{1}
                                                                                       << 30) {
    return Bad(file, "workload.prompt_tokens is less than its items take");
  }
  for (int64_t at : arrivals) {
    request.arrival_ns = std::max<int64_t>(at, 0);
    set->requests.push_back(request);
  }
  set->media_threads =
      std::max<int64_t>(1, static_cast<int64_t>(Number(*workload, "media_threads")));
  return absl::OkStatus();
}

absl::Status ReadPass(const std::string& file, const json& pass, Run* run) {
  std::vector<double> ttft;
  for (const json& ms : pass.value("ttft_ms", json::array())) {
    if (ms.is_number()) ttft.push_back(ms.get<double>());
  }
  if (ttft.empty()) return Bad(file, "a pass has no ttft_ms");
  run->ttft_ms.push_back(Mean(ttft));
  run->p99_ms.push_back(Percentile(ttft, 0.99));
  run->tokens_per_s.push_back(Number(pass, "tokens_per_s"));
  if (run->ttft_ms.back() <= 0 || run->tokens_per_s.back() <= 0) {
    return Bad(file, "a pass has no ttft_ms or tokens_per_s above 0");
  }
  run->front_end_ns += Number(pass, "front_end_ns");
  std::vector<sim::ActionSample> samples;
  for (const json& action : pass.value("actions", json::array())) {
    std::vector<int64_t> n;
    constexpr int64_t kMost = int64_t{1} << 52;  // of a time: more is no measurement
    if (!Integers(action, &n) || n.size() != 8 || n[0] < 0 || n[0] > 2 || n[5] < 0 ||
        n[5] > kMost || n[7] < 0 || n[7] > kMost) {
      return Bad(file, "an action is not eight integers");
    }
    samples.push_back({static_cast<sim::ActionSample::Kind>(n[0]), static_cast<int32_t>(n[1]), n[2],
                       n[3], n[4], n[5], static_cast<int32_t>(n[6]), n[7]});
  }
  sim::FindNeighbours(absl::MakeSpan(samples));
  run->decision_ns += sim::DecisionNs(samples);
  run->passes.push_back(std::move(samples));
  return absl::OkStatus();
}

absl::Status ReadFile(const std::string& file, Data* data) {
  const absl::StatusOr<std::string> text = ReadTextFile(file);
  if (!text.ok()) return text.status();
  const json root = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return Bad(file, "it is no JSON object");
  RequestSet set;
  if (absl::Status s = ReadSet(file, root, &set); !s.ok()) return s;
  const double last_s = static_cast<double>(set.requests.back().arrival_ns) * 1e-9;
  const double rate = last_s > 0 ? static_cast<double>(set.requests.size()) / last_s : 0;
  data->sets.push_back(std::move(set));
  for (const json& entry : root.value("runs", json::array())) {
    if (!entry.is_object()) return Bad(file, "a run is no object");
    Run run;
    run.file = file;
    run.scheme = String(entry, "scheme");
    run.topology = String(entry, "topology");
    run.encode_batch = String(entry, "encode_batch_tokens");
    run.token_budget = static_cast<int64_t>(Number(entry, "token_budget"));
    run.rate = rate;
    run.set = data->sets.size() - 1;
    for (const json& pass : entry.value("passes", json::array())) {
      if (!pass.is_object()) return Bad(file, "a pass is no object");
      if (absl::Status s = ReadPass(file, pass, &run); !s.ok()) return s;
    }
    if (run.ttft_ms.empty()) return Bad(file, "a run has no passes");
    run.front_end_ns /= static_cast<double>(run.ttft_ms.size());
    run.decision_ns /= static_cast<double>(run.ttft_ms.size());
    data->runs.push_back(std::move(run));
  }
  if (data->runs.empty()) return Bad(file, "it has no runs");
  return absl::OkStatus();
}

absl::StatusOr<sim::SimConfig> ConfigOf(const Run& run, const RequestSet& set) {
  sim::SimConfig config;
  auto layout = sim::ParseLayout(run.topology);
  if (!layout.ok()) return layout.status();
  config.layout = *layout;
  // Any shape with enough layers: what counts is what was fitted.
  config.model = *sim::FindModelShape("72b");
  if (absl::Status s = sim::ApplyScheme(run.scheme, &config); !s.ok()) return s;
  if (run.token_budget < 1) return Bad(run.file, "a run has no token_budget");
  config.policy.token_budget = run.token_budget;
  config.policy.encode_batch_tokens = kEncodeAll;
  if (run.encode_batch == "auto") {
    config.policy.encode_batch_tokens = Policy().encode_batch_tokens;
  } else {
    config.policy.adaptive_encode_batch = false;
    if (run.encode_batch != "all" &&
        (!absl::SimpleAtoi(run.encode_batch, &config.policy.encode_batch_tokens) ||
         config.policy.encode_batch_tokens < 1)) {
      return Bad(run.file, "a run has no encode_batch_tokens");
    }
  }
  config.media_lanes = static_cast<int32_t>(std::min<int64_t>(set.media_threads, 256));
  return config;
}

// By topology: the scheme of the first run there is what the costs are fitted to.
struct Fit {
  std::string scheme, encode_batch;
  sim::FittedCosts costs;
};

absl::StatusOr<std::map<std::string, Fit>> FitAll(const Data& data) {
  std::map<std::string, Fit> fits;
  for (const Run& first : data.runs) {
    if (fits.contains(first.topology)) continue;
    const auto layout = sim::ParseLayout(first.topology);
    if (!layout.ok()) return layout.status();
    Fit& fit = fits[first.topology];
    fit.scheme = first.scheme;
    fit.encode_batch = first.encode_batch;
    std::vector<std::vector<sim::ActionSample>> passes;
    bool any = false;
    double front_end = 0, decision = 0, runs = 0;
    for (const Run& run : data.runs) {
      if (run.topology != first.topology || run.scheme != first.scheme ||
          run.encode_batch != first.encode_batch) {
        continue;
      }
      for (const auto& pass : run.passes) {
        passes.push_back(pass);
        any = any || !pass.empty();
      }
      front_end += run.front_end_ns;
      decision += run.decision_ns;
      runs += 1;
    }
    if (!any) return Bad(first.file, "its passes have no actions");
    fit.costs = sim::FitCosts(passes, layout->stages);
    fit.costs.front_end_ns = front_end / runs;
    fit.costs.decision_ns = decision / runs;
  }
  return fits;
}

std::string SlowedText(const sim::SlowedBy& slowed) {
  return absl::StrFormat(" (slower by %.0f %% beside a worker, %.0f %% beside a preparation)",
                         slowed.by_worker * 100, slowed.by_prepare * 100);
}

void PrintFits(const std::map<std::string, Fit>& fits) {
  for (const auto& [topology, fit] : fits) {
    const sim::FittedCosts& costs = fit.costs;
    std::printf("%s, fitted on %s C=%s: front end %.2f ms, decision %.2f ms\n", topology.c_str(),
                fit.scheme.c_str(), fit.encode_batch.c_str(), costs.front_end_ns * 1e-6,
                costs.decision_ns * 1e-6);
    std::printf("  prepare %.2f ms + %.1f us a token%s\n", costs.prepare_ns * 1e-6,
                costs.prepare_token_ns * 1e-3, SlowedText(costs.prepare_slowed).c_str());
    std::printf("  encode %.2f ms + %.1f us a token%s\n", costs.encode_ns * 1e-6,
                costs.encode_token_ns * 1e-3, SlowedText(costs.encode_slowed).c_str());
    for (const sim::FittedStage& stage : costs.stages) {
      std::printf("  stage %.2f ms + %.1f us a token + %.2f ns a pair + %.2f ms a prompt's end%s\n",
                  stage.fixed_ns * 1e-6, stage.token_ns * 1e-3, stage.pair_ns,
                  stage.finished_ns * 1e-6, SlowedText(stage.slowed).c_str());
    }
  }
}

// Medians over the passes, as those measured; ratios are medians of each pass's own.
struct Prediction {
  double ttft_ms = 0, p99_ms = 0, tokens_per_s = 0;
  double ttft_over_measured = 0, tokens_over_measured = 0;
  sim::Pace pace;
};

// Each pass at the pace of its own actions: that the machine was slower for a while is no error of
// the model.
absl::StatusOr<Prediction> Predict(sim::SimConfig config, const sim::FittedCosts& costs,
                                   const Run& run, const RequestSet& set) {
  std::vector<double> ttft_ms, p99_ms, tokens_per_s, ttft_ratio, tokens_ratio, encode, stage;
  for (size_t i = 0; i < run.passes.size(); ++i) {
    const sim::Pace pace = sim::PaceOf(costs, run.passes[i]);
    config.fitted = sim::AtPace(costs, pace);
    const auto source = sim::MakeSource(set.requests);
    const auto result = sim::Simulate(config, *source);
    if (!result.ok()) return result.status();
    const sim::Summary summary = sim::Summarise(*result, 0);
    ttft_ms.push_back(summary.ttft_mean_s * 1e3);
    p99_ms.push_back(summary.ttft_p99_s * 1e3);
    tokens_per_s.push_back(summary.tokens_per_s);
    ttft_ratio.push_back(ttft_ms.back() / run.ttft_ms[i]);
    tokens_ratio.push_back(tokens_per_s.back() / run.tokens_per_s[i]);
    encode.push_back(pace.encode);
    stage.push_back(pace.stage);
  }
  return Prediction{Median(ttft_ms),    Median(p99_ms),       Median(tokens_per_s),
                    Median(ttft_ratio), Median(tokens_ratio), {Median(encode), Median(stage)}};
}

}  // namespace

int SimFitCommand(Args args) {
  std::string first, csv;
  std::vector<std::string> more;
  OptionTable table;
  table.Positional("FILE", &first, "what `rserve bench --json` wrote");
  table.List("also", "FILE,...", &more, "further files of the same model, other loads");
  table.String("csv", "FILE", &csv, "the table");
  if (std::optional<int> over = ParseOrHelp(kText, &table, args)) return *over;
  Data data;
  more.insert(more.begin(), first);
  for (const std::string& file : more) {
    if (absl::Status s = ReadFile(file, &data); !s.ok()) return Fail(s);
  }
  const auto fits = FitAll(data);
  if (!fits.ok()) return Fail(fits.status());
  PrintFits(*fits);
  TextTable out({"rate", "scheme", "topology", "C", "TTFT predicted", "measured", "",
                 "p99 predicted", "measured", "tokens/s predicted", "measured", "", "pace",
                 "fitted on"});
  std::string rows =
      "file,rate,scheme,topology,c,ttft_predicted_ms,ttft_measured_ms,p99_predicted_ms,"
      "p99_measured_ms,tokens_per_s_predicted,tokens_per_s_measured,ttft_predicted_over_measured,"
      "encode_pace,stage_pace,fitted_on\n";
  for (const Run& run : data.runs) {
    const RequestSet& set = data.sets[run.set];
    absl::StatusOr<sim::SimConfig> config = ConfigOf(run, set);
    if (!config.ok()) return Fail(config.status());
    const Fit& fit = fits->find(run.topology)->second;
    const absl::StatusOr<Prediction> predicted = Predict(*std::move(config), fit.costs, run, set);
    if (!predicted.ok()) return Fail(predicted.status());
    const double ttft = Median(run.ttft_ms), p99 = Median(run.p99_ms);
    const double tokens = Median(run.tokens_per_s);
    const bool own = run.scheme == fit.scheme && run.encode_batch == fit.encode_batch;
    out.Row({FormatFixed(run.rate, 3), run.scheme, run.topology, run.encode_batch,
             FormatMs(static_cast<int64_t>(predicted->ttft_ms * 1e6)),
             FormatMs(static_cast<int64_t>(ttft * 1e6)),
             FormatPercent(predicted->ttft_over_measured - 1),
             FormatMs(static_cast<int64_t>(predicted->p99_ms * 1e6)),
             FormatMs(static_cast<int64_t>(p99 * 1e6)), FormatFixed(predicted->tokens_per_s, 0),
             FormatFixed(tokens, 0), FormatPercent(predicted->tokens_over_measured - 1),
             absl::StrFormat("%.2f / %.2f", predicted->pace.encode, predicted->pace.stage),
             own ? "yes" : ""});
    absl::StrAppendFormat(
        &rows, "%s,%.6f,%s,%s,%s,%.6f,%.6f,%.6f,%.6f,%.3f,%.3f,%.4f,%.4f,%.4f,%d\n", run.file,
        run.rate, run.scheme, run.topology, run.encode_batch, predicted->ttft_ms, ttft,
        predicted->p99_ms, p99, predicted->tokens_per_s, tokens, predicted->ttft_over_measured,
        predicted->pace.encode, predicted->pace.stage, own);
  }
  std::printf("%s", out.ToString().c_str());
  if (csv.empty()) return kExitOk;
  const absl::Status status = WriteFile(csv, rows);
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace rserve::tool
