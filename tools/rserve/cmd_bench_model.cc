// rserve bench model: how fast a checkpoint is loaded, encodes and prefills, without any
// scheduling.

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "src/backend/cpu/weights.h"
#include "src/model/model_folder.h"
#include "src/model/spec/image_plan.h"
#include "tools/rserve/command.h"
#include "tools/rserve/engine_options.h"
#include "tools/rserve/files.h"
#include "tools/rserve/json_text.h"
#include "tools/rserve/machine_speed.h"
#include "tools/rserve/model_work.h"
#include "tools/rserve/peak_share.h"
#include "tools/rserve/process_memory.h"
#include "tools/rserve/progress.h"
#include "tools/rserve/text.h"

namespace rserve::tool {
namespace {

using nlohmann::json;

constexpr CommandText kText = {
    "bench model",
    "Loads a checkpoint, encodes one picture of each size and prefills one prompt of each length\n"
    "in chunks of each size, with each number of threads, nothing else running; prints seconds,\n"
    "tokens/s, and the useful work a second beside the FMA peak measured around the runs. Numbers\n"
    "of threads and chunks take turns; 'speed' is how many times as fast as the first of its\n"
    "table with the same picture or prompt. Values are medians; 'alone' are those over the runs\n"
    "before and after which no core's other hardware thread was busy, and 'runs' says how many\n"
    "those were: see 'rserve bench kernels --help'. Where the time to first token of schemes is\n"
    "wanted, 'rserve bench' is the command.\n",
    "  rserve make-model /tmp/m4 --preset 3b --layers 4 --vision-layers 8 --dtype f16\n"
    "  rserve bench model /tmp/m4\n"
    "  rserve bench model /tmp/m4 --threads 1,2 --images 448x448,896x896 --prompts 512,2048 "
    "--chunks 256,all\n"
    "  rserve bench model /tmp/m4 --images none --prompts 512 --json model.json\n"};

struct ModelFlags {
  std::string model;
  std::vector<std::string> threads = {"0"};
  std::vector<std::string> images = {"448x448"};
  std::vector<std::string> prompts = {"512"};
  std::vector<std::string> chunks = {"all"};
  std::string isa = "best";
  Weights weights = Weights::kStored;
  int64_t kv_tokens = 0;
  Repeats repeats = {5, 0};
  std::string json_path;
};

void Declare(OptionTable* table, ModelFlags* flags) {
  table->Positional("MODEL", &flags->model,
                    "the model's folder (one called kernels or model as ./model)");
  table->Section("What is measured: every combination of these lists");
  table->List("threads", "LIST", &flags->threads, "numbers of threads; 0: one a core");
  table->List("images", "LIST", &flags->images, "sizes of pictures, WxH; none: no encode");
  table->List("prompts", "LIST", &flags->prompts, "tokens of prompts; none: no prefill");
  table->List("chunks", "LIST", &flags->chunks, "tokens prefilled at once; all: the whole prompt");
  table->Section("Measurement");
  table->Int("kv-tokens", "N", 0, int64_t{1} << 31, &flags->kv_tokens,
             "tokens in the KV cache; 0: what the longest prompt needs");
  table->String("kernels", "NAME", &flags->isa,
                "instruction set: generic, avx2, avx512, ..., or best");
  table->Custom("weights", "FORMAT", "stored", "stored, or int8 for the layers' matrices",
                [flags](absl::string_view text) {
                  const auto weights = ParseWeights(text);
                  if (weights.ok()) flags->weights = *weights;
                  return weights.status();
                });
  table->Int("repeat", "N", 1, 1000, &flags->repeats.all, "runs of each case");
  table->Int("alone", "N", 0, 1000, &flags->repeats.alone,
             "go on until so many runs of each were alone, for at most 10 times --repeat");
  table->String("json", "FILE", &flags->json_path, "write the results as JSON");
}

constexpr int32_t kBlockTokens = 16;

struct Picture {
  int64_t width = 0, height = 0;
};

struct Plan {
  std::vector<int> cores = UsableCores();
  std::vector<int> threads;
  std::vector<Picture> pictures;
  std::vector<int64_t> prompts;
  std::vector<int64_t> chunks;  // 0: the whole prompt
};

absl::StatusOr<int64_t> ParseNumber(const char* option, const std::string& text, int64_t min,
                                    int64_t max) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < min || value > max) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", option, ": '", text, "' is not a number from ", min, " to ", max));
  }
  return value;
}

