#include "tools/rserve/eval_set.h"

#include <limits>
#include <string>

#include "tests/model/temp_folder.h"
#include "tests/support/catch.h"

namespace rserve::tool {
namespace {

TEST_CASE("a prompts file is read with its pictures relative to it") {
  const model::TempFolder folder;
  folder.Write("p.jsonl",
               "{\"id\":\"a\",\"kind\":\"digit\",\"pictures\":[\"1.png\",\"/abs/2.png\"],"
               "\"question\":\"q\",\"answer\":\"7\",\"reference_answer\":\"7\"}\n\n"
               "{\"pictures\":[],\"question\":\"q\",\"answer\":\"red\"}\n");
  const auto prompts = ReadEvalPrompts(folder.File("p.jsonl"));
  REQUIRE(prompts.ok());
  REQUIRE(prompts->size() == 2);
  CHECK(prompts->at(0).pictures == std::vector<std::string>{folder.File("1.png"), "/abs/2.png"});
  CHECK(prompts->at(1).id == "line 3");
  CHECK(prompts->at(1).reference_answer.empty());
}

TEST_CASE("a bad prompts file is refused with its line and field") {
  const model::TempFolder folder;
  const std::string path = folder.File("p.jsonl");
  const auto refusal = [&](const std::string& text) {
    folder.Write("p.jsonl", text);
    const auto prompts = ReadEvalPrompts(path);
    REQUIRE_FALSE(prompts.ok());
    return std::string(prompts.status().message());
  };
  CHECK(refusal("[]\n") == path + ", line 1: not a JSON object");
  CHECK(refusal("{\"a\"\n") == path + ", line 1: not a JSON object");
  CHECK(refusal("{\"question\":\"q\",\"pictures\":[]}\n") ==
        path + ", line 1: \"answer\" is missing");
  CHECK(refusal("{\"question\":[],\"answer\":\"a\",\"pictures\":[]}\n") ==
        path + ", line 1: \"question\" is not a string");
  CHECK(refusal("{\"question\":\"q\",\"answer\":\"a\",\"pictures\":\"x\"}\n") ==
        path + ", line 1: \"pictures\" is not an array");
  CHECK(refusal("\n") == path + ": no prompts");
  CHECK_FALSE(ReadEvalPrompts(folder.File("absent")).ok());
}

TEST_CASE("answers are scored by kind and by number of pictures") {
  std::vector<EvalPrompt> prompts(3);
  prompts[0] = {"1", "digit", {"a"}, "q", "7", "7"};
  prompts[1] = {"2", "digit", {"a", "b"}, "q", "3", "4"};
  prompts[2] = {"3", "colour", {"a"}, "q", "red", ""};
  const std::vector<EvalAnswer> answers = {{" 7", 1, 0}, {"4", 2, 0}, {"red\n", 3, 0}};
  const EvalScores scores = ScoreAnswers(prompts, answers);
  CHECK(scores.all.correct == 2);
  CHECK(scores.all.total == 3);
  CHECK(scores.all.as_reference == 2);
  CHECK(scores.all.with_reference == 2);
  CHECK(scores.by_kind.at("digit").correct == 1);
  CHECK(scores.by_pictures.at(1).correct == 2);
  CHECK(scores.by_pictures.at(2).total == 1);
}

TEST_CASE("runs are compared by token and by the bits of their logits") {
  const std::vector<EvalAnswer> a = {{"x", 1, 10}, {"y", 2, 20}, {"z", 3, 30}};
  const std::vector<EvalAnswer> b = {{"x", 1, 10}, {"y", 2, 21}, {"w", 4, 31}};
  const EvalDifference difference = CompareAnswers(a, b);
  CHECK(difference.answers == 1);
  CHECK(difference.logits == 2);
  const float zero[] = {0.0f}, minus_zero[] = {-0.0f};
  CHECK(HashFloats(zero) != HashFloats(minus_zero));
  CHECK(HashFloats(zero) == HashFloats(zero));
}

}  // namespace
}  // namespace rserve::tool
