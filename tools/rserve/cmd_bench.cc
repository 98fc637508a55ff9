// rserve bench: schemes side by side on one request set. 'bench kernels' and 'bench model' are
// commands of their own, in cmd_bench_kernels.cc and cmd_bench_model.cc.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/model/model_folder.h"
#include "tools/rserve/bench_report.h"
#include "tools/rserve/bench_run.h"
#include "tools/rserve/bench_targets.h"
#include "tools/rserve/command.h"
#include "tools/rserve/engine_options.h"
#include "tools/rserve/files.h"
#include "tools/rserve/json_text.h"
#include "tools/rserve/progress.h"
#include "tools/rserve/text.h"
#include "tools/rserve/workload.h"

namespace rserve::tool {
namespace {

constexpr CommandText kText = {
    "bench",
    "Measures schemes side by side on one set of synthetic requests (random pixels and text).\n"
    "Two more commands measure what lies below the schemes, each with its own --help:\n"
    "  rserve bench model MODEL    loading, encoding and prefilling, nothing else running\n"
    "  rserve bench kernels        each kernel beside the limits of the machine\n\n"
    "Every repeat runs all schemes once, in turning order, each in a fresh engine, after one run\n"
    "of a single request that gives the critical-path bound: with the time each picture's encode\n"
    "and each chunk's prefill take alone, the largest sum of 'all pictures up to k encoded' and\n"
    "'the prompt from k on prefilled'. Values are medians over the repeats; ratios are medians of\n"
    "the ratios inside each repeat. The bound's run holds all embeddings of its request, so\n"
    "--embedding-bytes does not apply to it.\n\n"
    "With --executor timed no model is needed: a stand-in of known durations takes its place in\n"
    "the same engine. MODEL is then only read for its picture sizes and may be \"-\".\n",
    "  rserve bench models/digits --requests 1 --images 8\n"
    "  rserve bench /tmp/m --requests 16 --schemes rserve,epd,epd:all,colocated --repeat 7\n"
    "  rserve bench /tmp/m --requests 64 --rate 2 --arrivals bursty --slo 3000 --json bench.json\n"
    "  rserve bench - --executor timed --topology PP4+E1 --encode-ms-per-item 20 "
    "--stage-ms-per-chunk 20\n"};

struct BenchFlags {
  std::string model;
  Workload workload{.requests = 8, .images = 4};
  std::string image_size = "448x448";
  int64_t seed = 1;
  double rate = 0;
  std::string arrivals = "poisson";
  int64_t burst = 4;
  double slo_ms = 0;
  std::vector<std::string> schemes = {"rserve", "epd", "colocated"};
  EngineCase engine_case;
  EngineFlags engine;
  int64_t repeat = 3;
  int64_t warmup = 1;
  std::string executor = "model";
  TimedCosts costs;
  std::string json_path;
};

absl::Status OneOf(absl::string_view text, std::initializer_list<absl::string_view> known,
                   std::string* value) {
  if (std::find(known.begin(), known.end(), text) == known.end()) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is unknown"));
  }
  *value = std::string(text);
  return absl::OkStatus();
}

void DeclareRequests(OptionTable* table, BenchFlags* flags) {
  constexpr int64_t kMany = 1'000'000;
  Workload* workload = &flags->workload;
  table->Section("Requests");
  table->Int("requests", "N", 1, kMany, &workload->requests, "requests of a pass");
  table->Int("images", "K", 0, 1024, &workload->images, "pictures of a request");
  table->Custom("image-size", "WxH", flags->image_size, "pixels of a picture",
                [workload](absl::string_view text) {
                  return ParseSize(text, &workload->image_width, &workload->image_height);
                });
  table->Int("text-tokens", "T", 0, kMany, &workload->text_tokens,
             "text before and between the pictures");
  table->Int("trailing-text-tokens", "T", 0, kMany, &workload->trailing_text_tokens,
             "text after the last picture");
  table->Int("seed", "N", 0, INT64_MAX, &flags->seed, "of pixels, text and arrivals");
  table->Real("rate", "R", 0, 1e6, &flags->rate, "requests a second on average; 0: all at once");
  table->Custom("arrivals", "KIND", flags->arrivals, "with --rate: poisson or bursty",
                [flags](absl::string_view text) {
                  return OneOf(text, {"poisson", "bursty"}, &flags->arrivals);
                });
  table->Int("burst", "N", 1, kMany, &flags->burst, "requests of one burst");
  table->Real("slo", "MS", 0, 1e9, &flags->slo_ms,
              "time to first token that counts as attained; 0: not asked");
}

void Declare(OptionTable* table, BenchFlags* flags) {
  table->Positional("MODEL", &flags->model,
                    "the model's folder (one called kernels or model as ./model)");
  DeclareRequests(table, flags);
  table->Section("Schemes");
  table->List("schemes", "LIST", &flags->schemes,
              "schemes, the first is the one the ratios are of; 'epd:all' or 'epd:64' gives one "
              "its own C, 'adaptive@TP1' its own topology");
  table->Custom(
      "topology", "NAME", flags->engine_case.topology.name,
      "stages and encoders; colocated has its encoder on stage 0's worker instead, adaptive where "
      "it measures that it is better",
      [flags](absl::string_view text) {
        auto topology = ParseTopology(text);
        if (topology.ok()) flags->engine_case.topology = *std::move(topology);
        return topology.status();
      });
  table->Custom("encode-batch", "C", EncodeBatchName(flags->engine_case.encode_batch),
                "pictures are encoded in batches of at least C tokens; all: a request at once",
                [flags](absl::string_view text) {
                  const auto tokens = ParseEncodeBatch(text);
                  if (tokens.ok()) flags->engine_case.encode_batch = *tokens;
                  return tokens.status();
                });
  table->Int("token-budget", "B", 1, INT64_MAX, &flags->engine_case.token_budget,
             "a micro-batch holds at most B tokens");
  table->Section("Measurement");
  table->Int("repeat", "N", 1, 1000, &flags->repeat, "repeats");
  table->Int("warmup", "N", 0, 1000, &flags->warmup, "requests before each pass, not measured");
  table->String("json", "FILE", &flags->json_path, "write the results as JSON");
  table->Section("Stand-in for a model");
  table->Custom("executor", "KIND", flags->executor, "model or timed",
                [flags](absl::string_view text) {
                  return OneOf(text, {"model", "timed"}, &flags->executor);
                });
  table->Real("encode-ms-per-item", "MS", 0, 1e6, &flags->costs.encode_ms_per_item,
              "timed: a picture's encode");
  table->Real("stage-ms-per-chunk", "MS", 0, 1e6, &flags->costs.stage_ms_per_chunk,
              "timed: a full micro-batch of B tokens on one stage; a smaller one takes its share");
  table->Real("stage-ms-fixed", "MS", 0, 1e6, &flags->costs.stage_ms_fixed,
              "timed: but no micro-batch less than this");
  AddEngineFlags(table, &flags->engine);
}

absl::StatusOr<std::vector<EngineCase>> Cases(const BenchFlags& flags) {
  std::vector<EngineCase> cases;
  for (const std::string& text : flags.schemes) {
    const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
    const std::vector<std::string> place = absl::StrSplit(parts[0], absl::MaxSplits('@', 1));
    const absl::StatusOr<Scheme> scheme = ParseScheme(place[0]);
    if (!scheme.ok()) return scheme.status();
    EngineCase engine_case = flags.engine_case;
    engine_case.scheme = *scheme;
    engine_case.topology.chosen = false;
    if (place.size() == 2) {
      absl::StatusOr<Topology> topology = ParseTopology(place[1]);
      if (!topology.ok()) return topology.status();
      engine_case.topology = *std::move(topology);
    }
    if (parts.size() == 2) {
      const absl::StatusOr<int64_t> batch = ParseEncodeBatch(parts[1]);
      if (!batch.ok()) return batch.status();
      engine_case.encode_batch = *batch;
      engine_case.encode_batch_chosen = true;
    }
    if (const auto options = MakeEngineOptions(flags.model, engine_case, flags.engine);
        !options.ok()) {
      return options.status();
    }
    cases.push_back(std::move(engine_case));
  }
  return cases;
}

EngineFlags WithoutEmbeddingLimit(EngineFlags flags) {
  flags.embedding_bytes = 0;
  return flags;
}

absl::StatusOr<BenchSet> MakeSet(const BenchFlags& flags) {
  const bool timed = flags.executor == "timed";
  model::ModelFolder spec;
  if (!timed || flags.model != "-") {
    absl::StatusOr<model::ModelFolder> read = model::OpenModelSpec(flags.model);
    if (!read.ok()) return read.status();
    spec = *std::move(read);
  }
  BenchSet set;
  set.spans = !flags.json_path.empty();
  set.warmup = flags.warmup;
  absl::StatusOr<PromptShape> shape = ShapeOf(flags.workload, spec.processor);
  if (!shape.ok()) return shape.status();
  set.shape = *std::move(shape);
  const Arrivals arrivals = flags.rate == 0              ? Arrivals::kAtOnce
                            : flags.arrivals == "bursty" ? Arrivals::kBursty
                                                         : Arrivals::kPoisson;
  set.arrival_ns =
      ArrivalTimes(arrivals, flags.workload.requests, flags.rate, flags.burst, flags.workload.seed);
  if (timed) {
    const int64_t row_bytes = int64_t{spec.config.text.hidden_size} * 4;
    const std::vector<RequestPlan> plans =
        MakePlans(flags.workload, set.shape, std::max<int64_t>(row_bytes, 4));
    set.open = OpenTimedTargets(flags.costs, flags.engine, plans);
    set.open_solo = OpenTimedTargets(flags.costs, WithoutEmbeddingLimit(flags.engine), plans);
  } else {
    auto requests = std::make_shared<SyntheticRequests>(MakeRequests(flags.workload, spec.config));
    EngineFlags engine = flags.engine;
    if (engine.kv_tokens == 0)
      engine.kv_tokens = BenchKvTokens(flags.workload, set.shape, spec.config);
    set.open = OpenModelTargets(flags.model, engine, requests);
    set.open_solo = OpenModelTargets(flags.model, WithoutEmbeddingLimit(engine), requests);
  }
  return set;
}

// Pixels and plans of all requests are made before the first is sent.
absl::Status CheckMemory(const Workload& workload, bool timed) {
  const double picture = timed ? 512
                               : static_cast<double>(workload.image_width) *
                                     static_cast<double>(workload.image_height) * 3;
  const double bytes = picture * static_cast<double>(workload.requests * workload.images);
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (bytes <= memory) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      workload.requests, " requests of ", workload.images, " pictures of ", workload.image_width,
      "x", workload.image_height, " take ",
      FormatBytes(static_cast<int64_t>(std::min(bytes, 9e18))), ", this machine has ",
      FormatBytes(static_cast<int64_t>(memory)), " (options requests, images, image-size)"));
}