absl::StatusOr<Plan> ParsePlan(const ModelFlags& flags) {
  constexpr int64_t kMaxTokens = int64_t{1} << 20;
  Plan plan;
  for (const std::string& text : flags.threads) {
    const absl::StatusOr<int64_t> threads = ParseNumber("threads", text, 0, 4096);
    if (!threads.ok()) return threads.status();
    plan.threads.push_back(std::max(
        1, static_cast<int>(*threads > 0 ? *threads : static_cast<int64_t>(plan.cores.size()))));
  }
  for (const std::string& text : flags.images) {
    if (text == "none") continue;
    Picture picture;
    if (absl::Status status = ParseSize(text, &picture.width, &picture.height); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--images: ", status.message()));
    }
    plan.pictures.push_back(picture);
  }
  for (const std::string& text : flags.prompts) {
    if (text == "none") continue;
    const absl::StatusOr<int64_t> tokens = ParseNumber("prompts", text, 1, kMaxTokens);
    if (!tokens.ok()) return tokens.status();
    plan.prompts.push_back(*tokens);
  }
  for (const std::string& text : flags.chunks) {
    const absl::StatusOr<int64_t> tokens =
        text == "all" ? 0 : ParseNumber("chunks", text, 1, kMaxTokens);
    if (!tokens.ok()) return tokens.status();
    plan.chunks.push_back(*tokens);
  }
  return plan;
}

struct Encoded {
  int threads = 0;
  Picture picture;
  model::ImagePlan plan;
  double flop = 0;
  Timed timed;
};

struct Prefilled {
  int threads = 0;
  int64_t tokens = 0, chunk = 0;
  double flop = 0;
  Timed timed;
};

struct Report {
  const char* kernels = "";
  double load_seconds = 0;
  int64_t load_peak_bytes = 0, weight_bytes = 0, kv_bytes = 0, peak_bytes = 0;
  std::vector<Encoded> encodes;
  std::vector<Prefilled> prefills;
};

// One number of threads, with what works on them.
struct Lane {
  int threads = 0;
  std::unique_ptr<cpu::ThreadPool> pool;
  MachineSpeed machine;
  std::unique_ptr<backend::EncoderBackend> encoder;
  std::unique_ptr<backend::StageBackend> stage;

  Lane(int count, const std::vector<int>& cores, const kernels::KernelTable& isa)
      : threads(count), pool(MakePool(count, cores)), machine(isa, pool.get()) {}
};

class ModelBench {
 public:
  ModelBench(const model::ModelFolder& folder, std::shared_ptr<const cpu::CpuModel> model,
             const kernels::KernelTable& isa, const Plan& plan, const Repeats& repeats,
             int64_t kv_tokens)
      : folder_(folder),
        config_(folder.config),
        plan_(plan),
        repeats_(repeats),
        kv_blocks_((kv_tokens + kBlockTokens - 1) / kBlockTokens) {
    for (const int threads : plan.threads) {
      auto lane = std::make_unique<Lane>(threads, plan.cores, isa);
      if (!plan.pictures.empty()) lane->encoder = cpu::MakeCpuEncoder(model, lane->pool.get());
      if (!plan.prompts.empty()) {
        lane->stage =
            cpu::MakeCpuStage(model, {0, config_.text.num_layers},
                              {static_cast<int32_t>(kv_blocks_), kBlockTokens}, lane->pool.get());
      }
      lanes_.push_back(std::move(lane));
    }
  }

