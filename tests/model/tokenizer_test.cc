#include "src/model/spec/tokenizer.h"

#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/spec/nfc.h"
#include "src/model/spec/pre_tokenizer.h"
#include "src/model/spec/qwen_split.h"
#include "src/model/spec/utf8.h"
#include "tests/model/golden.h"

namespace rserve::model {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

std::unique_ptr<Tokenizer> Load(const std::string& name) {
  auto tokenizer = Tokenizer::FromJson(ReadGolden(name));
  INFO(tokenizer.status().ToString());
  REQUIRE(tokenizer.ok());
  return *std::move(tokenizer);
}

// FNV-1a, as make_tokenizer_golden.py computes it.
class Fnv {
 public:
  void Add(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001B3u; }
  std::string Hex() const {
    char text[17];
    std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value_));
    return text;
  }

 private:
  uint64_t value_ = 0xCBF29CE484222325u;
};

// Of the ids as little-endian words.
std::string Checksum(const Ids& ids) {
  Fnv sum;
  for (const int32_t id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      sum.Add(static_cast<uint8_t>(static_cast<uint32_t>(id) >> shift));
    }
  }
  return sum.Hex();
}

void CheckEncodings(const Tokenizer& tokenizer, const json& cases) {
  for (const json& entry : cases) {
    if (entry.contains("text")) {
      const std::string text = entry["text"];
      CAPTURE(text);
      const auto written = tokenizer.EncodeTemplate(text);
      const auto user = tokenizer.EncodeUserText(text);
      REQUIRE(written.ok());
      REQUIRE(user.ok());
      CHECK(*written == entry["template"].get<Ids>());
      CHECK(*user == entry.value("user", entry["template"]).get<Ids>());
      for (const int32_t id : *user) CHECK_FALSE(tokenizer.IsSpecial(id));
      continue;
    }
    std::string text;
    for (int i = 0; i < entry["count"].get<int>(); ++i) text += entry["unit"];
    CAPTURE(entry["unit"]);
    const auto written = tokenizer.EncodeTemplate(text);
    const auto user = tokenizer.EncodeUserText(text);
    REQUIRE(written.ok());
    REQUIRE(user.ok());
    CHECK(json{written->size(), Checksum(*written)} == entry["template"]);
    CHECK(json{user->size(), Checksum(*user)} == entry["user"]);
  }
}

TEST_CASE("Qwen2-layout encodings equal the reference's") {
  CheckEncodings(*Load("tokenizer.json"), ReadGoldenJson("encodings.json"));
}

TEST_CASE("ByteLevel's own regex, string merges and ignore_merges equal the reference's") {
  CheckEncodings(*Load("gpt2_tokenizer.json"), ReadGoldenJson("gpt2_encodings.json"));
}

TEST_CASE("encodings of the digits model's tokenizer equal the reference's") {
  CheckEncodings(*Load("../../../models/digits/tokenizer.json"),
                 ReadGoldenJson("digits_encodings.json"));
}

TEST_CASE("encodings of the published Qwen2.5 and Qwen3 tokenizers equal the reference's") {
  const json golden = ReadGoldenJson("published.json");
  for (const auto& [name, file] : golden["files"].items()) {
    CAPTURE(name);
    json whole = file;
    whole["model"]["vocab"] = golden["vocab"];
    whole["model"]["merges"] = golden["merges"];
    const auto tokenizer = Tokenizer::FromJson(whole.dump());
    INFO(tokenizer.status().ToString());
    REQUIRE(tokenizer.ok());
    CheckEncodings(**tokenizer, golden["encodings"][name]);
    CHECK((*tokenizer)->TokenId("<|im_start|>") == 151644);
    CHECK((*tokenizer)->TokenId("<|im_end|>") == 151645);
    CHECK((*tokenizer)->TokenId("<|image_pad|>") == 151655);
    CHECK((*tokenizer)->TokenId("<think>").has_value() == (name == "qwen3"));
  }
}

TEST_CASE("NFC equals Python's unicodedata on strings that decompose, reorder and compose") {
  for (const json& entry : ReadGoldenJson("nfc.json")) {
    const std::string text = entry[0];
    CAPTURE(text);
    CHECK(NormalizeNfc(text) == entry[1].get<std::string>());
  }
}

TEST_CASE("NFC of a text is that of its parts between settled characters") {
  for (const std::string between : {" ", "\u4e2d", " .\n"}) {
    std::string text, want;
    for (const json& entry : ReadGoldenJson("nfc.json")) {
      text += entry[0].get<std::string>() + between;
      want += entry[1].get<std::string>() + between;
    }
    CHECK((NormalizeNfc(text) == want));
  }
}

