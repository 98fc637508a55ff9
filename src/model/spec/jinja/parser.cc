#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/model/spec/jinja/builtins.h"
#include "src/model/spec/jinja/lexer.h"
#include "src/model/spec/jinja/syntax.h"

namespace rserve::model::jinja {
namespace {

// Of blocks and of expressions in each other, together.
constexpr int kMaxDepth = 200;
// Of an expression's tree, whose sides may be long chains: "a + a + a".
constexpr int kMaxTreeDepth = 200;

// Recursive descent. The first fault sticks: from then on everything returns at once and the tokens
// stand still.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  absl::StatusOr<Block> Run() {
    Block block = ParseBlock({});
    if (status_.ok() && Peek().kind != TokenKind::kEnd) {
      Fail(SyntaxError(Peek().line, "a tag that ends nothing"));
    }
    if (!status_.ok()) return status_;
    return block;
  }

 private:
  // ---- Tokens

  const Token& Peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  void Next() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  bool AtOperator(std::string_view text) const {
    return Peek().kind == TokenKind::kOperator && Peek().text == text;
  }
  bool AtName(std::string_view text) const {
    return Peek().kind == TokenKind::kName && Peek().text == text;
  }
  bool TakeOperator(std::string_view text) {
    const bool there = ok() && AtOperator(text);
    if (there) Next();
    return there;
  }
  bool TakeName(std::string_view text) {
    const bool there = ok() && AtName(text);
    if (there) Next();
    return there;
  }
  void Expect(std::string_view text) {
    if (!TakeOperator(text)) Wanted(absl::StrCat("'", std::string(text), "'"));
  }
  std::string ExpectName() {
    if (!ok() || Peek().kind != TokenKind::kName) {
      Wanted("a name");
      return "";
    }
    std::string name = Peek().text;
    Next();
    return name;
  }
  void ExpectBlockEnd() {
    if (ok() && Peek().kind == TokenKind::kBlockEnd) {
      Next();
    } else {
      Wanted("%}");
    }
  }

  bool ok() const { return status_.ok(); }
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  void Wanted(const std::string& what) {
    const Token& token = Peek();
    const bool end = token.kind == TokenKind::kEnd;
    Fail(SyntaxError(
        token.line,
        absl::StrCat("want ", what, ", found ",
                     end                  ? "the end"
                     : token.text.empty() ? std::string("the end of the tag")
                                          : absl::StrCat("'", token.text.substr(0, 40), "'"))));
  }
  // Counts what lies in each other; false: too deep.
  struct Depth {
    explicit Depth(Parser* parser) : parser(parser) {
      if (++parser->depth_ > kMaxDepth) {
        parser->Fail(
            Unsupported(parser->Peek().line, absl::StrCat("nesting deeper than ", kMaxDepth)));
      }
    }
    ~Depth() { --parser->depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    Parser* parser;
  };

  // ---- Statements

  // Statements up to, not with, a tag whose name is in `ends`: its block begin and name are taken.
  Block ParseBlock(const std::vector<std::string_view>& ends, std::string* end = nullptr) {
    const Depth depth(this);
    Block block;
    while (ok() && Peek().kind != TokenKind::kEnd) {
      const int line = Peek().line;
      if (Peek().kind == TokenKind::kData) {
        block.push_back(Make(StatementKind::kText, line));
        block.back()->text = Text(Peek().text, true);
        Next();
      } else if (Peek().kind == TokenKind::kVariableBegin) {
        Next();
        block.push_back(Make(StatementKind::kPrint, line));
        block.back()->expressions.push_back(ParseTuple());
        if (ok() && Peek().kind == TokenKind::kVariableEnd) {
          Next();
        } else {
          Wanted("}}");
        }
      } else {
        Next();  // {%
        const std::string name = ExpectName();
        for (const std::string_view one : ends) {
          if (ok() && name == one) {
            *end = name;
            return block;
          }
        }
        if (ok()) block.push_back(ParseStatement(name, line));
      }
    }
    if (ok() && !ends.empty()) {
      Wanted(absl::StrCat("{% ", std::string(ends.back()), " %}"));
    }
    return block;
  }