  // All numbers of threads in turn.
  absl::Status Encode(const Picture& picture, Report* report) {
    const absl::StatusOr<model::ImagePlan> plan =
        model::PlanImage(picture.height, picture.width, folder_.processor);
    if (!plan.ok()) return plan.status();
    const std::vector<float> pixels(
        static_cast<size_t>(plan->grid.patches() * config_.vision.patch_dim()), 0.5f);
    std::vector<float> rows(static_cast<size_t>(plan->tokens * config_.text.hidden_size));
    absl::Status status;
    std::vector<std::function<void()>> works;
    for (const std::unique_ptr<Lane>& lane : lanes_) {
      works.push_back([&, encoder = lane->encoder.get()] {
        status.Update(encoder->Encode({{plan->grid, pixels.data(), rows.data()}}));
      });
    }
    std::vector<Contender> contenders;
    for (size_t i = 0; i < lanes_.size(); ++i) {
      contenders.push_back({&lanes_[i]->machine, works[i]});
    }
    const std::vector<Timed> timed = TimeInTurn(contenders, repeats_);
    for (size_t i = 0; i < lanes_.size(); ++i) {
      report->encodes.push_back(
          {lanes_[i]->threads, picture, *plan, EncodeFlop(config_, plan->grid), timed[i]});
    }
    return status;
  }

  // All numbers of threads and all chunks in turn.
  absl::Status Prefill(int64_t tokens, Report* report) {
    absl::Status status;
    std::vector<Prefilled> runs;
    std::vector<Lane*> lanes;
    std::vector<std::function<void()>> works;
    for (const std::unique_ptr<Lane>& lane : lanes_) {
      std::vector<int64_t> seen;
      for (const int64_t wanted : plan_.chunks) {
        const int64_t chunk = wanted == 0 ? tokens : std::min(wanted, tokens);
        if (std::find(seen.begin(), seen.end(), chunk) != seen.end()) continue;
        seen.push_back(chunk);
        runs.push_back({lane->threads, tokens, chunk, PrefillFlop(config_, tokens), {}});
        lanes.push_back(lane.get());
        works.push_back([this, &status, stage = lane->stage.get(), tokens, chunk] {
          status.Update(Run(stage, tokens, chunk));
        });
      }
    }
    std::vector<Contender> contenders;
    for (size_t i = 0; i < runs.size(); ++i) contenders.push_back({&lanes[i]->machine, works[i]});
    const std::vector<Timed> timed = TimeInTurn(contenders, repeats_);
    for (size_t i = 0; i < runs.size(); ++i) {
      runs[i].timed = timed[i];
      report->prefills.push_back(runs[i]);
    }
    return status;
  }

