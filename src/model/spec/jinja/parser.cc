#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/model/spec/jinja/expression_parser.h"
#include "src/model/spec/jinja/lexer.h"
#include "src/model/spec/jinja/syntax.h"
#include "src/model/spec/jinja/token_reader.h"

namespace rserve::model::jinja {
namespace {

// Statements, by recursive descent.
class StatementParser {
 public:
  explicit StatementParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  absl::StatusOr<Block> Run() {
    Block block = ParseBlock({});
    if (tokens_.ok() && tokens_.Peek().kind != TokenKind::kEnd) {
      tokens_.Fail(SyntaxError(tokens_.Peek().line, "a tag that ends nothing"));
    }
    if (!tokens_.ok()) return tokens_.status();
    return block;
  }

 private:
  // Statements up to, not with, a tag whose name is in `ends`: its block begin and name are taken.
  Block ParseBlock(const std::vector<std::string_view>& ends, std::string* end = nullptr) {
    const TokenReader::Depth depth(&tokens_);
    Block block;
    while (tokens_.ok() && tokens_.Peek().kind != TokenKind::kEnd) {
      const int line = tokens_.Peek().line;
      if (tokens_.Peek().kind == TokenKind::kData) {
        block.push_back(Make(StatementKind::kText, line));
        block.back()->text = Text(tokens_.Peek().text, true);
        tokens_.Next();
      } else if (tokens_.Peek().kind == TokenKind::kVariableBegin) {
        tokens_.Next();
        block.push_back(Make(StatementKind::kPrint, line));
        block.back()->expressions.push_back(ParseTuple(&tokens_));
        tokens_.Expect(TokenKind::kVariableEnd, "}}");
      } else {
        tokens_.Next();  // {%
        const std::string name = tokens_.ExpectName();
        for (const std::string_view one : ends) {
          if (tokens_.ok() && name == one) {
            *end = name;
            return block;
          }
        }
        if (tokens_.ok()) block.push_back(ParseStatement(name, line));
      }
    }
    if (tokens_.ok() && !ends.empty()) {
      tokens_.Wanted(absl::StrCat("{% ", std::string(ends.back()), " %}"));
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
      if (loops_ == 0) tokens_.Fail(SyntaxError(line, absl::StrCat(name, " outside of a for")));
      tokens_.Expect(TokenKind::kBlockEnd, "%}");
      return Make(name == "break" ? StatementKind::kBreak : StatementKind::kContinue, line);
    }
    if (name == "generation") {
      auto group = Make(StatementKind::kGroup, line);
      group->blocks.push_back(ParseBody("endgeneration"));
      return group;
    }
    tokens_.Fail(Unsupported(line, absl::StrCat("the statement '", name.substr(0, 40), "'")));
    return Make(StatementKind::kText, line);
  }

  // The rest of the tag, the block and the tag that ends it.
  Block ParseBody(std::string_view end_name) {
    tokens_.Expect(TokenKind::kBlockEnd, "%}");
    std::string end;
    Block block = ParseBlock({end_name}, &end);
    tokens_.Expect(TokenKind::kBlockEnd, "%}");
    return block;
  }

  std::unique_ptr<Statement> ParseIf(int line) {
    auto statement = Make(StatementKind::kIf, line);
    std::string end = "elif";
    while (tokens_.ok() && end == "elif") {
      statement->expressions.push_back(ParseExpression(&tokens_));
      tokens_.Expect(TokenKind::kBlockEnd, "%}");
      statement->blocks.push_back(ParseBlock({"elif", "else", "endif"}, &end));
    }
    if (tokens_.ok() && end == "else")
      statement->blocks.push_back(ParseBody("endif"));
    else
      tokens_.Expect(TokenKind::kBlockEnd, "%}");
    return statement;
  }

