#include "src/model/spec/jinja/renderer.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/model/spec/jinja/lexer.h"

namespace rserve::model::jinja {

struct Template::Impl {
  Block block;
};

Template::Template(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Template::~Template() = default;

absl::StatusOr<std::unique_ptr<const Template>> Template::Parse(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("chat template of ", source.size(), " bytes, the limit is ", kMaxSourceBytes));
  }
  absl::StatusOr<Block> block = jinja::Parse(source);
  if (!block.ok()) return block.status();
  auto impl = std::make_unique<Impl>();
  impl->block = *std::move(block);
  return std::unique_ptr<const Template>(new Template(std::move(impl)));
}

absl::StatusOr<Text> Template::Render(const Entries& variables, const RenderLimits& limits) const {
  return Renderer(variables, limits).Run(impl_->block);
}

absl::StatusOr<Text> Renderer::Run(const Block& block) {
  RunBlock(block);
  if (!ok()) return status_;
  return std::move(out_).Take();
}

void Renderer::Fail(int line, const absl::Status& status) {
  if (!status_.ok() || status.ok()) return;
  status_ = absl::Status(status.code(),
                         absl::StrCat("chat template line ", line, ": ", status.message()));
}

bool Renderer::Spend(int line, int64_t work) {
  work_ += work;
  if (work_ <= limits_.max_work) return ok();
  Fail(line, absl::ResourceExhaustedError(
                 absl::StrCat("rendering takes more than ", limits_.max_work, " units of work")));
  return false;
}

