#include "src/model/spec/jinja/expression_parser.h"

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/model/spec/jinja/builtins.h"
#include "src/model/spec/jinja/lexer.h"

namespace rserve::model::jinja {
namespace {

constexpr int kMaxTreeDepth = 200;

// From the loosest binding to the tightest.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenReader* tokens) : tokens_(*tokens) {}

  // An expression, or several with commas between them: a list.
  ExpressionPtr ParseTuple() {
    const int line = tokens_.Peek().line;
    ExpressionPtr first = ParseExpression();
    if (!tokens_.ok() || !tokens_.AtOperator(",")) return first;
    ExpressionPtr tuple = Node(ExpressionKind::kList, line);
    tuple->children.push_back(std::move(first));
    while (tokens_.TakeOperator(",")) {
      const TokenKind kind = tokens_.Peek().kind;
      if (tokens_.AtOperator(")") || kind == TokenKind::kBlockEnd ||
          kind == TokenKind::kVariableEnd) {
        break;
      }
      tuple->children.push_back(ParseExpression());
    }
    return Seal(std::move(tuple));
  }

  ExpressionPtr ParseExpression() {
    const TokenReader::Depth depth(&tokens_);
    ExpressionPtr value = tokens_.ok() ? ParseOr() : nullptr;
    while (tokens_.ok() && tokens_.AtName("if")) {
      ExpressionPtr node = Node(ExpressionKind::kConditional, tokens_.Peek().line);
      tokens_.Next();
      node->children.push_back(ParseOr());
      node->children.push_back(std::move(value));
      node->children.push_back(tokens_.TakeName("else") ? ParseExpression() : nullptr);
      value = Seal(std::move(node));
    }
    return value;
  }

  ExpressionPtr ParseOr() {
    ExpressionPtr left = ParseAnd();
    while (tokens_.ok() && tokens_.AtName("or")) {
      const int line = tokens_.Peek().line;
      tokens_.Next();
      left = Binary("or", line, std::move(left), ParseAnd());
    }
    return left;
  }

 private:
  static ExpressionPtr Node(ExpressionKind kind, int line, std::string name = "") {
    auto node = std::make_unique<Expression>();
    node->kind = kind;
    node->line = line;
    node->name = std::move(name);
    return node;
  }

  // Called when a node has all its children.
  ExpressionPtr Seal(ExpressionPtr node) {
    if (node == nullptr) return node;
    for (const ExpressionPtr& child : node->children) {
      if (child != nullptr) node->depth = std::max(node->depth, child->depth + 1);
    }
    if (node->depth > kMaxTreeDepth) {
      tokens_.Fail(
          Unsupported(node->line, absl::StrCat("an expression deeper than ", kMaxTreeDepth)));
    }
    return node;
  }

  ExpressionPtr Binary(std::string name, int line, ExpressionPtr left, ExpressionPtr right) {
    ExpressionPtr node = Node(ExpressionKind::kBinary, line, std::move(name));
    node->children.push_back(std::move(left));
    node->children.push_back(std::move(right));
    return Seal(std::move(node));
  }

  ExpressionPtr ParseAnd() {
    ExpressionPtr left = ParseNot();
    while (tokens_.ok() && tokens_.AtName("and")) {
      const int line = tokens_.Peek().line;
      tokens_.Next();
      left = Binary("and", line, std::move(left), ParseNot());
    }
    return left;
  }

  ExpressionPtr ParseNot() {
    const TokenReader::Depth depth(&tokens_);
    if (!tokens_.ok() || !tokens_.AtName("not")) return tokens_.ok() ? ParseComparison() : nullptr;
    ExpressionPtr node = Node(ExpressionKind::kUnary, tokens_.Peek().line, "not");
    tokens_.Next();
    node->children.push_back(ParseNot());
    return Seal(std::move(node));
  }

  ExpressionPtr ParseComparison() {
    ExpressionPtr left = ParseSum();
    bool compared = false;
    while (tokens_.ok()) {
      const int line = tokens_.Peek().line;
      std::string name;
      if (tokens_.Peek().kind == TokenKind::kOperator) {
        for (const std::string_view one : {"==", "!=", "<=", ">=", "<", ">"}) {
          if (tokens_.Peek().text == one) name = std::string(one);
        }
      } else if (tokens_.AtName("in")) {
        name = "in";
      } else if (tokens_.AtName("not") && tokens_.Peek(1).kind == TokenKind::kName &&
                 tokens_.Peek(1).text == "in") {
        name = "not in";
        tokens_.Next();
      }
      if (name.empty()) break;
      tokens_.Next();
      if (compared) tokens_.Fail(Unsupported(line, "a chain of comparisons"));
      compared = true;
      left = Binary(std::move(name), line, std::move(left), ParseSum());
    }
    return left;
  }

  template <typename Operand>
  ExpressionPtr ParseBinary(std::initializer_list<std::string_view> names, Operand operand) {
    ExpressionPtr left = operand();
    while (tokens_.ok() && tokens_.Peek().kind == TokenKind::kOperator) {
      const int line = tokens_.Peek().line;
      std::string name;
      for (const std::string_view one : names) {
        if (tokens_.Peek().text == one) name = std::string(one);
      }
      if (name.empty()) break;
      tokens_.Next();
      left = Binary(std::move(name), line, std::move(left), operand());
    }
    return left;
  }