  std::unique_ptr<Statement> ParseFor(int line) {
    auto statement = Make(StatementKind::kFor, line);
    statement->targets = ParseTargets();
    if (!tokens_.TakeName("in")) tokens_.Wanted("'in'");
    // What follows 'if' is the loop's filter, not a conditional expression.
    statement->expressions.push_back(ParseUnconditional(&tokens_));
    statement->expressions.push_back(tokens_.TakeName("if") ? ParseExpression(&tokens_) : nullptr);
    if (tokens_.ok() && tokens_.AtName("recursive")) {
      tokens_.Fail(Unsupported(line, "a recursive for"));
    }
    tokens_.Expect(TokenKind::kBlockEnd, "%}");
    std::string end;
    ++loops_;
    statement->blocks.push_back(ParseBlock({"else", "endfor"}, &end));
    --loops_;
    if (tokens_.ok() && end == "else")
      statement->blocks.push_back(ParseBody("endfor"));
    else
      tokens_.Expect(TokenKind::kBlockEnd, "%}");
    return statement;
  }

  std::vector<std::string> ParseTargets() {
    std::vector<std::string> targets;
    const bool bracket = tokens_.TakeOperator("(");
    do {
      const int line = tokens_.Peek().line;
      targets.push_back(tokens_.ExpectName());
      CheckTarget(targets.back(), line);
    } while (tokens_.TakeOperator(","));
    if (bracket) tokens_.ExpectOperator(")");
    return targets;
  }

  void CheckTarget(const std::string& name, int line) {
    for (const std::string_view word : {"true", "false", "none", "True", "False", "None", "loop",
                                        "namespace", "range", "raise_exception"}) {
      if (name == word) tokens_.Fail(SyntaxError(line, absl::StrCat("'", name, "' cannot be set")));
    }
  }

  std::unique_ptr<Statement> ParseSet(int line) {
    auto statement = Make(StatementKind::kSet, line);
    statement->targets = ParseTargets();
    if (statement->targets.size() == 1 && tokens_.TakeOperator(".")) {
      statement->attribute = tokens_.ExpectName();
    }
    if (tokens_.TakeOperator("=")) {
      statement->expressions.push_back(ParseTuple(&tokens_));
      tokens_.Expect(TokenKind::kBlockEnd, "%}");
      return statement;
    }
    if (tokens_.ok() && (statement->targets.size() != 1 || !statement->attribute.empty() ||
                         tokens_.Peek().kind != TokenKind::kBlockEnd)) {
      if (tokens_.AtOperator("|")) {
        tokens_.Fail(Unsupported(line, "a set block with filters"));
      } else {
        tokens_.Wanted("'='");
      }
    }
    statement->kind = StatementKind::kSetBlock;
    statement->blocks.push_back(ParseBody("endset"));
    return statement;
  }

  std::unique_ptr<Statement> ParseMacro(int line) {
    auto statement = Make(StatementKind::kMacro, line);
    if (loops_ > 0 || in_macro_) {
      tokens_.Fail(Unsupported(line, "a macro inside of a for or a macro"));
    }
    statement->name = tokens_.ExpectName();
    CheckTarget(statement->name, line);
    tokens_.ExpectOperator("(");
    while (tokens_.ok() && !tokens_.AtOperator(")")) {
      if (!statement->targets.empty()) tokens_.ExpectOperator(",");
      statement->targets.push_back(tokens_.ExpectName());
      if (tokens_.TakeOperator("=")) {
        statement->expressions.push_back(ParseExpression(&tokens_));
      } else if (!statement->expressions.empty()) {
        tokens_.Fail(SyntaxError(line, "a parameter without a default behind one with it"));
      }
    }
    tokens_.ExpectOperator(")");
    in_macro_ = true;
    statement->blocks.push_back(ParseBody("endmacro"));
    in_macro_ = false;
    return statement;
  }

  TokenReader tokens_;
  int loops_ = 0;  // for loops around this place
  bool in_macro_ = false;
};

}  // namespace

absl::StatusOr<Block> Parse(std::string_view source) {
  absl::StatusOr<std::vector<Token>> tokens = Tokenize(source);
  if (!tokens.ok()) return tokens.status();
  return StatementParser(*std::move(tokens)).Run();
}

}  // namespace rserve::model::jinja