TEST_CASE("a text that has nothing to compose is not copied") {
  for (const std::string_view text :
       {"", "plain", "caf\u00e9 \u4e2d\ud55c", "\u0928\u092e\u0938\u094d\u0924\u0947",
        "\u0628\u064e\u0651", "\u05e9\u05b8\u05c1"}) {
    CAPTURE(text);
    std::string storage;
    CHECK(static_cast<const void*>(NormalizeNfc(text, &storage).data()) == text.data());
  }
}

TEST_CASE("NFC of every character equals Python's unicodedata in every surroundings") {
  const json golden = ReadGoldenJson("nfc_all.json");
  const std::pair<std::string, std::string> surroundings[] = {
      {"", "\u0301"}, {"e", "\u0323\u0301"}, {"\u1100", ""}, {"a\u0327", "\u11a8"}};
  Fnv sum;
  for (size_t i = 1; i < golden.size(); ++i) {
    for (char32_t c = golden[i][0]; c <= golden[i][1].get<char32_t>(); ++c) {
      for (const auto& [before, after] : surroundings) {
        std::string text = before;
        AppendUtf8(c, &text);
        for (const char byte : NormalizeNfc(text + after)) sum.Add(static_cast<uint8_t>(byte));
      }
    }
  }
  CHECK(sum.Hex() == golden[0].get<std::string>());
}

TEST_CASE("decoding gives the encoded bytes back when the text is in NFC") {
  const auto tokenizer = Load("tokenizer.json");
  for (const json& entry : ReadGoldenJson("encodings.json")) {
    if (!entry.contains("text")) continue;
    const std::string text = NormalizeNfc(entry["text"].get<std::string>());
    CAPTURE(text);
    CHECK(tokenizer->Decode(*tokenizer->EncodeUserText(text)) == text);
    CHECK(tokenizer->Decode(*tokenizer->EncodeTemplate(text)) == text);
  }
}

TEST_CASE("special tokens are known, left out on demand, and never come from a user's text") {
  const auto tokenizer = Load("tokenizer.json");
  const auto start = tokenizer->TokenId("<|im_start|>");
  const auto call = tokenizer->TokenId("<tool_call>");
  REQUIRE(start.has_value());
  REQUIRE(call.has_value());
  CHECK(tokenizer->IsSpecial(*start));
  CHECK_FALSE(tokenizer->IsSpecial(*call));
  CHECK_FALSE(tokenizer->IsSpecial(-1));
  CHECK_FALSE(tokenizer->TokenId("no such entry").has_value());
  CHECK(tokenizer->vocab_size() == *tokenizer->TokenId("<|fim_middle|>") + 1);
  CHECK(*tokenizer->EncodeTemplate("<|im_start|>") == Ids{*start});
  const Ids spelled = *tokenizer->EncodeUserText("<|im_start|>");
  CHECK(spelled.size() > 1);
  CHECK(tokenizer->Decode({*start, *call, -1, 1 << 30}, true) == "<tool_call>");
  CHECK(tokenizer->Decode({*start, *call}) == "<|im_start|><tool_call>");
}

TEST_CASE("text that is not UTF-8 is refused with its offset") {
  const auto tokenizer = Load("tokenizer.json");
  const std::pair<std::string, std::string> cases[] = {
      {"\xff", "byte 0"},         {"ab\xc3", "byte 2"},           {"a\xc0\x80", "byte 1"},
      {"\xed\xa0\x80", "byte 0"}, {"\xf4\x90\x80\x80", "byte 0"}, {"x\xe2\x82", "byte 1"},
      {"\xe0\x80\x80", "byte 0"}, {"\xf0\x80\x80\x80", "byte 0"}, {"ok\x80", "byte 2"}};
  for (const auto& [text, where] : cases) {
    const auto ids = tokenizer->EncodeUserText(text);
    REQUIRE(ids.status().code() == absl::StatusCode::kInvalidArgument);
    INFO(ids.status().message());
    CHECK(std::string(ids.status().message()).find(where) != std::string::npos);
    CHECK_FALSE(tokenizer->EncodeTemplate(text).ok());
  }
}

TEST_CASE("a megabyte of one letter, of spaces and of marks is encoded") {
  const auto tokenizer = Load("tokenizer.json");
  for (const char* unit : {"a", " ", "\n", "!", "\xcc\x81", "<"}) {
    std::string text;
    while (text.size() < (1 << 20)) text += unit;
    CAPTURE(unit);
    const auto ids = tokenizer->EncodeUserText(text);
    REQUIRE(ids.ok());
    CHECK(tokenizer->Decode(*ids) == text);
  }
}

