// rserve bench kernels: how far each kernel is from the limit of the machine.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tools/rserve/bench_run.h"
#include "tools/rserve/command.h"
#include "tools/rserve/files.h"
#include "tools/rserve/json_text.h"
#include "tools/rserve/kernel_cases.h"
#include "tools/rserve/machine_speed.h"
#include "tools/rserve/peak_share.h"
#include "tools/rserve/progress.h"
#include "tools/rserve/text.h"

namespace rserve::tool {
namespace {

using nlohmann::json;

constexpr CommandText kText = {
    "bench kernels",
    "Runs each kernel of the CPU backend alone, at the shapes of one layer of Qwen2.5-VL-3B and "
    "of\n"
    "one block of its vision tower, and prints how fast it is beside what the machine can do:\n"
    "fused multiply-adds in registers (FMA peak) and a[i] = b[i] + 3 c[i] over large arrays\n"
    "(triad), both with the same threads, the peak before and after each run of the kernel, half\n"
    "as long as the run. Products and attention should come near the FMA peak; what passes over\n"
    "rows once should come near the triad, or above it where the rows stay in a cache. Values are\n"
    "medians, shares those of the runs. 'alone' is the share of the peak in those runs during\n"
    "which no core's other hardware thread was busy, as a neighbour's is on a rented machine: a\n"
    "core so shared multiplies at its peak but takes fewer instructions, which is measured with\n"
    "the peak. 'runs' says how many those were. No model is needed.\n",
    "  rserve bench kernels\n"
    "  rserve bench kernels --threads 1 --weights f16 --rows 16,64,512\n"
    "  rserve bench kernels --kernels avx2 --ops product,attention --json kernels.json\n"};

struct KernelFlags {
  std::vector<std::string> ops = {"product", "attention", "rows"};
  std::vector<std::string> weights = {"f32", "f16", "bf16", "int8"};
  std::vector<std::string> rows = {"1", "16", "64", "512"};
  std::vector<std::string> encode_rows = {"1024"};
  std::string isa = "best";
  int64_t threads = 0;
  Repeats repeats = {5, 0};
  std::string json_path;
};

void Declare(OptionTable* table, KernelFlags* flags) {
  table->Section("What is measured");
  table->List("ops", "LIST", &flags->ops,
              "product (x W^T of a linear layer), attention, rows (norms and elementwise)");
  table->List("weights", "LIST", &flags->weights, "of products: f32, f16, bf16, int8");
  table->List("rows", "LIST", &flags->rows, "tokens that the products of a layer take at once");
  table->List("encode-rows", "LIST", &flags->encode_rows,
              "patches that the products of a vision block take at once");
  table->Section("Measurement");
  table->Int("threads", "N", 0, 4096, &flags->threads, "threads; 0: one a core");
  table->String("kernels", "NAME", &flags->isa,
                "instruction set: generic, avx2, avx512, ..., or best");
  table->Int("repeat", "N", 1, 1000, &flags->repeats.all, "runs of each case");
  table->Int("alone", "N", 0, 1000, &flags->repeats.alone,
             "go on until so many runs of each were alone, for at most 10 times --repeat");
  table->String("json", "FILE", &flags->json_path, "write the results as JSON");
}

absl::StatusOr<std::vector<int64_t>> ParseRows(const char* option,
                                               const std::vector<std::string>& texts) {
  constexpr int64_t kMax = 65536;
  std::vector<int64_t> out;
  for (const std::string& text : texts) {
    int64_t rows = 0;
    if (!absl::SimpleAtoi(text, &rows) || rows < 1 || rows > kMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", option, ": '", text, "' is not a number from 1 to ", kMax));
    }
    out.push_back(rows);
  }
  return out;
}

absl::StatusOr<std::vector<KernelCase>> Cases(const KernelFlags& flags) {
  const absl::StatusOr<std::vector<int64_t>> rows = ParseRows("rows", flags.rows);
  if (!rows.ok()) return rows.status();
  const absl::StatusOr<std::vector<int64_t>> patches = ParseRows("encode-rows", flags.encode_rows);
  if (!patches.ok()) return patches.status();
  std::vector<kernels::WeightType> types;
  for (const std::string& name : flags.weights) {
    const auto* found = std::find(std::begin(kWeightNames), std::end(kWeightNames), name);
    if (found == std::end(kWeightNames)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--weights: '", name, "' is not f32, f16, bf16 or int8"));
    }
    types.push_back(static_cast<kernels::WeightType>(found - kWeightNames));
  }
  std::vector<KernelCase> out;
  const auto add = [&out](std::vector<KernelCase> cases) {
    for (KernelCase& entry : cases) out.push_back(std::move(entry));
  };
  for (const std::string& op : flags.ops) {
    if (op == "product") {
      for (const kernels::WeightType type : types) {
        for (const int64_t count : *rows) add(PrefillProducts(type, count));
        for (const int64_t count : *patches) add(EncodeProducts(type, count));
      }
    } else if (op == "attention") {
      add(AttentionCases());
    } else if (op == "rows") {
      add(RowCases());
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("--ops: '", op, "' is not product, attention or rows"));
    }
  }
  return out;
}

struct Result {
  const KernelCase* spec = nullptr;
  Timed timed;
};

// Products that one layer makes of the same rows, taken together: the time of all for the work of
// all.
struct Sum {
  const KernelCase* first = nullptr;
  double flop = 0, seconds = 0, fma_flop = 0;
  double alone_fma_flop = 0;  // 0: a product was never alone
  int64_t alone_repeats = 0;  // of the product with the fewest
};

std::vector<Sum> Sums(const std::vector<Result>& results) {
  std::vector<Sum> out;
  for (const Result& result : results) {
    if (result.spec->op != "product") continue;
    const bool next = out.empty() || out.back().first->group != result.spec->group ||
                      out.back().first->weights != result.spec->weights ||
                      result.spec->detail == out.back().first->detail;
    const Medians& alone = result.timed.alone;
    if (next) {
      out.push_back({result.spec});
      out.back().alone_repeats = alone.repeats;
    }
    Sum& sum = out.back();
    sum.flop += result.spec->flop;
    sum.seconds += result.timed.all.seconds;
    sum.fma_flop += result.timed.all.fma_flop;
    sum.alone_repeats = std::min(sum.alone_repeats, alone.repeats);
    sum.alone_fma_flop = sum.alone_repeats > 0 ? sum.alone_fma_flop + alone.fma_flop : 0;
  }
  return out;
}

std::string Render(const std::vector<Result>& results, double triad) {
  TextTable table({"op", "of", "weights", "shape", "rows", "ms", "GFLOP/s", "of FMA peak", "alone",
                   "runs", "GB/s", "of triad"});
  for (const Result& result : results) {
    const KernelCase& spec = *result.spec;
    const double flops = spec.flop / result.timed.all.seconds;
    const double bytes = spec.bytes / result.timed.all.seconds;
    table.Row({spec.op, spec.group, spec.weights, spec.detail, absl::StrCat(spec.rows),
               absl::StrFormat("%.3f", result.timed.all.seconds * 1e3),
               spec.flop > 0 ? FormatFixed(flops / 1e9, 1) : "",
               spec.flop > 0 ? FormatPercent(spec.flop / result.timed.all.fma_flop) : "",
               spec.flop > 0 ? AloneShare(spec.flop, result.timed.alone) : "",
               absl::StrCat(result.timed.alone.repeats),
               spec.bytes > 0 ? FormatFixed(bytes / 1e9, 1) : "",
               spec.bytes > 0 ? FormatPercent(bytes / triad) : ""});
  }
  std::string out = table.ToString();
  const std::vector<Sum> sums = Sums(results);
  if (sums.empty()) return out;
  TextTable total(
      {"all products of", "weights", "rows", "GFLOP/s", "of FMA peak", "alone", "runs"});
  for (const Sum& sum : sums) {
    total.Row({sum.first->group == "prefill" ? "a layer" : "a vision block and the merger",
               sum.first->weights, absl::StrCat(sum.first->rows),
               FormatFixed(sum.flop / sum.seconds / 1e9, 1), FormatPercent(sum.flop / sum.fma_flop),
               sum.alone_repeats > 0 ? FormatPercent(sum.flop / sum.alone_fma_flop) : "-",
               absl::StrCat(sum.alone_repeats)});
  }
  return absl::StrCat(out, "\n", total.ToString());
}

json ResultsJson(const std::vector<Result>& results, const kernels::KernelTable& isa, int threads,
                 double fma_flops, double triad) {
  json cases = json::array();
  for (const Result& result : results) {
    const KernelCase& spec = *result.spec;
    json entry = {{"group", spec.group},
                  {"op", spec.op},
                  {"shape", spec.detail},
                  {"rows", spec.rows},
                  {"seconds", result.timed.all.seconds},
                  {"repeats", result.timed.all.repeats},
                  {"fma_gflops", result.timed.all.fma_flops / 1e9}};
    if (!spec.weights.empty()) entry["weights"] = spec.weights;
    if (spec.flop > 0) {
      entry["gflops"] = spec.flop / result.timed.all.seconds / 1e9;
      entry["share_of_fma"] = spec.flop / result.timed.all.fma_flop;
    }
    AddAlone(spec.flop, result.timed.alone, &entry);
    if (spec.bytes > 0) {
      entry["gbytes_per_s"] = spec.bytes / result.timed.all.seconds / 1e9;
      entry["share_of_triad"] = spec.bytes / result.timed.all.seconds / triad;
    }
    cases.push_back(std::move(entry));
  }
  return {{"kernels", isa.name},
          {"threads", threads},
          {"fma_gflops", fma_flops / 1e9},
          {"triad_gbytes_per_s", triad / 1e9},
          {"cases", std::move(cases)}};
}

absl::Status Bench(const KernelFlags& flags, const kernels::KernelTable& isa,
                   const std::vector<KernelCase>& cases) {
  const std::vector<int> cores = UsableCores();
  const int threads = std::max(
      1, static_cast<int>(flags.threads > 0 ? flags.threads : static_cast<int64_t>(cores.size())));
  const std::unique_ptr<cpu::ThreadPool> pool = MakePool(threads, cores);
  cpu::Compute compute(isa, pool.get());
  MachineSpeed machine(isa, pool.get());
  machine.TriadBytes();
  Progress progress("measuring");
  std::vector<Result> results;
  std::vector<double> fma, triad;
  std::string last_op;
  for (const KernelCase& entry : cases) {
    // Once for every kind of work: the arrays are large, and it would drive everything out of the
    // caches before each case.
    if (entry.op != last_op) triad.push_back(machine.TriadBytes());
    last_op = entry.op;
    const std::function<void()> work = entry.make(&compute);
    results.push_back({&entry, TimeWork(&machine, flags.repeats, work)});
    fma.push_back(results.back().timed.all.fma_flops);
    progress.Update(static_cast<int64_t>(results.size()), static_cast<int64_t>(cases.size()));
  }
  triad.push_back(machine.TriadBytes());
  progress.Finish();
  const auto [low, high] = std::minmax_element(fma.begin(), fma.end());
  const double fma_median = Median(fma), triad_median = Median(triad);
  std::printf(
      "%s kernels, %d thread%s; FMA peak %.1f GFLOP/s (%.1f to %.1f beside the cases), triad %.1f "
      "GB/s\n\n%s",
      isa.name, threads, threads == 1 ? "" : "s", fma_median / 1e9, *low / 1e9, *high / 1e9,
      triad_median / 1e9, Render(results, triad_median).c_str());
  if (flags.json_path.empty()) return absl::OkStatus();
  return WriteFile(flags.json_path,
                   JsonText(ResultsJson(results, isa, threads, fma_median, triad_median)));
}

}  // namespace

int BenchKernelsCommand(Args args) {
  KernelFlags flags;
  OptionTable table;
  Declare(&table, &flags);
  if (const std::optional<int> code = ParseOrHelp(kText, &table, args)) return *code;
  const absl::StatusOr<const kernels::KernelTable*> isa = FindKernels(flags.isa);
  if (!isa.ok()) return FailUsage(isa.status());
  const absl::StatusOr<std::vector<KernelCase>> cases = Cases(flags);
  if (!cases.ok()) return FailUsage(cases.status());
  if (cases->empty()) return FailUsage(absl::InvalidArgumentError("no case is asked for"));
  if (absl::Status status = CheckOutputs({flags.json_path}, {}); !status.ok()) {
    return FailUsage(status);
  }
  const absl::Status status = Bench(flags, **isa, *cases);
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace rserve::tool