Renderer::Flow Renderer::RunBlock(const Block& block) {
  for (const std::unique_ptr<Statement>& statement : block) {
    const Flow flow = RunStatement(*statement);
    if (flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Renderer::Flow Renderer::RunStatement(const Statement& statement) {
  if (!Spend(statement.line, 1)) return Flow::kFailed;
  switch (statement.kind) {
    case StatementKind::kText:
      Print(statement.line, Value(statement.text));
      break;
    case StatementKind::kPrint:
      Print(statement.line, Evaluate(*statement.expressions[0]));
      break;
    case StatementKind::kIf:
      return RunIf(statement);
    case StatementKind::kFor:
      return RunFor(statement);
    case StatementKind::kSet:
      RunSet(statement);
      break;
    case StatementKind::kSetBlock: {
      const Value text = Capture(statement.line, statement.blocks[0]);
      SetIn(&scopes_.back(), statement.targets[0], text);
      break;
    }
    case StatementKind::kMacro:
      SetIn(&scopes_.back(), statement.name, Value(Macro{&statement}));
      break;
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
    case StatementKind::kGroup:
      return RunBlock(statement.blocks[0]);
  }
  return ok() ? Flow::kOn : Flow::kFailed;
}

Renderer::Flow Renderer::RunIf(const Statement& statement) {
  for (size_t i = 0; i < statement.expressions.size(); ++i) {
    const bool holds = Evaluate(*statement.expressions[i]).Truthy();
    if (!ok()) return Flow::kFailed;
    if (holds) return RunBlock(statement.blocks[i]);
  }
  if (statement.blocks.size() == statement.expressions.size()) return Flow::kOn;
  return RunBlock(statement.blocks.back());
}

Renderer::Flow Renderer::RunFor(const Statement& statement) {
  const int line = statement.line;
  const Value over = Evaluate(*statement.expressions[0]);
  if (!ok()) return Flow::kFailed;
  absl::StatusOr<List> items = Iterate(over);
  if (!items.ok()) Fail(line, items.status());
  if (!ok() || !Spend(line, static_cast<int64_t>((*items)->items.size()))) return Flow::kFailed;
  if (statement.expressions[1] != nullptr) {  // `loop` counts what is left
    std::vector<Value> kept;
    for (const Value& item : (*items)->items) {
      scopes_.emplace_back();
      Bind(line, statement.targets, item, &scopes_.back());
      const bool keep = Evaluate(*statement.expressions[1]).Truthy();
      scopes_.pop_back();
      if (!ok()) return Flow::kFailed;
      if (keep) kept.push_back(item);
    }
    items = *Value::OfList(std::move(kept)).As<List>();
  }
  const auto count = static_cast<int64_t>((*items)->items.size());
  if (count == 0 && statement.blocks.size() > 1) return RunBlock(statement.blocks[1]);
  ++loop_depth_;
  Flow flow = Flow::kOn;
  for (int64_t i = 0; i < count && flow != Flow::kBreak && flow != Flow::kFailed; ++i) {
    scopes_.emplace_back();
    SetIn(&scopes_.back(), "loop", Value(Loop{*items, i, loop_depth_ - 1}));
    Bind(line, statement.targets, (*items)->items[static_cast<size_t>(i)], &scopes_.back());
    flow = ok() ? RunBlock(statement.blocks[0]) : Flow::kFailed;
    scopes_.pop_back();
  }
  --loop_depth_;
  return flow == Flow::kFailed ? flow : Flow::kOn;
}

void Renderer::RunSet(const Statement& statement) {
  const int line = statement.line;
  const Value value = Evaluate(*statement.expressions[0]);
  if (!ok()) return;
  if (statement.attribute.empty()) {
    Bind(line, statement.targets, value, &scopes_.back());
    return;
  }
  const Value target = Find(statement.targets[0]);
  const auto* space = target.As<Namespace>();
  if (space == nullptr) {
    Fail(line, absl::InvalidArgumentError(
                   absl::StrCat("only attributes of a namespace can be set, '",
                                statement.targets[0], "' is ", target.TypeName())));
  } else if (CheckData(line, value)) {
    space->entries->Set(statement.attribute, value);
  }
}

void Renderer::Print(int line, const Value& value) {
  if (!ok()) return;
  absl::StatusOr<Text> text = ToText(value);
  if (!text.ok()) {
    Fail(line, text.status());
    return;
  }
  if (!Spend(line, static_cast<int64_t>(text->size()) / 16)) return;
  if (text->size() > limits_.max_output_bytes - out_.size()) {
    Fail(line, absl::ResourceExhaustedError(
                   absl::StrCat("more than ", limits_.max_output_bytes, " bytes are written")));
    return;
  }
  out_.Add(*text);
}

Value Renderer::Capture(int line, const Block& block) {
  TextBuilder outer = std::exchange(out_, TextBuilder());
  RunBlock(block);
  Text text = std::move(std::exchange(out_, std::move(outer))).Take();
  if (!Spend(line, 1)) return Value();
  return Value(std::move(text));
}

void Renderer::Bind(int line, const std::vector<std::string>& targets, const Value& value,
                    Scope* scope) {
  if (targets.size() == 1) {
    SetIn(scope, targets[0], value);
    return;
  }
  absl::StatusOr<List> items = Iterate(value);
  if (items.ok() && (*items)->items.size() != targets.size()) {
    items = absl::InvalidArgumentError(
        absl::StrCat((*items)->items.size(), " values for ", targets.size(), " names"));
  }
  if (!items.ok()) {
    Fail(line, items.status());
    return;
  }
  for (size_t i = 0; i < targets.size(); ++i) SetIn(scope, targets[i], (*items)->items[i]);
}

Value Renderer::Find(std::string_view name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    for (const auto& [key, value] : *scope) {
      if (key == name) return value;
    }
  }
  const Value* value = variables_.Find(name);
  return value != nullptr ? *value : Value(Undefined{std::string(name)});
}

void Renderer::SetIn(Scope* scope, std::string_view name, Value value) {
  for (auto& [key, old] : *scope) {
    if (key != name) continue;
    old = std::move(value);
    return;
  }
  scope->emplace_back(std::string(name), std::move(value));
}

}  // namespace rserve::model::jinja
