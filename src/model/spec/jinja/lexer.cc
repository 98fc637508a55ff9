#include "src/model/spec/jinja/lexer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/model/spec/jinja/text.h"
#include "src/model/spec/utf8.h"

namespace rserve::model::jinja {
namespace {

constexpr size_t kMaxTokens = size_t{1} << 20;

bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// A string_view that absl::StrCat takes, whichever string_view Abseil was built with.
absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) {
    // Any line end is one "\n", and the last one is not the text's.
    source_.reserve(source.size());
    for (size_t i = 0; i < source.size(); ++i) {
      if (source[i] != '\r') {
        source_ += source[i];
      } else {
        source_ += '\n';
        if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      }
    }
    if (!source_.empty() && source_.back() == '\n') source_.pop_back();
  }

  absl::StatusOr<std::vector<Token>> Run() {
    while (at_ < source_.size()) {
      if (absl::Status status = ReadData(); !status.ok()) return status;
      if (tokens_.size() > kMaxTokens) {
        return SyntaxError(line_, absl::StrCat("more than ", kMaxTokens, " tokens"));
      }
    }
    Push(TokenKind::kEnd);
    return std::move(tokens_);
  }

 private:
  Token& Push(TokenKind kind, std::string text = "") {
    Token& token = tokens_.emplace_back();
    token.kind = kind;
    token.text = std::move(text);
    token.line = line_;
    return token;
  }

  void Advance(size_t count) {
    const auto begin = source_.begin() + static_cast<std::ptrdiff_t>(at_);
    line_ += static_cast<int>(std::count(begin, begin + static_cast<std::ptrdiff_t>(count), '\n'));
    at_ += count;
  }

  bool Has(std::string_view text) const { return source_.compare(at_, text.size(), text) == 0; }

  // From here to the next tag, and the tag.
  absl::Status ReadData() {
    size_t tag = at_;
    const std::string_view source = source_;
    while (true) {
      tag = source.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= source.size()) {
        tag = source.size();
        break;
      }
      const char next = source[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
      ++tag;
    }
    std::string_view data = source.substr(at_, tag - at_);
    if (tag == source.size()) {
      PushData(data);
      Advance(data.size());
      return absl::OkStatus();
    }
    const char kind = source[tag + 1];
    const char sign = tag + 2 < source.size() ? source[tag + 2] : ' ';
    if (sign == '-') {
      data = data.substr(0, Strip(data, nullptr, false, true).end);
    } else if (sign != '+' && kind != '{') {
      // White space between the line's begin and the tag is not text.
      const size_t newline = data.rfind('\n');
      const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
      const bool line_start = newline != std::string_view::npos || line_starting_;
      const Range rest = Strip(data.substr(begin), nullptr, true, false);
      if (line_start && rest.begin == rest.end) data = data.substr(0, begin);
    }
    PushData(data);
    Advance(tag - at_ + (sign == '-' || sign == '+' ? 3 : 2));
    if (kind == '#') return SkipComment();
    return ReadTag(kind == '%');
  }

  void PushData(std::string_view data) {
    if (!data.empty()) Push(TokenKind::kData, std::string(data));
  }

