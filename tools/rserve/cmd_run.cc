// rserve run: one request, its answer, and a picture of what overlapped.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/rserve/command.h"
#include "tools/rserve/driver.h"
#include "tools/rserve/engine_options.h"
#include "tools/rserve/files.h"
#include "tools/rserve/json_text.h"
#include "tools/rserve/requests.h"
#include "tools/rserve/spans.h"
#include "tools/rserve/text.h"
#include "tools/rserve/timeline.h"

namespace rserve::tool {
namespace {

constexpr CommandText kText = {
    "run",
    "Answers one prompt about pictures: the first token of the answer, the time to it, and a\n"
    "timeline of which picture was decoded and encoded, and which part of the prompt prefilled,\n"
    "when, on which worker.\n",
    "  rserve run models/digits --image a.png --image b.png --prompt \"Which digit is in picture "
    "2?\"\n"
    "  rserve run models/digits --chat request.json --scheme epd --trace trace.json\n"
    "  rserve run models/digits --image a.png --prompt \"Which digit?\" --dump-logits logits.f32\n"
    "\nOpen the trace at https://ui.perfetto.dev. Dumps are raw 32-bit floats in the machine's "
    "byte\norder: [vocabulary] logits, [tokens of all pictures][hidden size] embeddings.\n"};

struct RunFlags {
  std::string model;
  PromptFlags prompt;
  EngineCase engine_case;
  EngineFlags engine;
  double temperature = 0;
  double top_p = 1;
  int64_t seed = 0;
  std::string trace;
  std::string dump_logits;
  std::string dump_embeddings;
  bool timeline = true;
  bool spans = false;
  bool ascii = false;
  int64_t width = 0;
};

void Declare(OptionTable* table, RunFlags* flags) {
  table->Positional("MODEL", &flags->model, "the model's folder");
  AddPromptFlags(table, &flags->prompt);
  table->Strings(
      "video", "FILE", &flags->prompt.videos,
      "a video file (an animated GIF, or what FFmpeg's libraries read where the build has them), "
      "of which two frames a second are taken; several stand in their order behind the pictures");
  table->List("frames", "FILE,FILE,..", &flags->prompt.frames,
              "picture files that are the frames of a video, behind all other pictures");
  table->Real("fps", "N", 0, 1e4, &flags->prompt.fps, "of --frames: how many are a second");
  table->Section("Answer");
  table->Real("temperature", "T", 0, 100, &flags->temperature, "0: the most probable token");
  table->Real("top-p", "P", 1e-6, 1, &flags->top_p,
              "sample among the most probable tokens that have P together");
  table->Int("seed", "N", 0, INT64_MAX, &flags->seed, "of the sampling");
  table->Section("Output");
  table->Switch("timeline", &flags->timeline, "do not draw the timeline");
  table->Switch("spans", &flags->spans, "list every bar of the timeline with its times");
  table->Switch("ascii", &flags->ascii, "draw with ASCII characters only");
  table->Int("width", "N", 0, 1000, &flags->width,
             "columns of the timeline; 0: the terminal's, or 100");
  table->String("trace", "FILE", &flags->trace, "write the timeline as Chrome trace JSON");
  table->String("dump-logits", "FILE", &flags->dump_logits,
                "write the logits of the prompt's last token");
  table->String("dump-embeddings", "FILE", &flags->dump_embeddings,
                "write the pictures' embeddings");
  AddCaseFlags(table, &flags->engine_case);
  AddEngineFlags(table, &flags->engine);
}

void PrintAnswer(const ModelEngine& engine, const RequestDetail& detail) {
  const int32_t token = detail.first_token.token;
  std::printf("answer   %s\n", Printable(engine.Decode({token})).c_str());
  std::printf("token    id %d, log probability %.4f\n", token,
              static_cast<double>(detail.first_token.logprob));
  std::string pictures;
  for (const ItemDetail& item : detail.items) {
    absl::StrAppend(&pictures, pictures.empty() ? ", pictures: " : ", ", item.tokens);
  }
  std::printf("prompt   %zu tokens%s\n", detail.token_ids.size(), pictures.c_str());
  const RequestTimes& times = detail.times;
  std::printf("TTFT     %s", FormatMs(times.first_token_ns - times.submitted_ns).c_str());
  if (!detail.items.empty()) {
    std::printf(" (first encode issued at %s, last ended at %s, prefill issued at %s)",
                FormatMs(times.first_encode_ns - times.submitted_ns).c_str(),
                FormatMs(times.last_encode_ns - times.submitted_ns).c_str(),
                FormatMs(times.first_prefill_ns - times.submitted_ns).c_str());
  }
  std::printf("\n");
}

TracedRequest Traced(const RequestDetail& detail) {
  TracedRequest traced;
  for (size_t item = 0; item < detail.items.size(); ++item) {
    traced.item_begin.push_back(detail.items[item].token_begin);
    // A video has a unit for each temporal patch.
    traced.unit_item.insert(traced.unit_item.end(), static_cast<size_t>(detail.items[item].grid_t),
                            static_cast<int32_t>(item));
  }
  return traced;
}

// Everything that is shown or written after the answer.
absl::Status Report(const RunFlags& flags, const std::vector<WorkerSpec>& workers,
                    const RequestDetail& detail, const std::vector<TraceSpan>& spans) {
  const TracedRequests requests = {{detail.request, Traced(detail)}};
  const TimeNs origin_ns = detail.times.submitted_ns;
  if (flags.timeline) {
    TimeNs end_ns = detail.times.first_token_ns;
    for (const TraceSpan& span : spans) end_ns = std::max(end_ns, span.end_ns);
    TimelineStyle style;
    style.unicode = !flags.ascii;
    style.width = flags.width > 0 ? static_cast<int>(flags.width) : TerminalWidth(100);
    std::printf(
        "\n%s",
        RenderTimeline(TimelineLanes(spans, workers, requests), origin_ns, end_ns, style).c_str());
  }
  if (flags.spans) std::printf("\n%s", SpanTable(spans, workers, requests, origin_ns).c_str());
  if (!flags.trace.empty()) {
    const nlohmann::json trace = ChromeTrace(spans, workers, requests, origin_ns);
    if (absl::Status status = WriteFile(flags.trace, JsonText(trace, /*indent=*/-1)); !status.ok())
      return status;
  }
  if (!flags.dump_logits.empty()) {
    if (absl::Status status = WriteFloats(flags.dump_logits, detail.logits); !status.ok()) {
      return status;
    }
  }
  if (!flags.dump_embeddings.empty()) return WriteFloats(flags.dump_embeddings, detail.embeddings);
  return absl::OkStatus();
}

absl::Status Run(const RunFlags& flags, ModelEngineOptions options) {
  const absl::StatusOr<model::ModelFolder> spec = model::OpenModelSpec(flags.model);
  if (!spec.ok()) return spec.status();
  const absl::StatusOr<LoadedChat> loaded = LoadPrompt(flags.prompt, *spec);
  if (!loaded.ok()) return loaded.status();
  std::vector<ModelRequest> requests = {ToRequest(*loaded)};
  ModelRequest& request = requests.front();
  request.sampling.temperature = static_cast<float>(flags.temperature);
  request.sampling.top_p = static_cast<float>(flags.top_p);
  request.sampling.seed = static_cast<uint64_t>(flags.seed);
  request.keep_logits = !flags.dump_logits.empty();
  request.keep_embeddings = !flags.dump_embeddings.empty();

  SpanRecorder recorder;
  options.trace = recorder.Sink();
  absl::StatusOr<std::unique_ptr<ModelEngine>> engine = OpenEngine(std::move(options));
  if (!engine.ok()) return engine.status();
  ModelTarget target(engine->get(), requests);
  const std::vector<Outcome> outcomes = Drive(target, {0}, nullptr);
  if (!outcomes[0].status.ok()) return NameFile(outcomes[0].status, *loaded);
  const auto detail = (*engine)->Detail(outcomes[0].id);
  if (!detail.ok()) return detail.status();
  PrintAnswer(**engine, **detail);
  std::vector<WorkerSpec> workers;
  for (const WorkerInfo& worker : (*engine)->info().workers) workers.push_back(worker.spec);
  engine->reset();  // an engine hands its last spans over after its last event
  return Report(flags, workers, **detail, recorder.Take());
}

}  // namespace

int RunCommand(Args args) {
  RunFlags flags;
  OptionTable table;
  Declare(&table, &flags);
  if (const std::optional<int> code = ParseOrHelp(kText, &table, args)) return *code;
  if (absl::Status status = CheckPromptFlags(flags.prompt); !status.ok()) return FailUsage(status);
  std::vector<std::string> inputs = flags.prompt.images;
  inputs.insert(inputs.end(), flags.prompt.videos.begin(), flags.prompt.videos.end());
  inputs.insert(inputs.end(), flags.prompt.frames.begin(), flags.prompt.frames.end());
  if (!flags.prompt.chat.empty()) inputs.push_back(flags.prompt.chat);
  if (absl::Status status =
          CheckOutputs({flags.trace, flags.dump_logits, flags.dump_embeddings}, inputs);
      !status.ok()) {
    return FailUsage(status);
  }
  absl::StatusOr<ModelEngineOptions> options =
      MakeEngineOptions(flags.model, flags.engine_case, flags.engine);
  if (!options.ok()) return FailUsage(options.status());
  const absl::Status status = Run(flags, *std::move(options));
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace rserve::tool