  ExpressionPtr ParseSum() {
    return ParseBinary({"+", "-"}, [this] {
      return ParseBinary({"~"}, [this] {
        return ParseBinary({"*", "/", "//", "%"}, [this] {
          ExpressionPtr left = ParseUnary(true);
          if (tokens_.ok() && tokens_.AtOperator("**")) {
            tokens_.Fail(Unsupported(tokens_.Peek().line, "the operator **"));
          }
          return left;
        });
      });
    });
  }

  ExpressionPtr ParseUnary(bool with_filter) {
    const TokenReader::Depth depth(&tokens_);
    if (!tokens_.ok()) return nullptr;
    ExpressionPtr node;
    if (tokens_.AtOperator("-") || tokens_.AtOperator("+")) {
      node = Node(ExpressionKind::kUnary, tokens_.Peek().line, tokens_.Peek().text);
      tokens_.Next();
      node->children.push_back(ParseUnary(false));
      node = Seal(std::move(node));
    } else {
      node = ParsePrimary();
    }
    node = ParsePostfix(std::move(node));
    while (with_filter && tokens_.ok()) {
      if (tokens_.AtOperator("|")) {
        node = ParseFilter(std::move(node));
      } else if (tokens_.AtName("is")) {
        node = ParseTest(std::move(node));
      } else {
        break;
      }
    }
    return node;
  }

  ExpressionPtr ParsePrimary() {
    const Token token = tokens_.Peek();
    switch (token.kind) {
      case TokenKind::kName: {
        tokens_.Next();
        ExpressionPtr node = Node(ExpressionKind::kLiteral, token.line);
        if (token.text == "true" || token.text == "True") {
          node->value = Value(true);
        } else if (token.text == "false" || token.text == "False") {
          node->value = Value(false);
        } else if (token.text == "none" || token.text == "None") {
          node->value = Value(None());
        } else {
          node = Node(ExpressionKind::kName, token.line, token.text);
        }
        return node;
      }
      case TokenKind::kString: {
        std::string text;
        while (tokens_.Peek().kind == TokenKind::kString) {
          text += tokens_.Peek().text;
          tokens_.Next();
        }
        ExpressionPtr node = Node(ExpressionKind::kLiteral, token.line);
        node->value = Value::Of(std::move(text), true);
        return node;
      }
      case TokenKind::kInteger:
      case TokenKind::kFloat: {
        tokens_.Next();
        ExpressionPtr node = Node(ExpressionKind::kLiteral, token.line);
        node->value =
            token.kind == TokenKind::kInteger ? Value(token.integer) : Value(token.number);
        return node;
      }
      case TokenKind::kOperator:
        if (tokens_.TakeOperator("(")) {
          ExpressionPtr node =
              tokens_.AtOperator(")") ? Node(ExpressionKind::kList, token.line) : ParseTuple();
          tokens_.ExpectOperator(")");
          return node;
        }
        if (token.text == "[") return ParseList();
        if (token.text == "{") return ParseDict();
        break;
      default:
        break;
    }
    tokens_.Wanted("an expression");
    return nullptr;
  }

  ExpressionPtr ParseList() {
    ExpressionPtr node = Node(ExpressionKind::kList, tokens_.Peek().line);
    tokens_.Next();
    while (tokens_.ok() && !tokens_.AtOperator("]")) {
      node->children.push_back(ParseExpression());
      if (!tokens_.TakeOperator(",")) break;
    }
    tokens_.ExpectOperator("]");
    return Seal(std::move(node));
  }

  ExpressionPtr ParseDict() {
    ExpressionPtr node = Node(ExpressionKind::kDict, tokens_.Peek().line);
    tokens_.Next();
    while (tokens_.ok() && !tokens_.AtOperator("}")) {
      node->children.push_back(ParseExpression());
      tokens_.ExpectOperator(":");
      node->children.push_back(ParseExpression());
      if (!tokens_.TakeOperator(",")) break;
    }
    tokens_.ExpectOperator("}");
    return Seal(std::move(node));
  }

  ExpressionPtr ParsePostfix(ExpressionPtr node) {
    while (tokens_.ok() && node != nullptr) {
      const int line = tokens_.Peek().line;
      if (tokens_.TakeOperator(".")) {
        if (tokens_.Peek().kind == TokenKind::kInteger) {
          tokens_.Fail(Unsupported(line, "a number as attribute"));
        }
        node = Wrap(ExpressionKind::kAttribute, line, std::move(node), tokens_.ExpectName());
        if (tokens_.AtOperator("(")) {
          node->kind = ExpressionKind::kMethod;
          if (tokens_.ok() && !IsMethod(node->name)) {
            tokens_.Fail(
                Unsupported(line, absl::StrCat("the method '", node->name.substr(0, 40), "'")));
          }
          ParseArguments(node.get());
        }
      } else if (tokens_.AtOperator("[")) {
        node = ParseSubscript(std::move(node));
      } else if (tokens_.AtOperator("(")) {
        if (node->kind != ExpressionKind::kName) {
          tokens_.Fail(Unsupported(line, "a call of a value"));
        }
        node->kind = ExpressionKind::kCall;
        ParseArguments(node.get());
      } else {
        break;
      }
      node = Seal(std::move(node));
    }
    return node;
  }

