// rserve eval: the same prompts under every scheme; answers must be equal to the last bit.

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tools/rserve/command.h"
#include "tools/rserve/driver.h"
#include "tools/rserve/engine_options.h"
#include "tools/rserve/eval_set.h"
#include "tools/rserve/files.h"
#include "tools/rserve/json_text.h"
#include "tools/rserve/progress.h"
#include "tools/rserve/requests.h"
#include "tools/rserve/text.h"

namespace rserve::tool {
namespace {

using nlohmann::json;

constexpr CommandText kText = {
    "eval",
    "Answers a file of prompts under each scheme, topology, C and B, and compares: with the right\n"
    "answers, with the reference's answers, and the runs with each other, where the logits must\n"
    "be equal bit by bit. Exits with 1 when two runs differ.\n\n"
    "A line of the file: {\"id\": \"1\", \"kind\": \"digit\", \"pictures\": [\"1.png\"], "
    "\"question\": \"...\",\n\"answer\": \"7\", \"reference_answer\": \"7\"}; picture paths are "
    "relative to the file. Pictures are\nintroduced as 'Picture N: '.\n",
    "  rserve eval models/digits\n"
    "  rserve eval models/digits --schemes rserve,epd --topologies TP1+E1 --encode-batch 1,64,all\n"
    "  rserve eval models/digits --limit 50 --json eval.json\n"};

struct EvalFlags {
  std::string model;
  std::string prompts;
  int64_t limit = 0;
  std::vector<std::string> schemes = {"rserve", "epd", "colocated", "rserve_intra", "adaptive"};
  std::vector<std::string> topologies = {"TP1+E1", "PP3+E1"};
  std::vector<std::string> encode_batches = {"32"};
  std::vector<std::string> token_budgets = {"256"};
  std::string json_path;
  EngineFlags engine;
};

struct EvalRun {
  EngineCase engine_case;
  std::vector<EvalAnswer> answers;
  EvalScores scores;
  EvalDifference difference;  // from the first run
  double seconds = 0;
};

void Declare(OptionTable* table, EvalFlags* flags) {
  table->Positional("MODEL", &flags->model, "the model's folder");
  table->Section("Prompts");
  table->String("prompts", "FILE", &flags->prompts,
                "the prompts; default: MODEL/eval/prompts.jsonl");
  table->Int("limit", "N", 0, INT64_MAX, &flags->limit, "the first N prompts only; 0: all");
  table->Section("Runs: every combination of these lists");
  table->List("schemes", "LIST", &flags->schemes, "schemes");
  table->List("topologies", "LIST", &flags->topologies, "topologies");
  table->List("encode-batch", "LIST", &flags->encode_batches, "values of C (tokens, or all)");
  table->List("token-budget", "LIST", &flags->token_budgets, "values of B (tokens)");
  table->Section("Output");
  table->String("json", "FILE", &flags->json_path, "write the results as JSON");
  AddEngineFlags(table, &flags->engine);
}

// The engine options of each run, all checked before the first one starts.
absl::StatusOr<std::vector<EngineCase>> Cases(const EvalFlags& flags) {
  std::vector<EngineCase> cases;
  for (const std::string& topology_text : flags.topologies) {
    const absl::StatusOr<Topology> topology = ParseTopology(topology_text);
    if (!topology.ok()) return topology.status();
    for (const std::string& scheme_text : flags.schemes) {
      const absl::StatusOr<Scheme> scheme = ParseScheme(scheme_text);
      if (!scheme.ok()) return scheme.status();
      for (const std::string& batch_text : flags.encode_batches) {
        const absl::StatusOr<int64_t> batch = ParseEncodeBatch(batch_text);
        if (!batch.ok()) return batch.status();
        for (const std::string& budget_text : flags.token_budgets) {
          const absl::StatusOr<int64_t> budget = ParseTokenBudget(budget_text);
          if (!budget.ok()) return budget.status();
          cases.push_back({*scheme, *topology, *batch, *budget});
          cases.back().encode_batch_chosen = true;
          const auto options = MakeEngineOptions(flags.model, cases.back(), flags.engine);
          if (!options.ok()) return options.status();
        }
      }
    }
  }
  return cases;
}

// Answers all prompts in one engine, all submitted at once.
absl::StatusOr<EvalRun> RunCase(const EvalFlags& flags, const EngineCase& engine_case,
                                absl::Span<const EvalPrompt> prompts,
                                absl::Span<const ModelRequest> requests) {
  absl::StatusOr<ModelEngineOptions> options =
      MakeEngineOptions(flags.model, engine_case, flags.engine);
  if (!options.ok()) return options.status();
  options->queue_requests = static_cast<int64_t>(requests.size());
  options->input_bytes = INT64_MAX;
  absl::StatusOr<std::unique_ptr<ModelEngine>> engine = OpenEngine(*std::move(options));
  if (!engine.ok()) return engine.status();

  EvalRun run;
  run.engine_case = engine_case;
  run.answers.resize(prompts.size());
  Progress progress(engine_case.ToString());
  int64_t done = 0;
  absl::Status failure;
  ModelTarget target(engine->get(), requests);
  const TimeNs begin_ns = Engine::now_ns();
  const std::vector<Outcome> outcomes =
      Drive(target, std::vector<TimeNs>(requests.size(), 0), [&](size_t index, RequestId id) {
        const auto detail = (*engine)->Detail(id);
        if (!detail.ok()) {
          failure.Update(detail.status());
          return;
        }
        EvalAnswer& answer = run.answers[index];
        answer.token = (*detail)->first_token.token;
        answer.text = (*engine)->Decode({answer.token});
        answer.logits_hash = HashFloats((*detail)->logits);
        failure.Update((*engine)->Acknowledge(id));
        progress.Update(++done, static_cast<int64_t>(requests.size()));
      });
  run.seconds = static_cast<double>(Engine::now_ns() - begin_ns) / 1e9;
  progress.Finish();
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (!outcomes[i].status.ok()) {
      failure.Update(
          absl::Status(outcomes[i].status.code(),
                       absl::StrCat("prompt ", prompts[i].id, ": ", outcomes[i].status.message())));
    }
  }
  if (!failure.ok()) return failure;
  run.scores = ScoreAnswers(prompts, run.answers);
  return run;
}

void PrintRuns(const std::vector<EvalRun>& runs) {
  TextTable table({"scheme", "topology", "C", "B", "correct", "accuracy", "as reference",
                   "other answers", "other logits", "seconds"});
  for (const EvalRun& run : runs) {
    const Score& all = run.scores.all;
    table.Row(
        {SchemeText(run.engine_case.scheme), run.engine_case.topology.name,
         EncodeBatchName(run.engine_case.encode_batch), absl::StrCat(run.engine_case.token_budget),
         absl::StrCat(all.correct, "/", all.total), FormatPercent(all.accuracy()),
         all.with_reference == 0 ? "-" : absl::StrCat(all.as_reference, "/", all.with_reference),
         absl::StrCat(run.difference.answers), absl::StrCat(run.difference.logits),
         FormatFixed(run.seconds, 1)});
  }
  std::printf("%s\n", table.ToString().c_str());
}

// Accuracy by kind and by number of pictures of one run.
void PrintBreakdown(const EvalRun& run) {
  TextTable table({"prompts", "correct", "accuracy"});
  const auto row = [&](const std::string& name, const Score& score) {
    table.Row(
        {name, absl::StrCat(score.correct, "/", score.total), FormatPercent(score.accuracy())});
  };
  for (const auto& [kind, score] : run.scores.by_kind) {
    row(kind.empty() ? "no kind" : absl::StrCat("kind ", kind), score);
  }
  for (const auto& [pictures, score] : run.scores.by_pictures) {
    row(pictures == 1 ? "1 picture" : absl::StrCat(pictures, " pictures"), score);
  }
  std::printf("%s\n", table.ToString().c_str());
}

json ScoreJson(const Score& score) {
  return {{"correct", score.correct},
          {"total", score.total},
          {"accuracy", score.accuracy()},
          {"reference_agreement", score.as_reference},
          {"reference_total", score.with_reference}};
}

json ToJson(const EvalFlags& flags, const std::vector<EvalPrompt>& prompts,
            const std::vector<EvalRun>& runs, bool agree) {
  json schemes = json::array();
  for (const EvalRun& run : runs) {
    json entry = ScoreJson(run.scores.all);
    entry["scheme"] = SchemeText(run.engine_case.scheme);
    entry["topology"] = run.engine_case.topology.name;
    entry["encode_batch_tokens"] = EncodeBatchName(run.engine_case.encode_batch);
    entry["token_budget"] = run.engine_case.token_budget;
    entry["seconds"] = run.seconds;
    entry["answers_that_differ"] = run.difference.answers;
    entry["logits_that_differ"] = run.difference.logits;
    for (const auto& [kind, score] : run.scores.by_kind) entry["by_kind"][kind] = ScoreJson(score);
    for (const auto& [pictures, score] : run.scores.by_pictures) {
      entry["by_pictures"][absl::StrCat(pictures)] = ScoreJson(score);
    }
    schemes.push_back(std::move(entry));
  }
  json answers = json::array();
  for (size_t i = 0; i < prompts.size(); ++i) {
    const EvalAnswer& answer = runs.front().answers[i];
    answers.push_back({{"id", prompts[i].id},
                       {"text", Printable(answer.text)},
                       {"token", answer.token},
                       {"logits_hash", absl::StrFormat("%016x", answer.logits_hash)}});
  }
  return {{"model", flags.model},
          {"prompts", prompts.size()},
          {"schemes_agree", agree},
          {"schemes", std::move(schemes)},
          {"answers", std::move(answers)}};
}

absl::Status Eval(const EvalFlags& flags, const std::vector<EngineCase>& cases) {
  const std::string path =
      flags.prompts.empty() ? absl::StrCat(flags.model, "/eval/prompts.jsonl") : flags.prompts;
  absl::StatusOr<std::vector<EvalPrompt>> prompts = ReadEvalPrompts(path);
  if (!prompts.ok()) return prompts.status();
  if (flags.limit > 0 && static_cast<size_t>(flags.limit) < prompts->size()) {
    prompts->resize(static_cast<size_t>(flags.limit));
  }
  const absl::StatusOr<model::ModelFolder> spec = model::OpenModelSpec(flags.model);
  if (!spec.ok()) return spec.status();
  std::vector<LoadedChat> chats;
  std::vector<ModelRequest> requests;
  for (const EvalPrompt& prompt : *prompts) {
    absl::StatusOr<LoadedChat> chat = LoadQuestion(prompt.pictures, prompt.question, true, *spec);
    if (!chat.ok()) {
      return absl::Status(chat.status().code(),
                          absl::StrCat("prompt ", prompt.id, ": ", chat.status().message()));
    }
    chats.push_back(*std::move(chat));
    requests.push_back(ToRequest(chats.back()));
    requests.back().keep_logits = true;
  }

  std::vector<EvalRun> runs;
  bool agree = true;
  for (const EngineCase& engine_case : cases) {
    absl::StatusOr<EvalRun> run = RunCase(flags, engine_case, *prompts, requests);
    if (!run.ok()) {
      return absl::Status(run.status().code(),
                          absl::StrCat(engine_case.ToString(), ": ", run.status().message()));
    }
    if (!runs.empty()) run->difference = CompareAnswers(runs.front().answers, run->answers);
    agree = agree && run->difference.answers == 0 && run->difference.logits == 0;
    runs.push_back(*std::move(run));
  }
  PrintRuns(runs);
  PrintBreakdown(runs.front());
  if (!flags.json_path.empty()) {
    const json report = ToJson(flags, *prompts, runs, agree);
    if (absl::Status status = WriteFile(flags.json_path, JsonText(report)); !status.ok()) {
      return status;
    }
  }
  if (!agree) {
    return absl::InternalError("runs differ: see the columns 'other answers' and 'other logits'");
  }
  std::printf("%zu %s: same answers and bit-identical logits\n", runs.size(),
              runs.size() == 1 ? "run" : "runs");
  return absl::OkStatus();
}

}  // namespace

int EvalCommand(Args args) {
  EvalFlags flags;
  OptionTable table;
  Declare(&table, &flags);
  if (const std::optional<int> code = ParseOrHelp(kText, &table, args)) return *code;
  if (absl::Status status = CheckOutputs({flags.json_path}, {}); !status.ok()) {
    return FailUsage(status);
  }
  const absl::StatusOr<std::vector<EngineCase>> cases = Cases(flags);
  if (!cases.ok()) return FailUsage(cases.status());
  const absl::Status status = Eval(flags, *cases);
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace rserve::tool
