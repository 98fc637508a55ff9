// The place in a template's tokens that the parsers of statements and of expressions share, with
// what they know in common: the first fault, and how deep they are.
//
// The first fault sticks. From then on the Take and Expect functions take nothing, so a parser that
// asks ok() before each Next() and in each loop comes to its end at once, whatever it was about to
// read; what it made until then is of no use.

#ifndef RSERVE_SRC_MODEL_SPEC_JINJA_TOKEN_READER_H_
#define RSERVE_SRC_MODEL_SPEC_JINJA_TOKEN_READER_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "src/model/spec/jinja/lexer.h"

namespace rserve::model::jinja {

class TokenReader {
 public:
  // Counts blocks and expressions in each other, together: one for as long as it lives. At the
  // limit the reader fails with UNIMPLEMENTED, which ends a recursion before the stack does.
  class Depth {
   public:
    explicit Depth(TokenReader* reader);
    ~Depth() { --reader_->depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    TokenReader* const reader_;
  };

  // `tokens` as Tokenize returns them: the last one is a kEnd.
  explicit TokenReader(std::vector<Token> tokens);
  TokenReader(const TokenReader&) = delete;
  TokenReader& operator=(const TokenReader&) = delete;

  // The token `ahead` of this place; behind the last one, the last one.
  const Token& Peek(size_t ahead = 0) const;
  // Stays at the last token.
  void Next();

  // Whether this place has that operator or name; faults are not asked for.
  bool AtOperator(std::string_view text) const;
  bool AtName(std::string_view text) const;
  // Goes on and returns true if it has.
  bool TakeOperator(std::string_view text);
  bool TakeName(std::string_view text);

  // Goes on if this place has it and fails as Wanted does otherwise.
  void ExpectOperator(std::string_view text);
  // "" after a fault.
  std::string ExpectName();
  // `what` is the kind in a message's words.
  void Expect(TokenKind kind, std::string_view what);

  bool ok() const { return status_.ok(); }
  // The first fault, or OK.
  const absl::Status& status() const { return status_; }
  // Keeps `status` if it is the first fault.
  void Fail(absl::Status status);
  // Fails with INVALID_ARGUMENT: "want `what`, found ...", with this place's line.
  void Wanted(std::string_view what);

 private:
  const std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  absl::Status status_;
};

}  // namespace rserve::model::jinja

#endif  // RSERVE_SRC_MODEL_SPEC_JINJA_TOKEN_READER_H_