  static std::unique_ptr<Statement> Make(StatementKind kind, int line) {
    auto statement = std::make_unique<Statement>();
    statement->kind = kind;
    statement->line = line;
    return statement;
  }

  std::unique_ptr<Statement> ParseStatement(const std::string& name, int line) {
    if (name == "if") return ParseIf(line);
    if (name == "for") return ParseFor(line);
    if (name == "set") return ParseSet(line);
    if (name == "macro") return ParseMacro(line);
    if (name == "break" || name == "continue") {
      if (loops_ == 0) Fail(SyntaxError(line, absl::StrCat(name, " outside of a for")));
      ExpectBlockEnd();
      return Make(name == "break" ? StatementKind::kBreak : StatementKind::kContinue, line);
    }
    if (name == "generation") {
      auto group = Make(StatementKind::kGroup, line);
      group->blocks.push_back(ParseBody("endgeneration"));
      return group;
    }
    Fail(Unsupported(line, absl::StrCat("the statement '", name.substr(0, 40), "'")));
    return Make(StatementKind::kText, line);
  }

  // The rest of the tag, the block and the tag that ends it.
  Block ParseBody(std::string_view end_name) {
    ExpectBlockEnd();
    std::string end;
    Block block = ParseBlock({end_name}, &end);
    ExpectBlockEnd();
    return block;
  }

  std::unique_ptr<Statement> ParseIf(int line) {
    auto statement = Make(StatementKind::kIf, line);
    std::string end = "elif";
    while (ok() && end == "elif") {
      statement->expressions.push_back(ParseExpression());
      ExpectBlockEnd();
      statement->blocks.push_back(ParseBlock({"elif", "else", "endif"}, &end));
    }
    if (ok() && end == "else")
      statement->blocks.push_back(ParseBody("endif"));
    else
      ExpectBlockEnd();
    return statement;
  }

  std::unique_ptr<Statement> ParseFor(int line) {
    auto statement = Make(StatementKind::kFor, line);
    statement->targets = ParseTargets();
    if (!TakeName("in")) Wanted("'in'");
    // What follows 'if' is the loop's filter, not a conditional expression.
    statement->expressions.push_back(ParseOr());
    statement->expressions.push_back(TakeName("if") ? ParseExpression() : nullptr);
    if (ok() && AtName("recursive")) Fail(Unsupported(line, "a recursive for"));
    ExpectBlockEnd();
    std::string end;
    ++loops_;
    statement->blocks.push_back(ParseBlock({"else", "endfor"}, &end));
    --loops_;
    if (ok() && end == "else")
      statement->blocks.push_back(ParseBody("endfor"));
    else
      ExpectBlockEnd();
    return statement;
  }

  std::vector<std::string> ParseTargets() {
    std::vector<std::string> targets;
    const bool bracket = TakeOperator("(");
    do {
      const int line = Peek().line;
      targets.push_back(ExpectName());
      CheckTarget(targets.back(), line);
    } while (TakeOperator(","));
    if (bracket) Expect(")");
    return targets;
  }

  void CheckTarget(const std::string& name, int line) {
    for (const std::string_view word : {"true", "false", "none", "True", "False", "None", "loop",
                                        "namespace", "range", "raise_exception"}) {
      if (name == word) Fail(SyntaxError(line, absl::StrCat("'", name, "' cannot be set")));
    }
  }

  std::unique_ptr<Statement> ParseSet(int line) {
    auto statement = Make(StatementKind::kSet, line);
    statement->targets = ParseTargets();
    if (statement->targets.size() == 1 && TakeOperator(".")) statement->attribute = ExpectName();
    if (TakeOperator("=")) {
      statement->expressions.push_back(ParseTuple());
      ExpectBlockEnd();
      return statement;
    }
    if (ok() && (statement->targets.size() != 1 || !statement->attribute.empty() ||
                 Peek().kind != TokenKind::kBlockEnd)) {
      if (AtOperator("|")) {
        Fail(Unsupported(line, "a set block with filters"));
      } else {
        Wanted("'='");
      }
    }
    statement->kind = StatementKind::kSetBlock;
    statement->blocks.push_back(ParseBody("endset"));
    return statement;
  }