 private:
  absl::Status Run(backend::StageBackend* stage, int64_t tokens, int64_t chunk) {
    ids_.assign(static_cast<size_t>(tokens), 1);
    positions_.resize(static_cast<size_t>(tokens));
    for (int64_t t = 0; t < tokens; ++t) {
      positions_[static_cast<size_t>(t)] = static_cast<int32_t>(t);
    }
    blocks_.resize(static_cast<size_t>(kv_blocks_));
    for (int64_t b = 0; b < kv_blocks_; ++b) {
      blocks_[static_cast<size_t>(b)] = static_cast<int32_t>(b);
    }
    logits_.resize(static_cast<size_t>(config_.text.vocab_size));
    for (int64_t begin = 0; begin < tokens; begin += chunk) {
      backend::StageEntry entry;
      entry.begin = begin;
      entry.count = std::min(chunk, tokens - begin);
      entry.token_ids = ids_.data() + begin;
      for (auto& axis : entry.positions) axis = positions_.data() + begin;
      entry.kv_blocks = blocks_;
      entry.want_logits = begin + entry.count == tokens;
      entry.logits = logits_.data();
      backend::StageWork work;
      work.entries = absl::MakeConstSpan(&entry, 1);
      work.total_tokens = entry.count;
      if (absl::Status status = stage->Forward(work); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  const model::ModelFolder& folder_;
  const model::ModelConfig& config_;
  const Plan& plan_;
  const Repeats repeats_;
  const int64_t kv_blocks_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<int32_t> ids_, positions_, blocks_;
  std::vector<float> logits_;
};

std::string FormatTimes(double speedup) {
  return speedup > 0 ? absl::StrFormat("%.2f x", speedup) : "-";
}

std::string Render(const Report& report) {
  std::string out = absl::StrFormat(
      "%s kernels; loaded in %.2f s; weights %s, KV cache %s, peak memory %s while loading and %s "
      "over all\n",
      report.kernels, report.load_seconds, FormatBytes(report.weight_bytes),
      FormatBytes(report.kv_bytes), FormatBytes(report.load_peak_bytes),
      FormatBytes(report.peak_bytes));
  if (!report.encodes.empty()) {
    TextTable table({"encode", "threads", "patches", "tokens", "s/picture", "GFLOP/s", "FMA peak",
                     "of it", "speed", "alone", "speed alone", "runs"});
    for (const Encoded& run : report.encodes) {
      const double flops = run.flop / run.timed.all.seconds;
      table.Row({absl::StrCat(run.picture.width, "x", run.picture.height),
                 absl::StrCat(run.threads), absl::StrCat(run.plan.grid.patches()),
                 absl::StrCat(run.plan.tokens), FormatFixed(run.timed.all.seconds, 3),
                 FormatFixed(flops / 1e9, 1), FormatFixed(run.timed.all.fma_flops / 1e9, 1),
                 FormatPercent(run.flop / run.timed.all.fma_flop),
                 FormatTimes(run.timed.all.speedup), AloneShare(run.flop, run.timed.alone),
                 FormatTimes(run.timed.alone.speedup), absl::StrCat(run.timed.alone.repeats)});
    }
    absl::StrAppend(&out, "\n", table.ToString());
  }
  if (!report.prefills.empty()) {
    TextTable table({"prefill", "threads", "chunk", "s", "tokens/s", "GFLOP/s", "FMA peak", "of it",
                     "speed", "alone", "speed alone", "runs"});
    for (const Prefilled& run : report.prefills) {
      const double flops = run.flop / run.timed.all.seconds;
      table.Row({absl::StrCat(run.tokens, " tokens"), absl::StrCat(run.threads),
                 absl::StrCat(run.chunk), FormatFixed(run.timed.all.seconds, 3),
                 FormatFixed(static_cast<double>(run.tokens) / run.timed.all.seconds, 1),
                 FormatFixed(flops / 1e9, 1), FormatFixed(run.timed.all.fma_flops / 1e9, 1),
                 FormatPercent(run.flop / run.timed.all.fma_flop),
                 FormatTimes(run.timed.all.speedup), AloneShare(run.flop, run.timed.alone),
                 FormatTimes(run.timed.alone.speedup), absl::StrCat(run.timed.alone.repeats)});
    }
    absl::StrAppend(&out, "\n", table.ToString());
  }
  return out;
}

json TimedJson(int threads, double flop, const Timed& timed) {
  json out = {{"threads", threads},
              {"repeats", timed.all.repeats},
              {"seconds", timed.all.seconds},
              {"gflop", flop / 1e9},
              {"gflops", flop / timed.all.seconds / 1e9},
              {"fma_gflops", timed.all.fma_flops / 1e9},
              {"share_of_fma", flop / timed.all.fma_flop},
              {"speedup", timed.all.speedup}};
  AddAlone(flop, timed.alone, &out);
  return out;
}

json ReportJson(const Report& report) {
  json encodes = json::array(), prefills = json::array();
  for (const Encoded& run : report.encodes) {
    json entry = TimedJson(run.threads, run.flop, run.timed);
    entry["width"] = run.picture.width;
    entry["height"] = run.picture.height;
    entry["patches"] = run.plan.grid.patches();
    entry["tokens"] = run.plan.tokens;
    encodes.push_back(std::move(entry));
  }
  for (const Prefilled& run : report.prefills) {
    json entry = TimedJson(run.threads, run.flop, run.timed);
    entry["tokens"] = run.tokens;
    entry["chunk"] = run.chunk;
    entry["tokens_per_s"] = static_cast<double>(run.tokens) / run.timed.all.seconds;
    prefills.push_back(std::move(entry));
  }
  return {{"kernels", report.kernels},
          {"load",
           {{"seconds", report.load_seconds},
            {"weight_bytes", report.weight_bytes},
            {"peak_rss_bytes", report.load_peak_bytes}}},
          {"kv_bytes", report.kv_bytes},
          {"peak_rss_bytes", report.peak_bytes},
          {"encode", std::move(encodes)},
          {"prefill", std::move(prefills)}};
}

absl::Status Bench(const ModelFlags& flags, const Plan& plan, const kernels::KernelTable& isa) {
  absl::StatusOr<model::ModelFolder> folder = model::OpenModelFolder(flags.model);
  if (!folder.ok()) return folder.status();
  Report report;
  report.kernels = isa.name;
  absl::StatusOr<std::shared_ptr<const cpu::CpuModel>> model;
  {
    ResetPeakRss();
    const std::unique_ptr<cpu::ThreadPool> pool =
        MakePool(*std::max_element(plan.threads.begin(), plan.threads.end()), plan.cores);
    Progress progress("loading");
    cpu::LoadOptions options;
    options.pool = pool.get();
    if (flags.weights == Weights::kInt8) options.weights = cpu::WeightFormat::kInt8;
    options.progress = [&progress](int64_t done, int64_t total) { progress.Update(done, total); };
    report.load_seconds = Seconds(
        [&] { model = cpu::LoadForIsa(folder->config, *folder->checkpoint, options, isa); });
    if (!model.ok()) return model.status();
    report.load_peak_bytes = PeakRssBytes();
  }
  folder->checkpoint.reset();
  report.weight_bytes = (*model)->weight_bytes();

  int64_t kv_tokens = flags.kv_tokens;
  for (const int64_t tokens : plan.prompts) kv_tokens = std::max(kv_tokens, tokens);
  const model::TextConfig& text = folder->config.text;
  report.kv_bytes = kv_tokens * 2 * text.num_layers * text.num_kv_heads * text.head_dim * 4;
  ModelBench bench(*folder, *model, isa, plan, flags.repeats, kv_tokens);
  Progress progress("measuring");
  int64_t done = 0;
  const auto steps = static_cast<int64_t>(plan.pictures.size() + plan.prompts.size());
  for (const Picture& picture : plan.pictures) {
    if (absl::Status s = bench.Encode(picture, &report); !s.ok()) return s;
    progress.Update(++done, steps);
  }
  for (const int64_t tokens : plan.prompts) {
    if (absl::Status s = bench.Prefill(tokens, &report); !s.ok()) return s;
    progress.Update(++done, steps);
  }
  progress.Finish();
  report.peak_bytes = PeakRssBytes();
  std::fputs(Render(report).c_str(), stdout);
  if (flags.json_path.empty()) return absl::OkStatus();
  return WriteFile(flags.json_path, JsonText(ReportJson(report)));
}

}  // namespace

int BenchModelCommand(Args args) {
  ModelFlags flags;
  OptionTable table;
  Declare(&table, &flags);
  if (const std::optional<int> code = ParseOrHelp(kText, &table, args)) return *code;
  const absl::StatusOr<const kernels::KernelTable*> isa = FindKernels(flags.isa);
  if (!isa.ok()) return FailUsage(isa.status());
  const absl::StatusOr<Plan> plan = ParsePlan(flags);
  if (!plan.ok()) return FailUsage(plan.status());
  if (absl::Status status = CheckOutputs({flags.json_path}, {}); !status.ok()) {
    return FailUsage(status);
  }
  const absl::Status status = Bench(flags, *plan, **isa);
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace rserve::tool
