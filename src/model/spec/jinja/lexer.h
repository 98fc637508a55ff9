// A template's source to tokens, as Jinja2 cuts it with trim_blocks and lstrip_blocks on.

#ifndef RSERVE_SRC_MODEL_SPEC_JINJA_LEXER_H_
#define RSERVE_SRC_MODEL_SPEC_JINJA_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rserve::model::jinja {

enum class TokenKind {
  kData,           // text between tags
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // data, a name, a string's value, an operator
  int64_t integer = 0;
  double number = 0;
  int line = 1;
};

// Ends with a kEnd token. INVALID_ARGUMENT or, for what Jinja has and this does not,
// UNIMPLEMENTED, with the line.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

// "chat template line 3: ..."
absl::Status SyntaxError(int line, std::string_view what);
absl::Status Unsupported(int line, std::string_view what);

}  // namespace rserve::model::jinja

#endif  // RSERVE_SRC_MODEL_SPEC_JINJA_LEXER_H_
