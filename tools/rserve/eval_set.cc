#include "tools/rserve/eval_set.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tools/rserve/files.h"

namespace rserve::tool {
namespace {

using nlohmann::json;

absl::Status ReadField(const json& line, const char* name, bool required, std::string* out) {
  const auto it = line.find(name);
  if (it == line.end() || it->is_null()) {
    return required ? absl::InvalidArgumentError(absl::StrCat("\"", name, "\" is missing"))
                    : absl::OkStatus();
  }
  if (it->is_number_integer()) {
    *out = it->dump();
    return absl::OkStatus();
  }
  if (!it->is_string()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" is not a string"));
  }
  *out = it->get<std::string>();
  return absl::OkStatus();
}

absl::Status ReadPrompt(absl::string_view text, const std::string& folder, EvalPrompt* prompt) {
  const json line = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!line.is_object()) return absl::InvalidArgumentError("not a JSON object");
  absl::Status status;
  status.Update(ReadField(line, "id", false, &prompt->id));
  status.Update(ReadField(line, "kind", false, &prompt->kind));
  status.Update(ReadField(line, "question", true, &prompt->question));
  status.Update(ReadField(line, "answer", true, &prompt->answer));
  status.Update(ReadField(line, "reference_answer", false, &prompt->reference_answer));
  if (!status.ok()) return status;
  const auto pictures = line.find("pictures");
  if (pictures == line.end() || !pictures->is_array()) {
    return absl::InvalidArgumentError("\"pictures\" is not an array");
  }
  for (const json& picture : *pictures) {
    if (!picture.is_string()) {
      return absl::InvalidArgumentError("\"pictures\" holds something other than a path");
    }
    const auto path = picture.get<std::string>();
    prompt->pictures.push_back(absl::StartsWith(path, "/") ? path : absl::StrCat(folder, path));
  }
  return absl::OkStatus();
}

void Count(const EvalPrompt& prompt, absl::string_view said, Score* score) {
  ++score->total;
  score->correct += said == absl::StripAsciiWhitespace(prompt.answer) ? 1 : 0;
  if (prompt.reference_answer.empty()) return;
  ++score->with_reference;
  score->as_reference += said == absl::StripAsciiWhitespace(prompt.reference_answer) ? 1 : 0;
}

}  // namespace

absl::StatusOr<std::vector<EvalPrompt>> ReadEvalPrompts(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  if (!text.ok()) return text.status();
  std::vector<EvalPrompt> prompts;
  int64_t number = 0;
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    ++number;
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    EvalPrompt prompt;
    if (absl::Status status = ReadPrompt(line, FolderOf(path), &prompt); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ", line ", number, ": ", status.message()));
    }
    if (prompt.id.empty()) prompt.id = absl::StrCat("line ", number);
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": no prompts"));
  return prompts;
}

EvalScores ScoreAnswers(absl::Span<const EvalPrompt> prompts,
                        absl::Span<const EvalAnswer> answers) {
  EvalScores scores;
  for (size_t i = 0; i < std::min(prompts.size(), answers.size()); ++i) {
    const absl::string_view said = absl::StripAsciiWhitespace(answers[i].text);
    Count(prompts[i], said, &scores.all);
    Count(prompts[i], said, &scores.by_kind[prompts[i].kind]);
    Count(prompts[i], said, &scores.by_pictures[static_cast<int64_t>(prompts[i].pictures.size())]);
  }
  return scores;
}

EvalDifference CompareAnswers(absl::Span<const EvalAnswer> a, absl::Span<const EvalAnswer> b) {
  EvalDifference difference;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference.answers += a[i].token != b[i].token ? 1 : 0;
    difference.logits += a[i].logits_hash != b[i].logits_hash ? 1 : 0;
  }
  return difference;
}

uint64_t HashFloats(absl::Span<const float> values) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const float value : values) {
    unsigned char bytes[sizeof(float)];
    std::memcpy(bytes, &value, sizeof(bytes));
    for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3u;
  }
  return hash;
}

}  // namespace rserve::tool
