// The renderer's expressions.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/model/spec/jinja/renderer.h"

namespace rserve::model::jinja {
namespace {

constexpr int kMaxMacroDepth = 16;
constexpr int64_t kMaxRange = int64_t{1} << 16;

absl::Status Invalid(const std::string& what) { return absl::InvalidArgumentError(what); }

// What a builtin costs on a value: most look at all of it, some at a list's first item.
int64_t Cost(const Value& value, const std::string& name) {
  if (value.As<Text>() != nullptr) return value.Weight();
  for (const std::string_view all : {"tojson", "join", "eq", "ne", "equalto", "in", "replace"}) {
    if (name == all) return value.Weight();
  }
  if (const auto* list = value.As<List>()) {
    return name == "reverse" ? static_cast<int64_t>((*list)->items.size()) : 1;
  }
  if (const auto* dict = value.As<Dict>()) return static_cast<int64_t>((*dict)->items.size());
  return 1;
}

// Python's slice.indices of a step's direction: what `value` (null: not given) stands for.
int64_t SliceBound(const int64_t* value, int64_t length, bool forward, bool begin) {
  if (value == nullptr) {
    if (forward) return begin ? 0 : length;
    return begin ? length - 1 : -1;
  }
  const int64_t low = forward ? 0 : -1, high = forward ? length : length - 1;
  int64_t at = *value;
  if (at < 0) at = at < -length ? low : at + length;
  return std::min(std::max(at, low), high);
}

}  // namespace

Value Renderer::Take(int line, absl::StatusOr<Value> value) {
  if (!value.ok()) {
    Fail(line, value.status());
    return Value();
  }
  return *std::move(value);
}

bool Renderer::CheckData(int line, const Value& value) {
  if (!value.IsData()) {
    Fail(line, absl::UnimplementedError(
                   absl::StrCat(value.TypeName(), " inside of another value is not supported")));
  } else if (value.Depth() >= kMaxValueDepth) {
    Fail(line, absl::ResourceExhaustedError(
                   absl::StrCat("lists lie deeper than ", kMaxValueDepth, " in each other")));
  }
  return ok();
}

Value Renderer::Evaluate(const Expression& node) {
  if (!Spend(node.line, 1)) return Value();
  Value value = EvaluateKind(node);
  return ok() ? value : Value();
}

Value Renderer::EvaluateKind(const Expression& node) {
  switch (node.kind) {
    case ExpressionKind::kLiteral:
      return node.value;
    case ExpressionKind::kName:
      return Find(node.name);
    case ExpressionKind::kList:
      return EvaluateList(node);
    case ExpressionKind::kDict:
      return EvaluateDict(node);
    case ExpressionKind::kAttribute:
      return GetAttribute(node.line, Evaluate(*node.children[0]), node.name);
    case ExpressionKind::kItem: {
      const Value object = Evaluate(*node.children[0]);
      return GetItem(node.line, object, Evaluate(*node.children[1]));
    }
    case ExpressionKind::kSlice:
      return EvaluateSlice(node);
    case ExpressionKind::kCall:
      return EvaluateCall(node);
    case ExpressionKind::kMethod:
    case ExpressionKind::kFilter:
    case ExpressionKind::kTest:
      return EvaluateBuiltin(node);
    case ExpressionKind::kUnary: {
      const Value value = Evaluate(*node.children[0]);
      if (node.name == "not") return Value(!value.Truthy());
      return Arithmetic(node.line, node.name, Value(int64_t{0}), value);
    }
    case ExpressionKind::kBinary:
      return EvaluateBinary(node);
    case ExpressionKind::kConditional: {
      const bool holds = Evaluate(*node.children[0]).Truthy();
      if (!ok()) return Value();
      const ExpressionPtr& chosen = node.children[holds ? 1 : 2];
      return chosen != nullptr ? Evaluate(*chosen) : Value(Undefined{"an if without else"});
    }
  }
  return Value();
}

Value Renderer::EvaluateList(const Expression& node) {
  std::vector<Value> items;
  for (const ExpressionPtr& child : node.children) {
    items.push_back(Evaluate(*child));
    if (!ok() || !CheckData(node.line, items.back())) return Value();
  }
  if (!Spend(node.line, 8 * static_cast<int64_t>(items.size()))) return Value();
  return Value::OfList(std::move(items));
}

Value Renderer::EvaluateDict(const Expression& node) {
  auto entries = std::make_shared<Entries>();
  for (size_t i = 0; i + 1 < node.children.size(); i += 2) {
    const Value key = Evaluate(*node.children[i]);
    const Value value = Evaluate(*node.children[i + 1]);
    if (ok() && key.As<Text>() == nullptr) {
      Fail(node.line, absl::UnimplementedError(absl::StrCat("a mapping's key that is ",
                                                            key.TypeName(), " is not supported")));
    }
    if (!ok() || !CheckData(node.line, value) ||
        !Spend(node.line, 8 + static_cast<int64_t>(entries->items.size()))) {
      return Value();
    }
    entries->Set(key.As<Text>()->bytes(), value);
  }
  return Value(Dict(std::move(entries)));
}

Value Renderer::GetAttribute(int line, const Value& object, const std::string& name) {
  if (const auto* dict = object.As<Dict>()) {
    const Value* value = (*dict)->Find(name);
    if (value != nullptr && !IsMethod(name)) return *value;
    if (IsMethod(name)) {
      Fail(line, absl::UnimplementedError(
                     absl::StrCat("the method '", name, "' that is not called is not supported")));
    }
    return Value(Undefined{name});
  }
  if (const auto* space = object.As<Namespace>()) {
    const Value* value = space->entries->Find(name);
    return value != nullptr ? *value : Value(Undefined{name});
  }
  if (const auto* loop = object.As<Loop>()) {
    const auto& items = loop->items->items;
    const auto length = static_cast<int64_t>(items.size());
    const auto at = static_cast<size_t>(loop->index);
    if (name == "index") return Value(loop->index + 1);
    if (name == "index0") return Value(loop->index);
    if (name == "revindex") return Value(length - loop->index);
    if (name == "revindex0") return Value(length - loop->index - 1);
    if (name == "first") return Value(loop->index == 0);
    if (name == "last") return Value(loop->index + 1 == length);
    if (name == "length") return Value(length);
    if (name == "depth") return Value(loop->depth + 1);
    if (name == "depth0") return Value(loop->depth);
    if (name == "previtem") return at > 0 ? items[at - 1] : Value(Undefined{"loop.previtem"});
    if (name == "nextitem") {
      return at + 1 < items.size() ? items[at + 1] : Value(Undefined{"loop.nextitem"});
    }
    Fail(line, absl::UnimplementedError(absl::StrCat("loop.", name, " is not supported")));
    return Value();
  }
  if (const auto* missing = object.As<Undefined>()) {
    if (ok()) Fail(line, Invalid(absl::StrCat("'", missing->name, "' is undefined")));
    return Value();
  }
  return Value(Undefined{name});
}

Value Renderer::GetItem(int line, const Value& object, const Value& key) {
  if (!ok()) return Value();
  if (const auto* missing = object.As<Undefined>()) {
    Fail(line, Invalid(absl::StrCat("'", missing->name, "' is undefined")));
    return Value();
  }
  const auto* name = key.As<Text>();
  if (const auto* dict = object.As<Dict>()) {
    const Value* value = name == nullptr ? nullptr : (*dict)->Find(name->bytes());
    if (value != nullptr) return *value;
    return Value(Undefined{name == nullptr ? key.TypeName() : std::string(name->bytes())});
  }
  if (name != nullptr) return GetAttribute(line, object, std::string(name->bytes()));
  int64_t at = 0;
  if (!key.Integer(&at)) return Value(Undefined{key.TypeName()});
  if (const auto* list = object.As<List>()) {
    const auto length = static_cast<int64_t>((*list)->items.size());
    if (at < 0) at += length;
    if (at >= 0 && at < length) return (*list)->items[static_cast<size_t>(at)];
    return Value(Undefined{absl::StrCat("item ", at)});
  }
  if (const auto* text = object.As<Text>()) {
    const std::string_view bytes = text->bytes();
    if (!Spend(line, object.Weight())) return Value();
    const auto length = static_cast<int64_t>(CountChars(bytes));
    if (at < 0) at += length;
    if (at < 0 || at >= length) return Value(Undefined{absl::StrCat("character ", at)});
    size_t begin = 0;
    for (; at > 0; --at) begin += CharBytes(bytes, begin);
    return Value(text->Slice(begin, CharBytes(bytes, begin)));
  }
  return Value(Undefined{absl::StrCat("item ", at)});
}

Value Renderer::EvaluateSlice(const Expression& node) {
  const Value object = Evaluate(*node.children[0]);
  int64_t numbers[3] = {};
  const int64_t* bounds[3] = {};
  for (size_t i = 0; i < 3 && ok(); ++i) {
    if (node.children[i + 1] == nullptr) continue;
    const Value bound = Evaluate(*node.children[i + 1]);
    if (bound.As<None>() != nullptr) continue;
    if (ok() && (bound.As<bool>() != nullptr || !bound.Integer(&numbers[i]))) {
      Fail(node.line, Invalid(absl::StrCat("a slice at ", bound.TypeName())));
    }
    bounds[i] = &numbers[i];
  }
  const int64_t step = bounds[2] == nullptr ? 1 : numbers[2];
  const auto* text = object.As<Text>();
  const auto* list = object.As<List>();
  if (ok() && text == nullptr && list == nullptr) {
    Fail(node.line, Invalid(absl::StrCat("a slice of ", object.TypeName())));
  }
  if (ok() && (step == 0 || step == INT64_MIN || (text != nullptr && step != 1))) {
    Fail(node.line,
         absl::UnimplementedError(absl::StrCat("a slice of ", object.TypeName(), " with the step ",
                                               step, " is not supported")));
  }
  if (!ok()) return Value();
  if (text != nullptr) {
    if (!Spend(node.line, 2 * object.Weight())) return Value();
    const std::string_view bytes = text->bytes();
    const auto length = static_cast<int64_t>(CountChars(bytes));
    const int64_t first = SliceBound(bounds[0], length, true, true);
    const int64_t last = SliceBound(bounds[1], length, true, false);
    size_t at = 0, begin = 0;
    for (int64_t i = 0; i < last; ++i) {
      if (i == first) begin = at;
      at += CharBytes(bytes, at);
    }
    return Value(first < last ? text->Slice(begin, at - begin) : Text());
  }
  const auto& items = (*list)->items;
  const auto length = static_cast<int64_t>(items.size());
  if (!Spend(node.line, 8 * length)) return Value();
  const int64_t first = SliceBound(bounds[0], length, step > 0, true);
  const int64_t last = SliceBound(bounds[1], length, step > 0, false);
  std::vector<Value> taken;
  for (int64_t i = first; step > 0 ? i < last : i > last;) {
    taken.push_back(items[static_cast<size_t>(i)]);
    if (step > 0 ? step >= last - i : step <= last - i) break;
    i += step;
  }
  return Value::OfList(std::move(taken));
}

Value Renderer::EvaluateBinary(const Expression& node) {
  const std::string& name = node.name;
  const Value left = Evaluate(*node.children[0]);
  if (!ok()) return Value();
  if (name == "and" || name == "or") {
    return left.Truthy() == (name == "or") ? left : Evaluate(*node.children[1]);
  }
  const Value right = Evaluate(*node.children[1]);
  if (!ok()) return Value();
  const int line = node.line;
  if (name == "==" || name == "!=") {
    if (!Spend(line, std::min(left.Weight(), right.Weight()))) return Value();
    return Value(Equal(left, right) == (name == "=="));
  }
  if (name == "in" || name == "not in") {
    const int64_t part = left.As<Text>() != nullptr ? left.Weight() : 1;
    if (!Spend(line, right.As<Dict>() != nullptr
                         ? part
                         : right.Weight() * std::min<int64_t>(part, 1 << 20))) {
      return Value();
    }
    absl::StatusOr<bool> found = Contains(right, left);
    if (!found.ok()) {
      Fail(line, found.status());
      return Value();
    }
    return Value(*found == (name == "in"));
  }
  if (name == "<" || name == ">" || name == "<=" || name == ">=") {
    int order = 0;
    const auto* a = left.As<Text>();
    const auto* b = right.As<Text>();
    if (a != nullptr && b != nullptr) {
      if (!Spend(line, std::min(left.Weight(), right.Weight()))) return Value();
      order = a->bytes().compare(b->bytes());
    } else if (left.IsNumber() && right.IsNumber()) {
      int64_t x = 0, y = 0;
      const bool whole = left.Integer(&x) && right.Integer(&y);
      const double p = left.Number(), q = right.Number();
      order = whole ? (x < y ? -1 : x > y) : (p < q ? -1 : p > q);
    } else {
      Fail(line, Invalid(absl::StrCat("comparing ", left.TypeName(), " with ", right.TypeName())));
      return Value();
    }
    const bool holds = name == "<"    ? order < 0
                       : name == ">"  ? order > 0
                       : name == "<=" ? order <= 0
                                      : order >= 0;
    return Value(holds);
  }
  return Arithmetic(line, name, left, right);
}

Value Renderer::Arithmetic(int line, const std::string& name, const Value& left,
                           const Value& right) {
  if (!ok()) return Value();
  const auto* a = left.As<Text>();
  const auto* b = right.As<Text>();
  if (name == "~" || (name == "+" && a != nullptr && b != nullptr)) {
    absl::StatusOr<Text> x = ToText(left), y = ToText(right);
    if (!x.ok() || !y.ok()) {
      Fail(line, x.ok() ? y.status() : x.status());
      return Value();
    }
    if (!Spend(line, static_cast<int64_t>((x->size() + y->size()) / 16))) return Value();
    TextBuilder joined;
    joined.Add(*x);
    joined.Add(*y);
    return Value(std::move(joined).Take());
  }
  const auto* p = left.As<List>();
  const auto* q = right.As<List>();
  if (name == "+" && p != nullptr && q != nullptr) {
    std::vector<Value> items = (*p)->items;
    items.insert(items.end(), (*q)->items.begin(), (*q)->items.end());
    if (!Spend(line, 8 * static_cast<int64_t>(items.size()))) return Value();
    return Value::OfList(std::move(items));
  }
  if (!left.IsNumber() || !right.IsNumber()) {
    Fail(line,
         Invalid(absl::StrCat("'", name, "' of ", left.TypeName(), " and ", right.TypeName())));
    return Value();
  }
  int64_t x = 0, y = 0, z = 0;
  const bool whole = left.Integer(&x) && right.Integer(&y);
  const double s = left.Number(), t = right.Number();
  const bool divides = name == "/" || name == "//" || name == "%";
  if (divides && t == 0) {
    Fail(line, Invalid("division by zero"));
    return Value();
  }
  bool overflow = false;
  if (name == "/") return Value(s / t);
  if (!whole) {
    if (name == "+") return Value(s + t);
    if (name == "-") return Value(s - t);
    if (name == "*") return Value(s * t);
    if (name == "//") return Value(std::floor(s / t));
    return Value(s - std::floor(s / t) * t);
  }
  if (name == "+") {
    overflow = __builtin_add_overflow(x, y, &z);
  } else if (name == "-") {
    overflow = __builtin_sub_overflow(x, y, &z);
  } else if (name == "*") {
    overflow = __builtin_mul_overflow(x, y, &z);
  } else if (x == INT64_MIN && y == -1) {
    overflow = name == "//";
  } else {  // rounded down, as Python does
    const int64_t rest = x % y;
    const bool down = rest != 0 && (rest < 0) != (y < 0);
    z = name == "//" ? x / y - (down ? 1 : 0) : rest + (down ? y : 0);
  }
  if (overflow) Fail(line, absl::UnimplementedError("an integer beyond 64 bits is not supported"));
  return Value(z);
}

Arguments Renderer::EvaluateArguments(const Expression& node, size_t skip) {
  Arguments arguments;
  const size_t named = node.children.size() - node.keywords.size();
  for (size_t i = skip; i < node.children.size(); ++i) {
    Value value = Evaluate(*node.children[i]);
    if (i < named) {
      arguments.positional.push_back(std::move(value));
    } else {
      arguments.named.emplace_back(node.keywords[i - named], std::move(value));
    }
  }
  return arguments;
}

Value Renderer::EvaluateBuiltin(const Expression& node) {
  const Value value = Evaluate(*node.children[0]);
  const Arguments arguments = EvaluateArguments(node, 1);
  if (!ok()) return Value();
  int64_t cost = Cost(value, node.name);
  for (const Value& argument : arguments.positional) {
    if (argument.As<Text>() != nullptr) cost *= std::min<int64_t>(argument.Weight(), 1 << 20);
  }
  if (!Spend(node.line, cost)) return Value();
  if (node.kind == ExpressionKind::kTest) {
    absl::StatusOr<bool> holds = ApplyTest(node.name, value, arguments);
    if (!holds.ok()) {
      Fail(node.line, holds.status());
      return Value();
    }
    return Value(*holds != node.negated);
  }
  if (node.kind == ExpressionKind::kMethod) {
    if (const auto* missing = value.As<Undefined>()) {
      Fail(node.line, Invalid(absl::StrCat("'", missing->name, "' is undefined")));
      return Value();
    }
    Value result = Take(node.line, CallMethod(node.name, value, arguments));
    return Spend(node.line, result.Weight()) ? result : Value();
  }
  Value result = Take(node.line, ApplyFilter(node.name, value, arguments));
  const bool made = result.As<Text>() != nullptr || node.name == "reverse" || node.name == "items";
  return !made || Spend(node.line, result.Weight()) ? result : Value();
}

Value Renderer::EvaluateCall(const Expression& node) {
  const int line = node.line;
  const Value callee = Find(node.name);
  const Arguments arguments = EvaluateArguments(node, 0);
  if (!ok()) return Value();
  if (const auto* macro = callee.As<Macro>()) return CallMacro(line, *macro->definition, arguments);
  if (!callee.IsUndefined()) {
    Fail(line, Invalid(absl::StrCat("a call of '", node.name, "', which is ", callee.TypeName())));
    return Value();
  }
  if (node.name == "range") return CallRange(line, arguments);
  if (node.name == "namespace") {
    Namespace made{std::make_shared<Entries>()};
    if (!arguments.positional.empty()) {
      Fail(line, absl::UnimplementedError("namespace(mapping) is not supported"));
    }
    for (const auto& [name, value] : arguments.named) {
      if (!CheckData(line, value)) return Value();
      made.entries->Set(name, value);
    }
    return Value(std::move(made));
  }
  if (node.name == "raise_exception") {
    absl::StatusOr<Text> text = arguments.positional.empty() ? absl::StatusOr<Text>(Text())
                                                             : ToText(arguments.positional[0]);
    Fail(line, text.ok() ? Invalid(absl::StrCat("the template refuses the chat: ",
                                                std::string(text->bytes().substr(0, 1000))))
                         : text.status());
    return Value();
  }
  Fail(line,
       absl::UnimplementedError(absl::StrCat("the function '", node.name, "' is not supported")));
  return Value();
}

Value Renderer::CallRange(int line, const Arguments& arguments) {
  int64_t numbers[3] = {0, 0, 1};
  const size_t count = arguments.positional.size();
  bool fits = arguments.named.empty() && count >= 1 && count <= 3;
  for (size_t i = 0; i < count && fits; ++i) {
    fits = arguments.positional[i].Integer(&numbers[count == 1 ? 1 : i]);
    fits = fits && std::abs(numbers[count == 1 ? 1 : i]) < int64_t{1} << 60;
  }
  if (!fits || numbers[2] == 0) {
    Fail(line, Invalid("range wants one to three integers"));
    return Value();
  }
  std::vector<Value> items;
  for (int64_t i = numbers[0]; numbers[2] > 0 ? i < numbers[1] : i > numbers[1]; i += numbers[2]) {
    if (static_cast<int64_t>(items.size()) == kMaxRange) {
      Fail(line, absl::ResourceExhaustedError(
                     absl::StrCat("a range of more than ", kMaxRange, " numbers")));
      return Value();
    }
    items.emplace_back(i);
  }
  if (!Spend(line, 8 * static_cast<int64_t>(items.size()))) return Value();
  return Value::OfList(std::move(items));
}

Value Renderer::CallMacro(int line, const Statement& macro, const Arguments& arguments) {
  const size_t count = macro.targets.size();
  if (arguments.positional.size() > count) {
    Fail(line, Invalid(absl::StrCat("macro ", macro.name, " takes ", count, " arguments")));
    return Value();
  }
  if (++macro_depth_ > kMaxMacroDepth) {
    Fail(line, absl::ResourceExhaustedError(
                   absl::StrCat("macros call each other deeper than ", kMaxMacroDepth)));
    return Value();
  }
  // A macro sees what the template set at its top and its own names.
  std::vector<Scope> outer(std::make_move_iterator(scopes_.begin() + 1),
                           std::make_move_iterator(scopes_.end()));
  scopes_.resize(1);
  scopes_.emplace_back();
  std::vector<bool> given(count, false);
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    SetIn(&scopes_.back(), macro.targets[i], arguments.positional[i]);
    given[i] = true;
  }
  for (const auto& [name, value] : arguments.named) {
    size_t at = 0;
    while (at < count && macro.targets[at] != name) ++at;
    if (at == count || given[at]) {
      Fail(line, Invalid(absl::StrCat("macro ", macro.name, " has no place for '", name, "'")));
      break;
    }
    SetIn(&scopes_.back(), name, value);
    given[at] = true;
  }
  const size_t first_default = count - macro.expressions.size();
  for (size_t i = 0; i < count && ok(); ++i) {
    if (given[i]) continue;
    Value value = i >= first_default ? Evaluate(*macro.expressions[i - first_default])
                                     : Value(Undefined{macro.targets[i]});
    SetIn(&scopes_.back(), macro.targets[i], std::move(value));
  }
  const int loop_depth = std::exchange(loop_depth_, 0);
  Value text = ok() ? Capture(line, macro.blocks[0]) : Value();
  loop_depth_ = loop_depth;
  scopes_.resize(1);
  scopes_.insert(scopes_.end(), std::make_move_iterator(outer.begin()),
                 std::make_move_iterator(outer.end()));
  --macro_depth_;
  return text;
}

}  // namespace rserve::model::jinja
