#include "src/model/spec/tokenizer_loader.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/model/json/json_fields.h"
#include "src/model/spec/byte_level.h"
#include "src/model/spec/nfc.h"

namespace rserve::model {
namespace {

using nlohmann::json;

constexpr int64_t kMaxTokenizerBytes = int64_t{128} << 20;
constexpr int64_t kMaxId = (int64_t{1} << 24) - 1;
constexpr size_t kMaxAddedTokens = 65536;

absl::Status Refuse(const char* what, const json& value) {
  return absl::UnimplementedError(
      absl::StrCat("tokenizer.json: ", what, " ", Describe(value), " is not supported"));
}

// The "type" of a component, or "" when it has none.
std::string TypeOf(const json& component) {
  if (!component.is_object()) return "";
  const auto it = component.find("type");
  return it != component.end() && it->is_string() ? it->get<std::string>() : "";
}

// The field, or null when it is absent. Borrowed from `object`.
const json& Field(const json& object, const char* key) {
  static const json* const null = new json();
  const auto it = object.is_object() ? object.find(key) : object.end();
  return !object.is_object() || it == object.end() ? *null : *it;
}

bool IsTrue(const json& value) { return value.is_boolean() && value.get<bool>(); }

absl::Status LoadNormalizer(const json& normalizer, TokenizerParts* parts) {
  if (normalizer.is_null()) return absl::OkStatus();
  if (TypeOf(normalizer) == "NFC") {
    parts->nfc = true;
    return absl::OkStatus();
  }
  if (TypeOf(normalizer) == "Sequence") {
    const json& steps = Field(normalizer, "normalizers");
    if (steps.is_array() && steps.empty()) return absl::OkStatus();
    if (steps.is_array() && steps.size() == 1 && TypeOf(steps[0]) == "NFC") {
      parts->nfc = true;
      return absl::OkStatus();
    }
  }
  return Refuse("normalizer", normalizer);
}

// ByteLevel, alone or after one Split.
absl::Status LoadPreTokenizer(const json& pre_tokenizer, TokenizerParts* parts) {
  std::vector<const json*> steps;
  if (TypeOf(pre_tokenizer) == "Sequence") {
    for (const json& step : Field(pre_tokenizer, "pretokenizers")) steps.push_back(&step);
  } else {
    steps.push_back(&pre_tokenizer);
  }
  if (steps.empty() || steps.size() > 2 || TypeOf(*steps.back()) != "ByteLevel") {
    return Refuse("pre_tokenizer", pre_tokenizer);
  }
  const json& byte_level = *steps.back();
  if (IsTrue(Field(byte_level, "add_prefix_space"))) {
    return Refuse("pre_tokenizer with add_prefix_space", byte_level);
  }
  // Absent means true, as in the reference.
  const json& use_regex = Field(byte_level, "use_regex");
  const bool own_regex = use_regex.is_null() || IsTrue(use_regex);
  std::string pattern = own_regex ? kGpt2Pattern : "";
  if (steps.size() == 2) {
    const json& split = *steps.front();
    const json& regex = Field(Field(split, "pattern"), "Regex");
    if (TypeOf(split) != "Split" || own_regex || Field(split, "behavior") != "Isolated" ||
        IsTrue(Field(split, "invert")) || !regex.is_string()) {
      return Refuse("pre_tokenizer", pre_tokenizer);
    }
    pattern = regex.get<std::string>();
  }
  if (pattern.empty()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<PreTokenizer>> compiled = PreTokenizer::Compile(pattern);
  if (!compiled.ok()) return compiled.status();
  parts->pre_tokenizer = *std::move(compiled);
  return absl::OkStatus();
}

// A post-processor may only leave the ids as they are.
absl::Status CheckPostProcessor(const json& post) {
  if (post.is_null() || TypeOf(post) == "ByteLevel") return absl::OkStatus();
  if (TypeOf(post) == "Sequence") {
    for (const json& step : Field(post, "processors")) {
      if (absl::Status status = CheckPostProcessor(step); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  const json& single = Field(post, "single");
  const bool plain = TypeOf(post) == "TemplateProcessing" && single.is_array() &&
                     single.size() == 1 && single[0].is_object() && single[0].contains("Sequence");
  return plain ? absl::OkStatus() : Refuse("post_processor", post);
}

absl::Status LoadVocab(const json& vocab, Bpe* bpe) {
  if (!vocab.is_object()) {
    return absl::InvalidArgumentError("tokenizer.json: model.vocab is not an object");
  }
  for (const auto& [token, id] : vocab.items()) {
    if (!id.is_number_integer() || id < 0 || id > kMaxId) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer.json: model.vocab: id ", Describe(id), ": want 0 to ", kMaxId));
    }
    // An entry that is not in the byte alphabet stands for its own text, and no merge makes it.
    std::optional<std::string> bytes = ByteLevelDecode(token);
    const bool mergeable = bytes.has_value();
    absl::Status status =
        bpe->AddToken(mergeable ? *std::move(bytes) : token, id.get<int32_t>(), mergeable);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// "a b" or ["a", "b"].
bool MergePair(const json& merge, std::string* left, std::string* right) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    *left = merge[0].get<std::string>();
    *right = merge[1].get<std::string>();
    return true;
  }
  if (!merge.is_string()) return false;
  const std::string& text = merge.get_ref<const std::string&>();
  const size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) return false;
  *left = text.substr(0, space);
  *right = text.substr(space + 1);
  return true;
}

absl::Status LoadBpe(const json& model, Bpe* bpe) {
  const std::string type = TypeOf(model);
  // Files of old versions leave the type out.
  if (!model.is_object() || (!type.empty() && type != "BPE")) {
    return absl::UnimplementedError(
        absl::StrCat("tokenizer.json: model \"", type, "\" is not supported, only BPE"));
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!Field(model, key).is_null() && Field(model, key) != "") return Refuse(key, model[key]);
  }
  const json& dropout = Field(model, "dropout");
  if (!dropout.is_null() && dropout != 0.0) return Refuse("model.dropout", dropout);
  if (IsTrue(Field(model, "byte_fallback")))
    return Refuse("model.byte_fallback", model["byte_fallback"]);
  bpe->set_ignore_merges(IsTrue(Field(model, "ignore_merges")));
  if (absl::Status status = LoadVocab(Field(model, "vocab"), bpe); !status.ok()) return status;

  const json& merges = Field(model, "merges");
  if (!merges.is_array()) {
    return absl::InvalidArgumentError("tokenizer.json: model.merges is not a list");
  }
  std::string left, right;
  for (size_t i = 0; i < merges.size(); ++i) {
    std::optional<std::string> left_bytes, right_bytes;
    if (MergePair(merges[i], &left, &right)) {
      left_bytes = ByteLevelDecode(left);
      right_bytes = ByteLevelDecode(right);
    }
    if (!left_bytes.has_value() || !right_bytes.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("tokenizer.json: model.merges[", i, "] is ",
                                                     Describe(merges[i]),
                                                     ": want two byte-level tokens"));
    }
    absl::Status status = bpe->AddMerge(*left_bytes, *right_bytes);
    if (!status.ok()) return status;
  }
  return bpe->Finish();
}

absl::Status LoadAddedToken(const json& object, TokenizerParts* parts) {
  FieldReader in(object, "added_tokens");
  AddedToken token;
  bool normalized = false, single_word = false, lstrip = false, rstrip = false;
  in.String("content", &token.content, Presence::kRequired);
  in.Int("id", 0, kMaxId, &token.id, Presence::kRequired);
  in.Bool("special", &token.special);
  in.Bool("normalized", &normalized);
  in.Bool("single_word", &single_word);
  in.Bool("lstrip", &lstrip);
  in.Bool("rstrip", &rstrip);
  if (!in.ok()) return in.status();
  if (single_word || lstrip || rstrip) {
    return Refuse("added token with single_word, lstrip or rstrip", object);
  }
  if (token.content.empty() || token.content.size() > AddedTokenSet::kMaxTokenBytes) {
    in.Fail("content", absl::StrCat("want 1 to ", AddedTokenSet::kMaxTokenBytes, " bytes"));
    return in.status();
  }
  const std::string* taken = parts->bpe.Bytes(token.id);
  const std::string entry = ByteLevelDecode(token.content).value_or(token.content);
  const int32_t* other = parts->bpe.Find(entry);
  if ((taken != nullptr && *taken != entry) || (other != nullptr && *other != token.id) ||
      parts->added.contains(token.id) || parts->added_ids.contains(token.content)) {
    in.Fail("id", absl::StrCat("the vocabulary has another token of this id or content (\"",
                               token.content, "\")"));
    return in.status();
  }
  parts->max_id = std::max(parts->max_id, token.id);
  parts->added.emplace(token.id, token);
  parts->added_ids.emplace(token.content, token.id);
  if (normalized) {
    if (parts->nfc) token.content = NormalizeNfc(token.content);
    parts->normalized_tokens.Add(token);
  } else {
    parts->raw_tokens.Add(token);
  }
  return absl::OkStatus();
}

absl::Status LoadAddedTokens(const json& list, TokenizerParts* parts) {
  if (list.is_null()) return absl::OkStatus();
  if (!list.is_array() || list.size() > kMaxAddedTokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tokenizer.json: added_tokens is no list of at most ", kMaxAddedTokens, " tokens"));
  }
  for (const json& object : list) {
    if (absl::Status status = LoadAddedToken(object, parts); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerParts> LoadTokenizer(std::string_view json_text) {
  absl::StatusOr<json> parsed = ParseJson(json_text, "tokenizer.json", kMaxTokenizerBytes);
  if (!parsed.ok()) return parsed.status();
  const json& top = *parsed;
  if (!top.is_object()) return absl::InvalidArgumentError("tokenizer.json is not an object");
  for (const char* key : {"truncation", "padding"}) {
    if (!Field(top, key).is_null()) return Refuse(key, top[key]);
  }
  if (TypeOf(Field(top, "decoder")) != "ByteLevel") return Refuse("decoder", Field(top, "decoder"));
  TokenizerParts parts;
  absl::Status status = LoadNormalizer(Field(top, "normalizer"), &parts);
  if (status.ok()) status = LoadPreTokenizer(Field(top, "pre_tokenizer"), &parts);
  if (status.ok()) status = CheckPostProcessor(Field(top, "post_processor"));
  if (status.ok()) status = LoadBpe(Field(top, "model"), &parts.bpe);
  if (status.ok()) parts.max_id = parts.bpe.max_id();
  if (status.ok()) status = LoadAddedTokens(Field(top, "added_tokens"), &parts);
  if (!status.ok()) return status;
  return parts;
}

}  // namespace rserve::model
