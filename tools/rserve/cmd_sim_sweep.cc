// rserve sim sweep.

#include <cstdio>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/rserve/engine_options.h"
#include "tools/rserve/files.h"
#include "tools/rserve/progress.h"
#include "tools/rserve/sim_flags.h"
#include "tools/rserve/text.h"

namespace rserve::tool {
namespace {

constexpr CommandText kSweepText = {
    "sim sweep", "Simulates several schemes at several rates. A case is SCHEME or SCHEME@LAYOUT.\n",
    "  rserve sim sweep --cases rserve,epd,colocated@PP4,colocated@PP5,adaptive@PP5\n"
    "  rserve sim sweep --rates 0.5,1,1.5 --seeds 1,2,3 --csv out.csv\n"
    "  rserve sim sweep --cases rserve --encode-batch 1,1024,all --token-budget 512,2048\n"};

absl::StatusOr<std::vector<double>> ParseRates(const std::vector<std::string>& texts) {
  std::vector<double> rates;
  for (const std::string& text : texts) {
    double rate = 0;
    if (!absl::SimpleAtod(text, &rate) || !(rate >= 1e-6 && rate <= 1e6)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--rates: \"", text, "\" is no number from 1e-06 to 1e+06"));
    }
    rates.push_back(rate);
  }
  return rates;
}

std::string Attainment(double share, double slo_s) {
  return slo_s > 0 ? FormatPercent(share) : "-";
}

// One combination of a sweep that is left when the rate is given.
struct SweepCase {
  SimCase sim_case;
  int64_t encode_batch = 0;
  int64_t token_budget = 0;
  sim::SimConfig config;
};

std::string Setting(int64_t tokens) { return tokens == 0 ? "scheme's" : EncodeBatchName(tokens); }

absl::StatusOr<std::vector<SweepCase>> MakeCases(const std::vector<std::string>& names,
                                                 const std::vector<std::string>& encode_batches,
                                                 const std::vector<std::string>& token_budgets,
                                                 const SystemFlags& system,
                                                 const Traffic& traffic) {
  std::vector<int64_t> batches, budgets;
  for (const std::string& text : encode_batches) {
    const absl::StatusOr<int64_t> tokens = ParseEncodeBatch(text);
    if (!tokens.ok()) return tokens.status();
    batches.push_back(*tokens);
  }
  for (const std::string& text : token_budgets) {
    const absl::StatusOr<int64_t> tokens = ParseTokenBudget(text);
    if (!tokens.ok()) return tokens.status();
    budgets.push_back(*tokens);
  }
  if (batches.empty()) batches.push_back(0);
  if (budgets.empty()) budgets.push_back(0);
  std::vector<SweepCase> cases;
  for (const std::string& name : names) {
    for (int64_t batch : batches) {
      for (int64_t budget : budgets) {
        SweepCase one{ParseCase(name, system.layout), batch, budget, {}};
        SystemFlags flags = system;
        flags.encode_batch = batch;
        flags.token_budget = budget;
        auto config = MakeSystem(flags, one.sim_case.scheme, one.sim_case.layout, traffic);
        if (!config.ok()) return config.status();
        one.config = *std::move(config);
        cases.push_back(std::move(one));
      }
    }
  }
  return cases;
}

constexpr char kSweepCsv[] =
    "case,layout,encode_batch,token_budget,rate,ttft_mean_s,ttft_p50_s,ttft_p90_s,ttft_p99_s,"
    "critical_path_s,fcfs_bound_s,shortest_bound_s,tokens_per_s,tokens_per_s_bound,"
    "slo_attainment,peak_embedding_bytes\n";

void AddSweepRow(const SweepCase& one, const sim::Point& point, std::string* rows) {
  const sim::Summary& s = point.summary;
  const sim::Bounds& b = point.bounds;
  absl::StrAppendFormat(rows,
                        "%s,%s,%s,%s,%.6f,%.9f,%.9f,%.9f,%.9f,%.9f,%.9f,%.9f,%.3f,%.3f,%.6f,%d\n",
                        one.sim_case.scheme, one.sim_case.layout, Setting(one.encode_batch),
                        Setting(one.token_budget), point.rate, s.ttft_mean_s, s.ttft_p50_s,
                        s.ttft_p90_s, s.ttft_p99_s, b.critical_path_s, b.fcfs_s, b.shortest_s,
                        s.tokens_per_s, b.tokens_per_s, s.slo_attainment, s.peak_embedding_bytes);
}