TEST_CASE("components that would change an encoding are refused by name") {
  const json base = ReadGoldenJson("tokenizer.json");
  json file = base;
  std::string name;
  SECTION("normalizer") {
    file["normalizer"] = {{"type", "Lowercase"}};
    name = "normalizer";
  }
  SECTION("pre-tokenizer") {
    file["pre_tokenizer"] = {{"type", "Whitespace"}};
    name = "pre_tokenizer";
  }
  SECTION("no pre-tokenizer") {
    file["pre_tokenizer"] = nullptr;
    name = "pre_tokenizer";
  }
  SECTION("split behaviour") {
    file["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed";
    name = "pre_tokenizer";
  }
  SECTION("prefix space") {
    file["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true;
    name = "add_prefix_space";
  }
  SECTION("word class") {
    file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\w+";
    name = "\\w";
  }
  SECTION("model") {
    file["model"]["type"] = "Unigram";
    name = "Unigram";
  }
  SECTION("byte fallback") {
    file["model"]["byte_fallback"] = true;
    name = "byte_fallback";
  }
  SECTION("dropout") {
    file["model"]["dropout"] = 0.1;
    name = "dropout";
  }
  SECTION("suffix") {
    file["model"]["end_of_word_suffix"] = "</w>";
    name = "end_of_word_suffix";
  }
  SECTION("decoder") {
    file["decoder"] = nullptr;
    name = "decoder";
  }
  SECTION("post-processor that adds tokens") {
    file["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single", {{{"SpecialToken", {{"id", "<|endoftext|>"}}}}, {{"Sequence", {{"id", "A"}}}}}}};
    name = "post_processor";
  }
  SECTION("truncation") {
    file["truncation"] = {{"max_length", 5}};
    name = "truncation";
  }
  SECTION("stripping added token") {
    file["added_tokens"][0]["lstrip"] = true;
    name = "lstrip";
  }
  const auto tokenizer = Tokenizer::FromJson(file.dump());
  REQUIRE(tokenizer.status().code() == absl::StatusCode::kUnimplemented);
  INFO(tokenizer.status().message());
  CHECK(std::string(tokenizer.status().message()).find(name) != std::string::npos);
}

TEST_CASE("broken vocabularies are refused") {
  json file = ReadGoldenJson("tokenizer.json");
  SECTION("id given twice") { file["model"]["vocab"]["zz"] = 5; }
  SECTION("negative id") { file["model"]["vocab"]["zz"] = -5; }
  SECTION("huge id") { file["model"]["vocab"]["zz"] = 4000000000; }
  SECTION("a byte is missing") { file["model"]["vocab"].erase("!"); }
  SECTION("merge of unknown tokens") { file["model"]["merges"].push_back({"qqq", "xxx"}); }
  SECTION("merge of three") { file["model"]["merges"].push_back("a b c"); }
  SECTION("merge of no text") { file["model"]["merges"].push_back(5); }
  SECTION("merges of another type") { file["model"]["merges"] = "x"; }
  SECTION("vocab of another type") { file["model"]["vocab"] = json::array(); }
  SECTION("added token of another's id") { file["added_tokens"][0]["id"] = 5; }
  SECTION("added token given twice") { file["added_tokens"].push_back(file["added_tokens"][0]); }
  SECTION("empty added token") { file["added_tokens"][0]["content"] = ""; }
  SECTION("bad pattern") { file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "("; }
  CHECK(Tokenizer::FromJson(file.dump()).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("a tokenizer.json cut or altered anywhere gives a status") {
  const std::string text = ReadGolden("tokenizer.json");
  for (size_t size = 0; size + 2 < text.size(); size += 997) {
    CHECK_FALSE(Tokenizer::FromJson(text.substr(0, size)).ok());
  }
  const json base = json::parse(text);
  const json values[] = {nullptr, 7, "x", json::array({1}), json::object({{"type", "Sequence"}})};
  for (const json& value : values) {
    for (const auto& [key, unused] : base.items()) {
      json file = base;
      file[key] = value;
      (void)Tokenizer::FromJson(file.dump());  // must return, either way
    }
  }
}

TEST_CASE("a pattern that backtracks without end gives up with a status") {
  json file = ReadGoldenJson("tokenizer.json");
  file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(?:a+)+(?:a+)+[bd]";
  const auto tokenizer = Tokenizer::FromJson(file.dump());
  REQUIRE(tokenizer.ok());
  CHECK((*tokenizer)->EncodeUserText(std::string(200, 'a') + "c").status().code() ==
        absl::StatusCode::kResourceExhausted);
}

TEST_CASE("a pattern that looks at the rest of the text for every piece gives up with a status") {
  // Each match reads to the end of the run and then takes one character.
  const auto far = PreTokenizer::Compile("a+b|a|[^a]+");
  REQUIRE(far.ok());
  std::vector<std::string_view> pieces;
  const std::string run(size_t{1} << 20, 'a');
  const absl::Status status = (*far)->Split(run, &pieces);
  INFO(status.ToString());
  CHECK(absl::IsResourceExhausted(status));
  CHECK(status.ToString().find("looks too far ahead") != std::string::npos);
  // In short texts it does what it says.
  pieces.clear();
  REQUIRE((*far)->Split("xxaaaab aa", &pieces).ok());
  CHECK(pieces == std::vector<std::string_view>{"xx", "aaaab", " ", "a", "a"});

  // Published patterns cut off what they look at: the worst texts for them are no trouble.
  const auto gpt2 = PreTokenizer::Compile(kGpt2Pattern);
  REQUIRE(gpt2.ok());
  for (const std::string unit : {" ", "1", "a", "!", "\n", "\u4e2d", " a", "a b1!  "}) {
    std::string text;
    while (text.size() < size_t{1} << 18) text += unit;
    pieces.clear();
    REQUIRE((*gpt2)->Split(text, &pieces).ok());
    size_t bytes = 0;
    for (const std::string_view piece : pieces) bytes += piece.size();
    CHECK(bytes == text.size());
  }
}

TEST_CASE("what a match is shown does not change what it finds") {
  // The same pattern on pieces of every length around the sizes of the windows, against itself on
  // the piece alone.
  const auto gpt2 = PreTokenizer::Compile(kGpt2Pattern);
  REQUIRE(gpt2.ok());
  for (size_t length = 1; length < 140; ++length) {
    const std::string word(length, 'x'), spaces(length, ' ');
    const std::string text = word + spaces + "y" + std::string(length, '7') + spaces;
    std::vector<std::string_view> pieces;
    REQUIRE((*gpt2)->Split(text, &pieces).ok());
    std::vector<std::string_view> want = {word};
    const std::string but_one(length - 1, ' '), digits(length, '7');
    if (length > 1) want.push_back(but_one);
    want.insert(want.end(), {" y", digits, spaces});
    CAPTURE(length);
    CHECK(pieces == want);
  }
}

TEST_CASE("the Qwen patterns cut text without a regex as the regex does") {
  const std::string units[] = {
      "a",      "Z",      "9",       "\u0663",     " ",      "  ",      "\n",     "\r",
      "\t",     "'",      "'S",      "'ll",        "'Re",    "'\u017f", "!",      "?!",
      "_",      "\u00e9", "e\u0301", "\u0301",     "\u4e2d", "\ud55c",  "\u3000", "\u00a0",
      "\u2028", "\u180e", "\u00bd",  "\U0001f600", "\u0e31", "\u200d",  "'v",     "\xc2\x85"};
  INFO("seed 77");
  uint32_t state = 77;
  const auto draw = [&state](uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
  };
  for (const char* pattern : {kQwen2Pattern, kQwen35Pattern}) {
    REQUIRE(IsQwenPattern(pattern).has_value());
    const auto fast = PreTokenizer::Compile(pattern);
    const auto regex = PreTokenizer::Compile("(?:" + std::string(pattern) + ")");
    REQUIRE(fast.ok());
    REQUIRE(regex.ok());
    for (int round = 0; round < 20000; ++round) {
      std::string text;
      for (uint32_t i = draw(12) + 1; i > 0; --i) {
        text += round % 4 == 3 ? units[draw(9)] : units[draw(std::size(units))];
      }
      std::vector<std::string_view> want, got;
      REQUIRE((*regex)->Split(text, &want).ok());
      REQUIRE((*fast)->Split(text, &got).ok());
      CAPTURE(pattern, text);
      REQUIRE(got == want);
    }
    // Every character by itself, before a letter and after a space.
    std::string all;
    for (char32_t c = 1; c < 0x32000; c += c < 0x3000 ? 1 : 7) {
      if (c >= 0xD800 && c < 0xE000) continue;
      AppendUtf8(c, &all);
      all += c % 3 == 0 ? "a" : c % 3 == 1 ? " " : "1";
    }
    std::vector<std::string_view> want, got;
    REQUIRE((*regex)->Split(all, &want).ok());
    REQUIRE((*fast)->Split(all, &got).ok());
    CHECK((got == want));
  }
}

}  // namespace
}  // namespace rserve::model