  static ExpressionPtr Wrap(ExpressionKind kind, int line, ExpressionPtr inner, std::string name) {
    ExpressionPtr node = Node(kind, line, std::move(name));
    node->children.push_back(std::move(inner));
    return node;
  }

  ExpressionPtr ParseSubscript(ExpressionPtr inner) {
    const int line = tokens_.Peek().line;
    tokens_.Next();
    ExpressionPtr node = Wrap(ExpressionKind::kItem, line, std::move(inner), "");
    if (!tokens_.AtOperator(":")) node->children.push_back(ParseExpression());
    if (tokens_.ok() && tokens_.AtOperator(":")) {
      node->kind = ExpressionKind::kSlice;
      node->children.resize(2);
      for (int part = 0; part < 2; ++part) {
        const bool colon = node->children.size() < 4 && tokens_.TakeOperator(":");
        const bool given = colon && !tokens_.AtOperator(":") && !tokens_.AtOperator("]");
        node->children.push_back(given ? ParseExpression() : nullptr);
      }
    }
    if (tokens_.ok() && tokens_.AtOperator(",")) {
      tokens_.Fail(Unsupported(line, "a subscript of several values"));
    }
    tokens_.ExpectOperator("]");
    return node;
  }

  void ParseArguments(Expression* node) {
    tokens_.ExpectOperator("(");
    bool first = true;
    while (tokens_.ok() && !tokens_.AtOperator(")")) {
      if (!first) tokens_.ExpectOperator(",");
      first = false;
      if (tokens_.AtOperator(")")) break;
      if (tokens_.AtOperator("*") || tokens_.AtOperator("**")) {
        tokens_.Fail(Unsupported(tokens_.Peek().line, "* in a call's arguments"));
      }
      const bool named = tokens_.Peek().kind == TokenKind::kName &&
                         tokens_.Peek(1).kind == TokenKind::kOperator &&
                         tokens_.Peek(1).text == "=";
      if (named) {
        node->keywords.push_back(tokens_.ExpectName());
        tokens_.ExpectOperator("=");
      } else if (!node->keywords.empty()) {
        tokens_.Fail(
            SyntaxError(tokens_.Peek().line, "an argument without a name behind one with it"));
      }
      node->children.push_back(ParseExpression());
    }
    tokens_.ExpectOperator(")");
  }

  ExpressionPtr ParseFilter(ExpressionPtr inner) {
    const int line = tokens_.Peek().line;
    tokens_.Next();
    ExpressionPtr node =
        Wrap(ExpressionKind::kFilter, line, std::move(inner), tokens_.ExpectName());
    if (tokens_.ok() && !IsFilter(node->name)) {
      tokens_.Fail(Unsupported(line, absl::StrCat("the filter '", node->name.substr(0, 40), "'")));
    }
    if (tokens_.ok() && tokens_.AtOperator("(")) ParseArguments(node.get());
    return Seal(std::move(node));
  }

  ExpressionPtr ParseTest(ExpressionPtr inner) {
    const int line = tokens_.Peek().line;
    tokens_.Next();
    const bool negated = tokens_.TakeName("not");
    ExpressionPtr node = Wrap(ExpressionKind::kTest, line, std::move(inner), tokens_.ExpectName());
    node->negated = negated;
    if (tokens_.ok() && !IsTest(node->name)) {
      tokens_.Fail(Unsupported(line, absl::StrCat("the test '", node->name.substr(0, 40), "'")));
    }
    if (tokens_.ok() && tokens_.AtOperator("(")) {
      ParseArguments(node.get());
    } else if (tokens_.ok() && TestTakesValue()) {
      node->children.push_back(ParsePostfix(ParsePrimary()));
    }
    return Seal(std::move(node));
  }

  // Whether a value follows that is the test's argument: "is divisibleby 3".
  bool TestTakesValue() const {
    const Token& token = tokens_.Peek();
    switch (token.kind) {
      case TokenKind::kString:
      case TokenKind::kInteger:
      case TokenKind::kFloat:
        return true;
      case TokenKind::kName:
        return token.text != "else" && token.text != "or" && token.text != "and" &&
               token.text != "is" && token.text != "if" && token.text != "in" &&
               token.text != "not";
      default:
        return tokens_.AtOperator("[") || tokens_.AtOperator("{");
    }
  }

  TokenReader& tokens_;
};

}  // namespace

ExpressionPtr ParseExpression(TokenReader* tokens) {
  return ExpressionParser(tokens).ParseExpression();
}

ExpressionPtr ParseTuple(TokenReader* tokens) { return ExpressionParser(tokens).ParseTuple(); }

ExpressionPtr ParseUnconditional(TokenReader* tokens) { return ExpressionParser(tokens).ParseOr(); }

}  // namespace rserve::model::jinja
