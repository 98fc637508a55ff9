// Runs a parsed template.

#ifndef RSERVE_SRC_MODEL_SPEC_JINJA_RENDERER_H_
#define RSERVE_SRC_MODEL_SPEC_JINJA_RENDERER_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/model/spec/jinja/builtins.h"
#include "src/model/spec/jinja/syntax.h"
#include "src/model/spec/jinja/template.h"

namespace rserve::model::jinja {

// One rendering. The first fault sticks: what follows does nothing.
class Renderer {
 public:
  Renderer(const Entries& variables, const RenderLimits& limits)
      : variables_(variables), limits_(limits), scopes_(1) {}

  absl::StatusOr<Text> Run(const Block& block);

 private:
  using Scope = std::vector<std::pair<std::string, Value>>;
  // What a statement does to those after it.
  enum class Flow { kOn, kBreak, kContinue, kFailed };

  bool ok() const { return status_.ok(); }
  // Records the first fault, with its line where it has none yet.
  void Fail(int line, const absl::Status& status);
  // False when the work is used up.
  bool Spend(int line, int64_t work);

  // ---- Statements (renderer.cc)
  Flow RunBlock(const Block& block);
  Flow RunStatement(const Statement& statement);
  Flow RunIf(const Statement& statement);
  Flow RunFor(const Statement& statement);
  void RunSet(const Statement& statement);
  void Print(int line, const Value& value);
  // What `block` prints, as a value.
  Value Capture(int line, const Block& block);
  // Sets several names to the items of a list, or one to the value.
  void Bind(int line, const std::vector<std::string>& targets, const Value& value, Scope* scope);

  // ---- Names
  Value Find(std::string_view name) const;
  static void SetIn(Scope* scope, std::string_view name, Value value);

  // ---- Expressions (evaluate.cc); undefined after a fault
  Value Evaluate(const Expression& node);
  Value EvaluateKind(const Expression& node);
  Value EvaluateList(const Expression& node);
  Value EvaluateDict(const Expression& node);
  Value EvaluateSlice(const Expression& node);
  Value EvaluateBinary(const Expression& node);
  Value EvaluateCall(const Expression& node);
  Value EvaluateBuiltin(const Expression& node);
  Value CallMacro(int line, const Statement& macro, const Arguments& arguments);
  Value CallRange(int line, const Arguments& arguments);
  Value GetAttribute(int line, const Value& object, const std::string& name);
  Value GetItem(int line, const Value& object, const Value& key);
  Value Arithmetic(int line, const std::string& name, const Value& left, const Value& right);
  // The arguments behind the first `skip` children.
  Arguments EvaluateArguments(const Expression& node, size_t skip);
  Value Take(int line, absl::StatusOr<Value> value);
  // Refuses what lies too deep in each other, or may lie in nothing.
  bool CheckData(int line, const Value& value);

  const Entries& variables_;
  const RenderLimits limits_;
  int64_t work_ = 0;
  int macro_depth_ = 0;
  int loop_depth_ = 0;
  TextBuilder out_;
  std::vector<Scope> scopes_;  // the first is the template's own
  absl::Status status_;
};

}  // namespace rserve::model::jinja

#endif  // RSERVE_SRC_MODEL_SPEC_JINJA_RENDERER_H_
