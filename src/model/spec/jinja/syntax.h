// What a template's tokens mean: statements and the expressions in them.

#ifndef RSERVE_SRC_MODEL_SPEC_JINJA_SYNTAX_H_
#define RSERVE_SRC_MODEL_SPEC_JINJA_SYNTAX_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/model/spec/jinja/value.h"

namespace rserve::model::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

enum class ExpressionKind {
  kLiteral,      // value
  kName,         // name
  kList,         // children; a tuple too
  kDict,         // children: key, value, key, value, ...
  kAttribute,    // children[0].name
  kItem,         // children[0][children[1]]
  kSlice,        // children[0][children[1]:children[2]:children[3]]; null where none is given
  kCall,         // name(children...), keywords
  kMethod,       // children[0].name(children[1...])
  kFilter,       // children[0] | name(children[1...])
  kTest,         // children[0] is name(children[1...]); negated: is not
  kUnary,        // name: "-", "+", "not"
  kBinary,       // name: an operator, "and", "or", "in", "not in"
  kConditional,  // children[1] if children[0] else children[2], which may be null
};

struct Expression {
  ExpressionKind kind = ExpressionKind::kLiteral;
  int line = 1;
  std::string name;
  Value value;
  bool negated = false;
  int depth = 1;  // of the tree; bounded
  std::vector<ExpressionPtr> children;
  // Of calls and filters: the names of the last arguments, one each.
  std::vector<std::string> keywords;
};

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

enum class StatementKind {
  kText,      // text
  kPrint,     // expressions[0]
  kIf,        // expressions[i] decides for blocks[i]; one block more: else
  kFor,       // targets in expressions[0], if expressions[1] (null: all); blocks: body, else
  kSet,       // targets = expressions[0]; attribute: targets[0].attribute = ...
  kSetBlock,  // targets[0] = the text of blocks[0]
  kMacro,     // name(targets...), defaults of the last ones in expressions; blocks[0]
  kBreak,
  kContinue,
  kGroup,  // blocks[0]: what {% generation %} marks
};

struct Statement {
  StatementKind kind = StatementKind::kText;
  int line = 1;
  Text text;
  std::string name;
  std::string attribute;
  std::vector<std::string> targets;
  std::vector<ExpressionPtr> expressions;
  std::vector<Block> blocks;
};

// Parses a whole template. INVALID_ARGUMENT for what is no template, UNIMPLEMENTED for what Jinja
// has and this renderer does not (statements, filters, tests and methods by name), with the line.
absl::StatusOr<Block> Parse(std::string_view source);

}  // namespace rserve::model::jinja

#endif  // RSERVE_SRC_MODEL_SPEC_JINJA_SYNTAX_H_