absl::Status Bench(const BenchFlags& flags, const std::vector<EngineCase>& cases) {
  if (absl::Status s = CheckMemory(flags.workload, flags.executor == "timed"); !s.ok()) return s;
  const absl::StatusOr<BenchSet> set = MakeSet(flags);
  if (!set.ok()) return set.status();
  BenchReport report;
  report.workload = flags.workload;
  report.shape = set->shape;
  report.slo_ms = flags.slo_ms;
  report.arrival_ns = set->arrival_ns;
  report.media_threads = flags.engine.media_threads;
  for (const EngineCase& engine_case : cases) report.series.push_back({engine_case, {}});

  Progress progress("measuring");
  const auto runs = static_cast<int64_t>(cases.size()) + 1;
  int64_t done = 0;
  for (int64_t repeat = 0; repeat < flags.repeat; ++repeat) {
    const absl::StatusOr<SoloTimes> solo = RunSolo(*set, flags.engine_case);
    if (!solo.ok()) return solo.status();
    report.solo.push_back(*solo);
    report.bound_ms.push_back(
        static_cast<double>(CriticalPathBound(*solo, flags.engine_case.topology.encoders)) / 1e6);
    progress.Update(++done, runs * flags.repeat);
    for (size_t i = 0; i < cases.size(); ++i) {
      // Another scheme begins each repeat, so that none always runs on a warmer machine.
      const size_t turn = (i + static_cast<size_t>(repeat)) % cases.size();
      absl::StatusOr<Pass> pass = RunPass(*set, cases[turn]);
      if (!pass.ok()) return pass.status();
      report.series[turn].passes.push_back(*std::move(pass));
      progress.Update(++done, runs * flags.repeat);
    }
  }
  progress.Finish();
  std::fputs(RenderReport(report).c_str(), stdout);
  if (flags.json_path.empty()) return absl::OkStatus();
  return WriteFile(flags.json_path, JsonText(ReportJson(report)));
}

}  // namespace

int BenchCommand(Args args) {
  if (!args.empty() && args[0] == "kernels") return BenchKernelsCommand(args.subspan(1));
  if (!args.empty() && args[0] == "model") return BenchModelCommand(args.subspan(1));
  BenchFlags flags;
  OptionTable table;
  Declare(&table, &flags);
  if (const std::optional<int> code = ParseOrHelp(kText, &table, args)) return *code;
  flags.workload.seed = static_cast<uint64_t>(flags.seed);
  if (flags.model == "-" && flags.executor != "timed") {
    return FailUsage(absl::InvalidArgumentError("MODEL is '-': only with --executor timed"));
  }
  if (absl::Status status = CheckOutputs({flags.json_path}, {}); !status.ok()) {
    return FailUsage(status);
  }
  const absl::StatusOr<std::vector<EngineCase>> cases = Cases(flags);
  if (!cases.ok()) return FailUsage(cases.status());
  const absl::Status status = Bench(flags, *cases);
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace rserve::tool