  std::unique_ptr<Statement> ParseMacro(int line) {
    auto statement = Make(StatementKind::kMacro, line);
    if (loops_ > 0 || in_macro_) Fail(Unsupported(line, "a macro inside of a for or a macro"));
    statement->name = ExpectName();
    CheckTarget(statement->name, line);
    Expect("(");
    while (ok() && !AtOperator(")")) {
      if (!statement->targets.empty()) Expect(",");
      statement->targets.push_back(ExpectName());
      if (TakeOperator("=")) {
        statement->expressions.push_back(ParseExpression());
      } else if (!statement->expressions.empty()) {
        Fail(SyntaxError(line, "a parameter without a default behind one with it"));
      }
    }
    Expect(")");
    in_macro_ = true;
    statement->blocks.push_back(ParseBody("endmacro"));
    in_macro_ = false;
    return statement;
  }

  // ---- Expressions, from the loosest binding to the tightest

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
      Fail(Unsupported(node->line, absl::StrCat("an expression deeper than ", kMaxTreeDepth)));
    }
    return node;
  }

  ExpressionPtr Binary(std::string name, int line, ExpressionPtr left, ExpressionPtr right) {
    ExpressionPtr node = Node(ExpressionKind::kBinary, line, std::move(name));
    node->children.push_back(std::move(left));
    node->children.push_back(std::move(right));
    return Seal(std::move(node));
  }

  // An expression, or several with commas between them: a list.
  ExpressionPtr ParseTuple() {
    const int line = Peek().line;
    ExpressionPtr first = ParseExpression();
    if (!ok() || !AtOperator(",")) return first;
    ExpressionPtr tuple = Node(ExpressionKind::kList, line);
    tuple->children.push_back(std::move(first));
    while (TakeOperator(",")) {
      const TokenKind kind = Peek().kind;
      if (AtOperator(")") || kind == TokenKind::kBlockEnd || kind == TokenKind::kVariableEnd) break;
      tuple->children.push_back(ParseExpression());
    }
    return Seal(std::move(tuple));
  }

  ExpressionPtr ParseExpression() {
    const Depth depth(this);
    ExpressionPtr value = ok() ? ParseOr() : nullptr;
    while (ok() && AtName("if")) {
      ExpressionPtr node = Node(ExpressionKind::kConditional, Peek().line);
      Next();
      node->children.push_back(ParseOr());
      node->children.push_back(std::move(value));
      node->children.push_back(TakeName("else") ? ParseExpression() : nullptr);
      value = Seal(std::move(node));
    }
    return value;
  }

  ExpressionPtr ParseOr() {
    ExpressionPtr left = ParseAnd();
    while (ok() && AtName("or")) {
      const int line = Peek().line;
      Next();
      left = Binary("or", line, std::move(left), ParseAnd());
    }
    return left;
  }

  ExpressionPtr ParseAnd() {
    ExpressionPtr left = ParseNot();
    while (ok() && AtName("and")) {
      const int line = Peek().line;
      Next();
      left = Binary("and", line, std::move(left), ParseNot());
    }
    return left;
  }

  ExpressionPtr ParseNot() {
    const Depth depth(this);
    if (!ok() || !AtName("not")) return ok() ? ParseComparison() : nullptr;
    ExpressionPtr node = Node(ExpressionKind::kUnary, Peek().line, "not");
    Next();
    node->children.push_back(ParseNot());
    return Seal(std::move(node));
  }

  ExpressionPtr ParseComparison() {
    ExpressionPtr left = ParseSum();
    bool compared = false;
    while (ok()) {
      const int line = Peek().line;
      std::string name;
      if (Peek().kind == TokenKind::kOperator) {
        for (const std::string_view one : {"==", "!=", "<=", ">=", "<", ">"}) {
          if (Peek().text == one) name = std::string(one);
        }
      } else if (AtName("in")) {
        name = "in";
      } else if (AtName("not") && Peek(1).kind == TokenKind::kName && Peek(1).text == "in") {
        name = "not in";
        Next();
      }
      if (name.empty()) break;
      Next();
      if (compared) Fail(Unsupported(line, "a chain of comparisons"));
      compared = true;
      left = Binary(std::move(name), line, std::move(left), ParseSum());
    }
    return left;
  }

  template <typename Operand>
  ExpressionPtr ParseBinary(std::initializer_list<std::string_view> names, Operand operand) {
    ExpressionPtr left = operand();
    while (ok() && Peek().kind == TokenKind::kOperator) {
      const int line = Peek().line;
      std::string name;
      for (const std::string_view one : names) {
        if (Peek().text == one) name = std::string(one);
      }
      if (name.empty()) break;
      Next();
      left = Binary(std::move(name), line, std::move(left), operand());
    }
    return left;
  }

  ExpressionPtr ParseSum() {
    return ParseBinary({"+", "-"}, [this] {
      return ParseBinary({"~"}, [this] {
        return ParseBinary({"*", "/", "//", "%"}, [this] {
          ExpressionPtr left = ParseUnary(true);
          if (ok() && AtOperator("**")) Fail(Unsupported(Peek().line, "the operator **"));
          return left;
        });
      });
    });
  }

  ExpressionPtr ParseUnary(bool with_filter) {
    const Depth depth(this);
    if (!ok()) return nullptr;
    ExpressionPtr node;
    if (AtOperator("-") || AtOperator("+")) {
      node = Node(ExpressionKind::kUnary, Peek().line, Peek().text);
      Next();
      node->children.push_back(ParseUnary(false));
      node = Seal(std::move(node));
    } else {
      node = ParsePrimary();
    }
    node = ParsePostfix(std::move(node));
    while (with_filter && ok()) {
      if (AtOperator("|")) {
        node = ParseFilter(std::move(node));
      } else if (AtName("is")) {
        node = ParseTest(std::move(node));
      } else {
        break;
      }
    }
    return node;
  }

  ExpressionPtr ParsePrimary() {
    const Token token = Peek();
    switch (token.kind) {
      case TokenKind::kName: {
        Next();
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
        while (Peek().kind == TokenKind::kString) {
          text += Peek().text;
          Next();
        }
        ExpressionPtr node = Node(ExpressionKind::kLiteral, token.line);
        node->value = Value::Of(std::move(text), true);
        return node;
      }
      case TokenKind::kInteger:
      case TokenKind::kFloat: {
        Next();
        ExpressionPtr node = Node(ExpressionKind::kLiteral, token.line);
        node->value =
            token.kind == TokenKind::kInteger ? Value(token.integer) : Value(token.number);
        return node;
      }
      case TokenKind::kOperator:
        if (TakeOperator("(")) {
          ExpressionPtr node =
              AtOperator(")") ? Node(ExpressionKind::kList, token.line) : ParseTuple();
          Expect(")");
          return node;
        }
        if (token.text == "[") return ParseList();
        if (token.text == "{") return ParseDict();
        break;
      default:
        break;
    }
    Wanted("an expression");
    return nullptr;
  }

  ExpressionPtr ParseList() {
    ExpressionPtr node = Node(ExpressionKind::kList, Peek().line);
    Next();
    while (ok() && !AtOperator("]")) {
      node->children.push_back(ParseExpression());
      if (!TakeOperator(",")) break;
    }
    Expect("]");
    return Seal(std::move(node));
  }

  ExpressionPtr ParseDict() {
    ExpressionPtr node = Node(ExpressionKind::kDict, Peek().line);
    Next();
    while (ok() && !AtOperator("}")) {
      node->children.push_back(ParseExpression());
      Expect(":");
      node->children.push_back(ParseExpression());
      if (!TakeOperator(",")) break;
    }
    Expect("}");
    return Seal(std::move(node));
  }

  ExpressionPtr ParsePostfix(ExpressionPtr node) {
    while (ok() && node != nullptr) {
      const int line = Peek().line;
      if (TakeOperator(".")) {
        if (Peek().kind == TokenKind::kInteger) Fail(Unsupported(line, "a number as attribute"));
        node = Wrap(ExpressionKind::kAttribute, line, std::move(node), ExpectName());
        if (AtOperator("(")) {
          node->kind = ExpressionKind::kMethod;
          if (ok() && !IsMethod(node->name)) {
            Fail(Unsupported(line, absl::StrCat("the method '", node->name.substr(0, 40), "'")));
          }
          ParseArguments(node.get());
        }
      } else if (AtOperator("[")) {
        node = ParseSubscript(std::move(node));
      } else if (AtOperator("(")) {
        if (node->kind != ExpressionKind::kName) Fail(Unsupported(line, "a call of a value"));
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
    const int line = Peek().line;
    Next();
    ExpressionPtr node = Wrap(ExpressionKind::kItem, line, std::move(inner), "");
    if (!AtOperator(":")) node->children.push_back(ParseExpression());
    if (ok() && AtOperator(":")) {
      node->kind = ExpressionKind::kSlice;
      node->children.resize(2);
      for (int part = 0; part < 2; ++part) {
        const bool colon = node->children.size() < 4 && TakeOperator(":");
        const bool given = colon && !AtOperator(":") && !AtOperator("]");
        node->children.push_back(given ? ParseExpression() : nullptr);
      }
    }
    if (ok() && AtOperator(",")) Fail(Unsupported(line, "a subscript of several values"));
    Expect("]");
    return node;
  }

  void ParseArguments(Expression* node) {
    Expect("(");
    bool first = true;
    while (ok() && !AtOperator(")")) {
      if (!first) Expect(",");
      first = false;
      if (AtOperator(")")) break;
      if (AtOperator("*") || AtOperator("**")) {
        Fail(Unsupported(Peek().line, "* in a call's arguments"));
      }
      const bool named = Peek().kind == TokenKind::kName && Peek(1).kind == TokenKind::kOperator &&
                         Peek(1).text == "=";
      if (named) {
        node->keywords.push_back(ExpectName());
        Expect("=");
      } else if (!node->keywords.empty()) {
        Fail(SyntaxError(Peek().line, "an argument without a name behind one with it"));
      }
      node->children.push_back(ParseExpression());
    }
    Expect(")");
  }

  ExpressionPtr ParseFilter(ExpressionPtr inner) {
    const int line = Peek().line;
    Next();
    ExpressionPtr node = Wrap(ExpressionKind::kFilter, line, std::move(inner), ExpectName());
    if (ok() && !IsFilter(node->name)) {
      Fail(Unsupported(line, absl::StrCat("the filter '", node->name.substr(0, 40), "'")));
    }
    if (ok() && AtOperator("(")) ParseArguments(node.get());
    return Seal(std::move(node));
  }

  ExpressionPtr ParseTest(ExpressionPtr inner) {
    const int line = Peek().line;
    Next();
    const bool negated = TakeName("not");
    ExpressionPtr node = Wrap(ExpressionKind::kTest, line, std::move(inner), ExpectName());
    node->negated = negated;
    if (ok() && !IsTest(node->name)) {
      Fail(Unsupported(line, absl::StrCat("the test '", node->name.substr(0, 40), "'")));
    }
    if (ok() && AtOperator("(")) {
      ParseArguments(node.get());
    } else if (ok() && TestTakesValue()) {
      node->children.push_back(ParsePostfix(ParsePrimary()));
    }
    return Seal(std::move(node));
  }

  // Whether a value follows that is the test's argument: "is divisibleby 3".
  bool TestTakesValue() const {
    const Token& token = Peek();
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
        return AtOperator("[") || AtOperator("{");
    }
  }

  const std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;  // for loops around this place
  bool in_macro_ = false;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<Block> Parse(std::string_view source) {
  absl::StatusOr<std::vector<Token>> tokens = Tokenize(source);
  if (!tokens.ok()) return tokens.status();
  return Parser(*std::move(tokens)).Run();
}

}  // namespace rserve::model::jinja