  absl::Status SkipComment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) return SyntaxError(line_, "a comment {# without #}");
    const char sign = end > at_ ? source_[end - 1] : ' ';
    Advance(end + 2 - at_);
    AfterTag(sign, true);
    return absl::OkStatus();
  }

  // What the end of a tag takes away of the text behind it.
  void AfterTag(char sign, bool trim_newline) {
    line_starting_ = false;
    if (sign == '-') {
      const size_t count = Strip(std::string_view(source_).substr(at_), nullptr, true, false).begin;
      line_starting_ = count > 0 && source_[at_ + count - 1] == '\n';
      Advance(count);
    } else if (sign != '+' && trim_newline && Has("\n")) {
      line_starting_ = true;
      Advance(1);
    }
  }

  absl::Status ReadTag(bool block) {
    const int begin_line = line_;
    Push(block ? TokenKind::kBlockBegin : TokenKind::kVariableBegin);
    const std::string_view end = block ? "%}" : "}}";
    std::string open;  // brackets that are not closed
    while (at_ < source_.size()) {
      const char c = source_[at_];
      if (IsSpace(source_, at_, 1)) {
        Advance(1);
        continue;
      }
      const bool signed_end =
          (c == '-' || (c == '+' && block)) && source_.compare(at_ + 1, 2, end) == 0;
      if (open.empty() && (signed_end || Has(end))) {
        Push(block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd);
        Advance(signed_end ? 3 : 2);
        AfterTag(signed_end ? c : ' ', block);
        return absl::OkStatus();
      }
      if (absl::Status status = ReadToken(&open); !status.ok()) return status;
    }
    return SyntaxError(begin_line, absl::StrCat("a tag without ", View(end)));
  }

  absl::Status ReadToken(std::string* open) {
    const char c = source_[at_];
    if (IsNameStart(c)) {
      size_t end = at_;
      while (end < source_.size() && (IsNameStart(source_[end]) || IsDigit(source_[end]))) ++end;
      Push(TokenKind::kName, source_.substr(at_, end - at_));
      Advance(end - at_);
      return absl::OkStatus();
    }
    if (IsDigit(c)) return ReadNumber();
    if (c == '"' || c == '\'') return ReadString(c);
    constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
    for (const std::string_view two : kTwo) {
      if (!Has(two)) continue;
      Push(TokenKind::kOperator, std::string(two));
      Advance(2);
      return absl::OkStatus();
    }
    if (std::string_view("+-*/%~[](){}<>=.:|,").find(c) == std::string_view::npos) {
      return SyntaxError(
          line_, absl::StrCat("the character ", static_cast<int>(static_cast<unsigned char>(c)),
                              " in a tag"));
    }
    constexpr std::string_view kOpen = "([{", kClose = ")]}";
    if (kOpen.find(c) != std::string_view::npos) open->push_back(c);
    if (const size_t which = kClose.find(c); which != std::string_view::npos) {
      if (open->empty() || open->back() != kOpen[which]) {
        return SyntaxError(line_, absl::StrCat("'", std::string(1, c), "' closes nothing"));
      }
      open->pop_back();
    }
    Push(TokenKind::kOperator, std::string(1, c));
    Advance(1);
    return absl::OkStatus();
  }

  absl::Status ReadNumber() {
    size_t end = at_;
    bool real = false;
    while (end < source_.size() && IsDigit(source_[end])) ++end;
    if (end + 1 < source_.size() && source_[end] == '.' && IsDigit(source_[end + 1])) {
      real = true;
      ++end;
      while (end < source_.size() && IsDigit(source_[end])) ++end;
    }
    if (end < source_.size() && (IsNameStart(source_[end]))) {
      return Unsupported(line_, "a number with letters in it");
    }
    const std::string digits = source_.substr(at_, end - at_);
    Token& token = Push(real ? TokenKind::kFloat : TokenKind::kInteger, digits);
    const bool ok =
        real ? absl::SimpleAtod(digits, &token.number) : absl::SimpleAtoi(digits, &token.integer);
    if (!ok) return Unsupported(line_, absl::StrCat("the number ", digits));
    Advance(end - at_);
    return absl::OkStatus();
  }

  absl::Status ReadString(char quote) {
    const int begin_line = line_;
    std::string value;
    size_t at = at_ + 1;
    for (; at < source_.size() && source_[at] != quote; ++at) {
      if (source_[at] != '\\') {
        value += source_[at];
        continue;
      }
      if (++at == source_.size()) break;
      constexpr std::string_view kEscapes = "nrtabfv0\\'\"\n";
      constexpr std::string_view kMeant("\n\r\t\a\b\f\v\0\\'\"", 11);
      const size_t which = kEscapes.find(source_[at]);
      const bool octal = source_[at] == '0' && at + 1 < source_.size() && IsDigit(source_[at + 1]);
      if (source_[at] == 'u' || source_[at] == 'x') {
        const size_t digits = source_[at] == 'u' ? 4 : 2;
        uint32_t code = 0;
        const std::string hex = source_.substr(at + 1, digits);
        if (hex.size() != digits || !absl::SimpleHexAtoi(hex, &code) ||
            (code >= 0xd800 && code < 0xe000)) {
          return Unsupported(line_, absl::StrCat("the escape \\", source_.substr(at, digits + 1)));
        }
        AppendUtf8(static_cast<char32_t>(code), &value);
        at += digits;
      } else if (which == std::string_view::npos || octal) {
        return Unsupported(line_, absl::StrCat("the escape \\", source_.substr(at, 1)));
      } else if (which < kMeant.size()) {
        value += kMeant[which];
      }  // an escaped line end is nothing
    }
    if (at >= source_.size()) return SyntaxError(begin_line, "a string without its end");
    Push(TokenKind::kString, std::move(value));
    Advance(at + 1 - at_);
    return absl::OkStatus();
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // nothing stands before `at_` in its line but what a tag took away
  std::vector<Token> tokens_;
};

}  // namespace

absl::Status SyntaxError(int line, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("chat template line ", line, ": ", View(what)));
}

absl::Status Unsupported(int line, std::string_view what) {
  return absl::UnimplementedError(
      absl::StrCat("chat template line ", line, ": ", View(what), " is not supported"));
}

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source) {
  if (const size_t bad = FirstInvalidUtf8(source); bad != source.size()) {
    return absl::InvalidArgumentError(absl::StrCat("chat template: no UTF-8 at byte ", bad));
  }
  return Lexer(source).Run();
}

}  // namespace rserve::model::jinja
