// The command from outside: exit codes, files it writes, what it says about bad input.

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/model/temp_folder.h"
#include "tests/support/catch.h"
#include "tests/tool/run_tool.h"

namespace rserve::tool {
namespace {

using nlohmann::json;

const char* const kCommands[] = {"run", "eval", "bench", "make-model", "inspect"};

json ParseFile(const std::string& path) {
  const json parsed = json::parse(Slurp(path), nullptr, false);
  REQUIRE_FALSE(parsed.is_discarded());
  return parsed;
}

TEST_CASE("help and version go to stdout and are no failure") {
  CHECK(RunTool({"--version"}).out.find("rserve ") == 0);
  const Ran help = RunTool({"--help"});
  CHECK(help.code == 0);
  for (const char* command : kCommands) {
    CAPTURE(command);
    CHECK(help.out.find(command) != std::string::npos);
    const Ran own = RunTool({command, "--help"});
    CHECK(own.code == 0);
    CHECK(own.err.empty());
    CHECK(own.out.find("Examples:") != std::string::npos);
    CHECK(RunTool({"help", command}).out == own.out);
  }
  for (const char* what : {"kernels", "model"}) {
    const Ran own = RunTool({"bench", what, "--help"});
    CHECK(own.code == 0);
    CHECK(own.out.find("Examples:") != std::string::npos);
  }
}

TEST_CASE("a wrong command line gives 2 and one line that names what is wrong") {
  const std::vector<std::vector<std::string>> kWrong = {
      {},
      {"dance"},
      {"run"},
      {"run", "m"},
      {"run", "m", "--prompt", "x", "--scheme", "none"},
      {"run", "m", "--prompt", "x", "--topology", "TP2xE1"},
      {"run", "m", "--prompt", "x", "--scheme", "rserve", "--topology", "PP3"},
      {"run", "m", "--prompt", "x", "--token-budget", "0"},
      {"run", "m", "--prompt", "x", "--stage-layers", "1,x"},
      {"run", "m", "--prompt", "x", "--chat", "c.json"},
      {"run", "m", "--prompt", "x", "--frames", "a.png,b.png"},
      {"run", "m", "--prompt", "x", "--fps", "2"},
      {"run", "m", "--prompt", "x", "--number-pictures", "maybe"},
      {"eval", "m", "--schemes", "rserve,none"},
      {"eval", "m", "--encode-batch", "0"},
      {"eval", "m", "--token-budget", "-1"},
      {"bench", "-"},
      {"bench", "m", "--image-size", "12"},
      {"bench", "m", "--executor", "magic"},
      {"bench", "m", "--schemes", "rserve:none"},
      {"bench", "m", "--weights", "int4"},
      {"bench", "kernels", "--weights", "int4"},
      {"bench", "kernels", "--rows", "0"},
      {"bench", "kernels", "--ops", "sort"},
      {"bench", "kernels", "--kernels", "mmx"},
      {"bench", "model"},
      {"bench", "model", "m", "--images", "12"},
      {"bench", "model", "m", "--chunks", "some"},
      {"make-model", "/nonexistent/m", "--preset", "1b"},
      {"make-model", "/nonexistent/m", "--dtype", "int8"},
      {"make-model", "/nonexistent/m", "--hidden", "100"},
      {"inspect", "m", "--unknown"},
  };
  for (const auto& args : kWrong) {
    CAPTURE(args);
    const Ran ran = RunTool(args);
    CHECK(ran.code == 2);
    CHECK(ran.out.empty());
    CHECK_FALSE(ran.err.empty());
  }
}

TEST_CASE("what is missing or damaged gives 1 and is named") {
  const std::string& model = TinyModel();
  const model::TempFolder folder;
  folder.Write("broken.png", Slurp(Picture("rgb8.png")).substr(0, 40));
  folder.Write("text.png", "this is no picture");
  folder.Write("chat.json", "[{\"role\": \"user\"");
  folder.Write("far.json",
               "[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"image\":\"absent.png\"}]}]");
  folder.Write("prompts.jsonl", "{}\n");
  const struct {
    std::vector<std::string> args;
    const char* named;
  } kCases[] = {
      {{"run", "/nonexistent", "--prompt", "x"}, "/nonexistent"},
      {{"run", model, "--image", "/nonexistent.png", "--prompt", "x"}, "/nonexistent.png"},
      {{"run", model, "--image", folder.File("broken.png"), "--prompt", "x"}, "PNG"},
      {{"run", model, "--image", folder.File("text.png"), "--prompt", "x"}, "PNG"},
      {{"run", model, "--chat", folder.File("chat.json")}, "chat.json"},
      {{"run", model, "--chat", folder.File("far.json")}, "absent.png"},
      {{"run", model, "--prompt", "x", "--max-prompt-tokens", "4"}, "max_prompt_tokens"},
      {{"run", model, "--prompt", "x", "--topology", "PP9+E1"}, "stages"},
      {{"eval", model}, "prompts.jsonl"},
      {{"eval", model, "--prompts", folder.File("prompts.jsonl")}, "line 1"},
      {{"bench", "/nonexistent"}, "/nonexistent"},
      {{"bench", "model", "/nonexistent"}, "/nonexistent"},
      {{"inspect", "/nonexistent"}, "/nonexistent"},
      {{"inspect", model, "--image", folder.File("text.png")}, "text.png"},
      {{"make-model", model}, "--force"},
      {{"make-model", "/dev/null/m", "--vocab", "1280"}, "/dev/null/m"},
      {{"make-model", folder.File("m"), "--vocab", "300"}, "--vocab"},
  };
  for (const auto& entry : kCases) {
    CAPTURE(entry.args);
    const Ran ran = RunTool(entry.args);
    CAPTURE(ran.err);
    CHECK(ran.code == 1);
    CHECK(ran.err.find("rserve: ") == 0);
    CHECK(ran.err.find(entry.named) != std::string::npos);
  }
}

TEST_CASE("run answers the same under every scheme, and writes trace, logits and embeddings") {
  const std::string& model = TinyModel();
  const model::TempFolder folder;
  std::set<std::string> logits, embeddings;
  for (const char* scheme : {"rserve", "rserve_intra", "epd", "colocated", "adaptive"}) {
    for (const char* topology : {"TP1+E1", "PP3+E1"}) {
      CAPTURE(scheme, topology);
      const Ran ran = RunTool({"run",
                               model,
                               "--image",
                               Picture("rgb8.png"),
                               "--image",
                               Picture("rgb420.jpg"),
                               "--prompt",
                               "Which digit is in picture 2?",
                               "--scheme",
                               scheme,
                               "--topology",
                               topology,
                               "--encode-batch",
                               "1",
                               "--token-budget",
                               "8",
                               "--trace",
                               folder.File("trace.json"),
                               "--dump-logits",
                               folder.File("logits"),
                               "--dump-embeddings",
                               folder.File("embeddings"),
                               "--spans",
                               "--ascii"});
      CAPTURE(ran.out, ran.err);
      REQUIRE(ran.code == 0);
      for (const char* text : {"answer ", "TTFT ", "stage 0", "encode picture 2", "tokens 0-7"}) {
        CHECK(ran.out.find(text) != std::string::npos);
      }
      const json trace = ParseFile(folder.File("trace.json"));
      std::set<std::string> categories;
      for (const json& event : trace["traceEvents"]) {
        if (event["ph"] == "X") categories.insert(event["cat"].get<std::string>());
      }
      CHECK(categories == std::set<std::string>{"encode", "pixels", "prefill"});
      logits.insert(Slurp(folder.File("logits")));
      embeddings.insert(Slurp(folder.File("embeddings")));
    }
  }
  CHECK(logits.size() == 1);
  CHECK(logits.begin()->size() == 1280 * sizeof(float));
  CHECK(embeddings.size() == 1);
  CHECK(embeddings.begin()->size() % (64 * sizeof(float)) == 0);
}

TEST_CASE("pictures are numbered with two or more, and always or never on request") {
  const std::string& model = TinyModel();
  const auto tokens = [&](int pictures, const char* number) {
    std::vector<std::string> args = {"inspect",           model, "--prompt", "x",
                                     "--number-pictures", number};
    for (int i = 0; i < pictures; ++i) {
      args.insert(args.end(), {"--image", Picture("rgb8.png")});
    }
    const Ran ran = RunTool(args);
    REQUIRE(ran.code == 0);
    const size_t at = ran.out.find("prompt      ");
    REQUIRE(at != std::string::npos);
    return ran.out.substr(at, ran.out.find('\n', at) - at);
  };
  CHECK(tokens(1, "auto") == tokens(1, "off"));
  CHECK(tokens(1, "auto") != tokens(1, "on"));
  CHECK(tokens(2, "auto") == tokens(2, "on"));
  CHECK(tokens(2, "auto") != tokens(2, "off"));
}

TEST_CASE("a chat file gives the answer that the same picture and prompt give") {
  const std::string& model = TinyModel();
  const model::TempFolder folder;
  folder.Write("a.png", Slurp(Picture("rgb8.png")));
  folder.Write("chat.json",
               "[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"image\":\"a.png\"},"
               "{\"type\":\"text\",\"text\":\"Which digit?\"}]}]");
  const Ran chat = RunTool({"run", model, "--chat", folder.File("chat.json"), "--dump-logits",
                            folder.File("chat"), "--no-timeline"});
  CAPTURE(chat.err);
  REQUIRE(chat.code == 0);
  REQUIRE(RunTool({"run", model, "--image", folder.File("a.png"), "--prompt", "Which digit?",
                   "--dump-logits", folder.File("prompt"), "--no-timeline"})
              .code == 0);
  CHECK(Slurp(folder.File("chat")) == Slurp(folder.File("prompt")));
}

TEST_CASE("eval scores every run and writes what it found") {
  const std::string& model = TinyModel();
  const model::TempFolder folder;
  folder.Write("a.png", Slurp(Picture("rgb8.png")));
  folder.Write("prompts.jsonl",
               "{\"id\":\"1\",\"kind\":\"digit\",\"pictures\":[\"a.png\"],\"question\":\"q\","
               "\"answer\":\"7\",\"reference_answer\":\"7\"}\n"
               "{\"id\":\"2\",\"kind\":\"colour\",\"pictures\":[\"a.png\",\"a.png\"],"
               "\"question\":\"q\",\"answer\":\"red\",\"reference_answer\":\"red\"}\n");
  const Ran ran =
      RunTool({"eval", model, "--prompts", folder.File("prompts.jsonl"), "--encode-batch", "1,all",
               "--token-budget", "16,2048", "--json", folder.File("eval.json")});
  CAPTURE(ran.out, ran.err);
  REQUIRE(ran.code == 0);
  const json report = ParseFile(folder.File("eval.json"));
  CHECK(report["schemes_agree"] == true);
  CHECK(report["schemes"].size() == 5 * 2 * 2 * 2);
  CHECK(report["answers"].size() == 2);
  for (const json& run : report["schemes"]) {
    CHECK(run["total"] == 2);
    CHECK(run["correct"].is_number_integer());
    CHECK(run["accuracy"].is_number());
    CHECK(run["scheme"].is_string());
    CHECK(run["topology"].is_string());
    CHECK(run["logits_that_differ"] == 0);
    CHECK(run["by_kind"].size() == 2);
    CHECK(run["by_pictures"].size() == 2);
  }
}

void CheckBenchJson(const json& report, size_t runs) {
  REQUIRE(report["runs"].size() == runs);
  for (const json& run : report["runs"]) {
    CHECK(run["scheme"].is_string());
    CHECK(run["topology"].is_string());
    for (const char* key : {"mean", "p50", "p99"}) CHECK(run["ttft_ms"][key].get<double>() > 0);
    CHECK(run["tokens_per_s"].get<double>() > 0);
    CHECK(run["bound_ms"].get<double>() > 0);
    CHECK(run["peak_embedding_bytes"].get<int64_t>() > 0);
  }
  CHECK(report["ratios"].size() == runs - 1);
}

TEST_CASE("bench measures a model under several schemes") {
  const model::TempFolder folder;
  const Ran ran = RunTool({"bench", TinyModel(), "--requests", "2", "--images", "2", "--image-size",
                           "56x84", "--text-tokens", "8", "--schemes",
                           "rserve,rserve_intra,epd,epd:all,colocated,adaptive@TP1,adaptive:1",
                           "--repeat", "2", "--slo", "1000", "--json", folder.File("bench.json")});
  CAPTURE(ran.out, ran.err);
  REQUIRE(ran.code == 0);
  CHECK(ran.out.find("TTFT rserve C=1024 / bound") != std::string::npos);
  const json report = ParseFile(folder.File("bench.json"));
  CheckBenchJson(report, 7);
  CHECK(report["runs"][0]["passes"].size() == 2);
  CHECK(report["runs"][0].contains("slo_attainment"));
  CHECK(report["runs"][4]["topology"] == "TP1");
  CHECK(report["runs"][5]["topology"] == "TP1");
}

TEST_CASE("sim fit predicts what bench measured") {
  const model::TempFolder folder;
  const std::string measured = folder.File("bench.json");
  REQUIRE(RunTool({"bench", TinyModel(), "--requests", "4", "--images", "2", "--image-size",
                   "56x84", "--rate", "50", "--schemes", "rserve,epd:all,colocated,adaptive@TP1",
                   "--repeat", "1", "--json", measured})
              .code == 0);
  const Ran ran = RunTool({"sim", "fit", measured, "--csv", folder.File("fit.csv")});
  CAPTURE(ran.out, ran.err);
  CHECK(ran.code == 0);
  CHECK(ran.out.find("TP1+E1, fitted on rserve C=1024") != std::string::npos);
  CHECK(ran.out.find("TP1, fitted on colocated C=1024") != std::string::npos);
  for (const char* broken : {"", "[]", "{}", "{\"workload\": {\"item_begin\": [0]}}",
                             "{\"workload\": {\"item_begin\": [0], \"item_tokens\": [-1], "
                             "\"arrival_ns\": [0], \"prompt_tokens\": 5}}"}) {
    CAPTURE(broken);
    std::ofstream(folder.File("broken.json"), std::ios::trunc) << broken;
    const Ran refused = RunTool({"sim", "fit", folder.File("broken.json")});
    CHECK(refused.code == 1);
    CHECK(refused.err.find("broken.json") != std::string::npos);
  }
}

TEST_CASE("sim writes figures and replays what it wrote") {
  const model::TempFolder folder;
  Ran ran = RunTool({"sim", "figures", "--only", "5,15", "--out", folder.File("figures")});
  CAPTURE(ran.out, ran.err);
  CHECK(ran.code == 0);
  CHECK(std::ifstream(folder.File("figures/report.html")).good());
  CHECK(std::ifstream(folder.File("figures/fig5_vanilla.svg")).good());
  CHECK(std::ifstream(folder.File("figures/comparison.csv")).good());
  CHECK(RunTool({"sim", "figures", "--only", "99", "--out", folder.File("none")}).code == 2);

  REQUIRE(
      RunTool({"sim", "workload", "--requests", "20", "--out", folder.File("day.jsonl")}).code ==
      0);
  ran = RunTool({"sim", "replay", folder.File("day.jsonl"), "--cases", "rserve,adaptive@PP5",
                 "--speed", "2", "--slo", "5", "--csv", folder.File("ttft.csv")});
  CAPTURE(ran.out, ran.err);
  CHECK(ran.code == 0);
  CHECK(ran.out.find("20 requests") != std::string::npos);
  CHECK(RunTool({"sim", "replay", folder.File("nowhere.jsonl")}).code != 0);

  ran = RunTool({"sim", "plan", "--devices", "2", "--model", "7b", "--requests-file",
                 folder.File("day.jsonl"), "--slo", "5"});
  CAPTURE(ran.out, ran.err);
  CHECK(ran.code == 0);
  for (const char* part : {"adaptive PP2", "rserve TP1+E1", "busiest worker", "bounds: alone s"}) {
    CHECK(ran.out.find(part) != std::string::npos);
  }
  std::ofstream(folder.File("empty.jsonl")) << "\n";
  ran = RunTool({"sim", "run", "--requests-file", folder.File("empty.jsonl")});
  CHECK(ran.code == 2);
  CHECK(ran.err.find("has no requests") != std::string::npos);
}

TEST_CASE("sim sweeps C and B, and a written configuration is the whole run") {
  const model::TempFolder folder;
  Ran ran = RunTool({"sim", "sweep", "--cases", "rserve,epd@TP1+E1", "--model", "7b", "--rates",
                     "0.5,2", "--encode-batch", "1,all", "--token-budget", "512", "--seeds", "1",
                     "--requests", "20", "--csv", folder.File("sweep.csv")});
  CAPTURE(ran.out, ran.err);
  CHECK(ran.code == 0);
  const std::string rows = Slurp(folder.File("sweep.csv"));
  CHECK(std::count(rows.begin(), rows.end(), '\n') == 1 + 2 * 2 * 2);
  CHECK(rows.find("epd,TP1+E1,all,512,2.000000") != std::string::npos);
  CHECK(RunTool({"sim", "sweep", "--rates", "0"}).code == 2);
  CHECK(RunTool({"sim", "sweep", "--requests-file", "x"}).code == 2);

  const std::vector<std::string> first = {
      "sim",   "run", "--scheme", "adaptive", "--layout",   "PP5", "--feasible-first",
      "--slo", "4",   "--rate",   "2",        "--requests", "60"};
  std::vector<std::string> args = first;
  args.insert(args.end(),
              {"--write-config", folder.File("system.json"), "--csv", folder.File("a.csv")});
  REQUIRE(RunTool(args).code == 0);
  REQUIRE(RunTool({"sim", "run", "--config", folder.File("system.json"), "--rate", "2",
                   "--requests", "60", "--csv", folder.File("b.csv")})
              .code == 0);
  CHECK(Slurp(folder.File("a.csv")) == Slurp(folder.File("b.csv")));
  // Cases keep their schemes.
  ran = RunTool({"sim", "sweep", "--config", folder.File("system.json"), "--cases", "rserve",
                 "--rates", "1", "--seeds", "1", "--requests", "20"});
  CAPTURE(ran.out, ran.err);
  CHECK(ran.code == 0);
  CHECK(ran.out.find("rserve PP4+E1") != std::string::npos);
}

TEST_CASE("bench model measures loading, encoding and prefilling") {
  const model::TempFolder folder;
  for (const char* weights : {"stored", "int8"}) {
    const Ran ran = RunTool({"bench", "model", TinyModel(), "--threads", "1,2", "--images", "56x84",
                             "--prompts", "20", "--chunks", "all,8,20", "--weights", weights,
                             "--repeat", "2", "--json", folder.File("model.json")});
    CAPTURE(ran.out, ran.err);
    REQUIRE(ran.code == 0);
    const json report = ParseFile(folder.File("model.json"));
    CHECK(report["load"]["weight_bytes"].get<int64_t>() > 0);
    CHECK(report["peak_rss_bytes"].get<int64_t>() > 0);
    REQUIRE(report["encode"].size() == 2);
    CHECK(report["encode"][0]["tokens"] == 6);
    REQUIRE(report["prefill"].size() == 4);  // a chunk of 20 is all
    for (const char* part : {"encode", "prefill"}) {
      for (const json& run : report[part]) {
        CHECK(run["seconds"].get<double>() > 0);
        CHECK(run["gflop"].get<double>() > 0);
        CHECK(run["fma_gflops"].get<double>() > 0);
        CHECK(run["repeats"] == 2);
        CHECK(run["alone"]["repeats"].get<int64_t>() <= 2);
      }
    }
  }
}

TEST_CASE("bench kernels measures every kind of kernel beside the machine's limits") {
  const model::TempFolder folder;
  const Ran ran =
      RunTool({"bench", "kernels", "--rows", "1", "--encode-rows", "4", "--ops", "product,rows",
               "--threads", "2", "--repeat", "1", "--json", folder.File("kernels.json")});
  CAPTURE(ran.out, ran.err);
  REQUIRE(ran.code == 0);
  const json report = ParseFile(folder.File("kernels.json"));
  CHECK(report["fma_gflops"].get<double>() > 0);
  CHECK(report["triad_gbytes_per_s"].get<double>() > 0);
  std::set<std::string> ops, weights;
  for (const json& entry : report["cases"]) {
    CHECK(entry["seconds"].get<double>() > 0);
    CHECK(entry["alone"]["repeats"].get<int64_t>() <= entry["repeats"].get<int64_t>());
    ops.insert(entry["op"].get<std::string>());
    if (entry.contains("weights")) weights.insert(entry["weights"].get<std::string>());
  }
  CHECK(ops.size() == 5);
  CHECK(weights == std::set<std::string>{"bf16", "f16", "f32", "int8"});
}

TEST_CASE("bench runs arrivals over time") {
  const Ran ran = RunTool({"bench", TinyModel(), "--requests", "4", "--images", "1", "--image-size",
                           "56x56", "--rate", "200", "--arrivals", "bursty", "--burst", "2",
                           "--schemes", "rserve", "--repeat", "1"});
  CAPTURE(ran.err);
  CHECK(ran.code == 0);
}

TEST_CASE("bench measures the engine alone with a stand-in for the model") {
  const model::TempFolder folder;
  const Ran ran = RunTool({"bench",
                           "-",
                           "--executor",
                           "timed",
                           "--topology",
                           "PP2+E1",
                           "--requests",
                           "3",
                           "--images",
                           "2",
                           "--schemes",
                           "rserve,rserve_intra",
                           "--encode-ms-per-item",
                           "0.1",
                           "--stage-ms-per-chunk",
                           "0.1",
                           "--repeat",
                           "1",
                           "--json",
                           folder.File("bench.json")});
  CAPTURE(ran.out, ran.err);
  REQUIRE(ran.code == 0);
  CheckBenchJson(ParseFile(folder.File("bench.json")), 2);
}

TEST_CASE("make-model gives the same bytes for the same seed, in every type") {
  const model::TempFolder folder;
  const auto make = [&](const char* name, const char* seed, const char* dtype) {
    const Ran ran = RunTool({"make-model", folder.File(name), "--layers", "1", "--hidden", "32",
                             "--vision-layers", "1", "--vision-hidden", "32", "--vocab", "1280",
                             "--seed", seed, "--dtype", dtype});
    CAPTURE(ran.err);
    REQUIRE(ran.code == 0);
    REQUIRE(RunTool({"run", folder.File(name), "--prompt", "x"}).code == 0);
    return Slurp(folder.File(name) + "/model.safetensors");
  };
  const std::string first = make("a", "1", "bf16");
  CHECK(first == make("b", "1", "bf16"));
  CHECK(first != make("c", "2", "bf16"));
  CHECK(make("d", "1", "f16") != first);
  CHECK(make("e", "1", "f32").size() > first.size());
}

TEST_CASE("inspect lists the checkpoint and plans a request from headers alone") {
  const model::TempFolder folder;
  // Only the header of the picture is whole: enough for the plan.
  folder.Write("cut.png", Slurp(Picture("rgb8.png")).substr(0, 60));
  const Ran ran = RunTool({"inspect", TinyModel(), "--tensors", "--image", folder.File("cut.png"),
                           "--prompt", "What is this?"});
  CAPTURE(ran.out, ran.err);
  REQUIRE(ran.code == 0);
  for (const char* text : {"3 layers, hidden 64", "BF16", "model.embed_tokens.weight", "KV cache",
                           "embeddings", "cut.png (PNG)"}) {
    CHECK(ran.out.find(text) != std::string::npos);
  }
}

}  // namespace
}  // namespace rserve::tool