std::vector<std::string> SweepTableRow(const SweepCase& one, const sim::Point& point, bool sets_c,
                                       bool sets_b) {
  const sim::Summary& s = point.summary;
  std::vector<std::string> row = {one.sim_case.Name()};
  if (sets_c) row.push_back(Setting(one.encode_batch));
  if (sets_b) row.push_back(Setting(one.token_budget));
  row.push_back(FormatFixed(point.rate, 3));
  row.push_back(TtftCell(s.ttft_mean_s, s));
  row.push_back(TtftCell(s.ttft_p99_s, s));
  for (const std::string& cell : BoundCells(point.bounds)) row.push_back(cell);
  row.push_back(FormatFixed(s.tokens_per_s, 0));
  row.push_back(FormatFixed(point.bounds.tokens_per_s, 0));
  row.push_back(Attainment(s.slo_attainment, one.config.slo_s));
  row.push_back(FormatBytes(s.peak_embedding_bytes));
  return row;
}

}  // namespace

int SimSweepCommand(Args args) {
  SystemFlags system;
  WorkloadFlags workload;
  std::vector<std::string> names = {"rserve",        "epd",      "colocated@PP4",
                                    "colocated@PP5", "adaptive", "adaptive@PP5"};
  std::vector<std::string> rates = {"0.4", "0.8", "1.2", "1.6"}, seeds = {"1", "2", "3", "4"};
  std::vector<std::string> encode_batches, token_budgets;
  std::string csv;
  OptionTable table;
  table.Section("Sweep");
  table.List("cases", "CASE,...", &names, "schemes, each with a layout if not --layout");
  table.List("rates", "R,...", &rates, "requests a second");
  table.List("encode-batch", "C,...", &encode_batches,
             "tokens an encode batch waits for, or all; default: the scheme's");
  table.List("token-budget", "B,...", &token_budgets,
             "tokens of a micro-batch, at most; default: the scheme's");
  table.List("seeds", "N,...", &seeds, "of the workload; results are their mean");
  AddSystemFlags(&table, &system, {"scheme", "encode-batch", "token-budget"});
  AddWorkloadFlags(&table, &workload, {"requests-file", "rate", "seed"});
  table.Section("Output");
  table.String("csv", "FILE", &csv, "the table with all columns");
  if (std::optional<int> over = ParseOrHelp(kSweepText, &table, args)) return *over;

  if (absl::Status s = CheckOutputs({csv}, {system.config_file}); !s.ok()) return FailUsage(s);
  auto rate_values = ParseRates(rates);
  if (!rate_values.ok()) return FailUsage(rate_values.status());
  auto seed_values = ParseSeeds(seeds);
  if (!seed_values.ok()) return FailUsage(seed_values.status());
  auto traffic = MakeTraffic(workload);
  if (!traffic.ok()) return FailUsage(traffic.status());
  const auto cases = MakeCases(names, encode_batches, token_budgets, system, *traffic);
  if (!cases.ok()) return FailUsage(cases.status());

  std::vector<std::string> headings = {"case"};
  if (!encode_batches.empty()) headings.push_back("C");
  if (!token_budgets.empty()) headings.push_back("B");
  for (const char* heading : {"rate", "TTFT mean s", "p99 s"}) headings.push_back(heading);
  for (const std::string& heading : BoundHeadings()) headings.push_back(heading);
  for (const char* heading : {"tokens/s", "at most", "SLO", "embeddings"}) {
    headings.push_back(heading);
  }
  TextTable out(std::move(headings));
  std::string rows = kSweepCsv;
  Progress progress("simulating");
  int64_t done = 0;
  const auto total = static_cast<int64_t>(cases->size() * rate_values->size());
  for (const SweepCase& one : *cases) {
    for (double rate : *rate_values) {
      traffic->spec.rate = rate;
      auto point = sim::Measure(one.config, traffic->spec, *seed_values);
      if (!point.ok()) return FailUsage(point.status());
      out.Row(SweepTableRow(one, *point, !encode_batches.empty(), !token_budgets.empty()));
      AddSweepRow(one, *point, &rows);
      progress.Update(++done, total);
    }
  }
  progress.Finish();
  std::printf(
      "%s\nsimulated; bounds are of the mean TTFT: no policy on that layout is below alone and "
      "shortest\n",
      out.ToString().c_str());
  if (csv.empty()) return kExitOk;
  const absl::Status status = WriteFile(csv, rows);
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace rserve::tool
