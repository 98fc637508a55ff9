// The evaluation's prompts, and what a run over them gave.

#ifndef RSERVE_TOOLS_RSERVE_EVAL_SET_H_
#define RSERVE_TOOLS_RSERVE_EVAL_SET_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace rserve::tool {

// One line of a prompts file:
//   {"id": "0001", "kind": "digit", "pictures": ["pictures/0001.png"], "question": "...",
//    "answer": "7", "reference_answer": "7"}
struct EvalPrompt {
  std::string id;
  std::string kind;
  std::vector<std::string> pictures;  // paths, the file's folder put before relative ones
  std::string question;
  std::string answer;
  std::string reference_answer;  // what the reference implementation says; may be empty
};

// Reads a prompts file. Errors name the file, the line and the field.
absl::StatusOr<std::vector<EvalPrompt>> ReadEvalPrompts(const std::string& path);

// What the engine said to one prompt.
struct EvalAnswer {
  std::string text;
  int32_t token = -1;
  uint64_t logits_hash = 0;
};

struct Score {
  int64_t correct = 0;
  int64_t total = 0;
  int64_t as_reference = 0;  // answers that equal the reference's, of those that have one
  int64_t with_reference = 0;
  double accuracy() const { return total == 0 ? 0 : static_cast<double>(correct) / total; }
};

struct EvalScores {
  Score all;
  std::map<std::string, Score> by_kind;
  std::map<int64_t, Score> by_pictures;
};

// Answers are compared without white space at their ends.
EvalScores ScoreAnswers(absl::Span<const EvalPrompt> prompts, absl::Span<const EvalAnswer> answers);

struct EvalDifference {
  int64_t answers = 0;  // prompts with another token
  int64_t logits = 0;   // prompts with other bits in the logits
};
EvalDifference CompareAnswers(absl::Span<const EvalAnswer> a, absl::Span<const EvalAnswer> b);

// A 64-bit FNV-1a hash of the values' bytes.
uint64_t HashFloats(absl::Span<const float> values);

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_EVAL_SET_H_
