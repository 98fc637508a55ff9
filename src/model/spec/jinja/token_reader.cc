#include "src/model/spec/jinja/token_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rserve::model::jinja {
namespace {

constexpr int kMaxDepth = 200;

}  // namespace

TokenReader::Depth::Depth(TokenReader* reader) : reader_(reader) {
  if (++reader_->depth_ > kMaxDepth) {
    reader_->Fail(
        Unsupported(reader_->Peek().line, absl::StrCat("nesting deeper than ", kMaxDepth)));
  }
}

TokenReader::TokenReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

const Token& TokenReader::Peek(size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

void TokenReader::Next() {
  if (at_ + 1 < tokens_.size()) ++at_;
}

bool TokenReader::AtOperator(std::string_view text) const {
  return Peek().kind == TokenKind::kOperator && Peek().text == text;
}

bool TokenReader::AtName(std::string_view text) const {
  return Peek().kind == TokenKind::kName && Peek().text == text;
}

bool TokenReader::TakeOperator(std::string_view text) {
  const bool there = ok() && AtOperator(text);
  if (there) Next();
  return there;
}

bool TokenReader::TakeName(std::string_view text) {
  const bool there = ok() && AtName(text);
  if (there) Next();
  return there;
}

void TokenReader::ExpectOperator(std::string_view text) {
  if (!TakeOperator(text)) Wanted(absl::StrCat("'", std::string(text), "'"));
}

std::string TokenReader::ExpectName() {
  if (!ok() || Peek().kind != TokenKind::kName) {
    Wanted("a name");
    return "";
  }
  std::string name = Peek().text;
  Next();
  return name;
}

void TokenReader::Expect(TokenKind kind, std::string_view what) {
  if (ok() && Peek().kind == kind) {
    Next();
  } else {
    Wanted(what);
  }
}

void TokenReader::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void TokenReader::Wanted(std::string_view what) {
  const Token& token = Peek();
  const bool end = token.kind == TokenKind::kEnd;
  Fail(SyntaxError(
      token.line,
      absl::StrCat("want ", std::string(what), ", found ",
                   end                  ? "the end"
                   : token.text.empty() ? std::string("the end of the tag")
                                        : absl::StrCat("'", token.text.substr(0, 40), "'"))));
}

}  // namespace rserve::model::jinja
