#include "src/model/spec/jinja/value.h"

#include <algorithm>

namespace rserve::model::jinja {
namespace {

// The same list may lie in another many times over, so this can grow fast.
int64_t AddWeight(int64_t weight, const Value& item) {
  return std::min(weight + 8 + item.Weight(), int64_t{1} << 40);
}

}  // namespace

const Value* Entries::Find(std::string_view key) const {
  for (const auto& [name, value] : items) {
    if (name == key) return &value;
  }
  return nullptr;
}

void Entries::Set(std::string_view key, Value value) {
  depth = std::max(depth, value.Depth() + 1);
  weight = AddWeight(weight, value);
  for (auto& [name, old] : items) {
    if (name != key) continue;
    old = std::move(value);
    return;
  }
  items.emplace_back(std::string(key), std::move(value));
}

Value Value::OfList(std::vector<Value> items) {
  auto values = std::make_shared<Values>();
  values->items = std::move(items);
  for (const Value& item : values->items) {
    values->depth = std::max(values->depth, item.Depth() + 1);
    values->weight = AddWeight(values->weight, item);
  }
  return Value(List(std::move(values)));
}

int64_t Value::Weight() const {
  if (const auto* text = As<Text>()) return 1 + static_cast<int64_t>(text->size()) / 16;
  if (const auto* list = As<List>()) return (*list)->weight;
  if (const auto* dict = As<Dict>()) return (*dict)->weight;
  return 1;
}

int Value::Depth() const {
  if (const auto* list = As<List>()) return (*list)->depth;
  if (const auto* dict = As<Dict>()) return (*dict)->depth;
  return 0;
}

bool Value::IsData() const {
  return As<Namespace>() == nullptr && As<Loop>() == nullptr && As<Macro>() == nullptr;
}

bool Value::Truthy() const {
  if (const auto* value = As<bool>()) return *value;
  if (const auto* value = As<int64_t>()) return *value != 0;
  if (const auto* value = As<double>()) return *value != 0;
  if (const auto* value = As<Text>()) return !value->empty();
  if (const auto* value = As<List>()) return !(*value)->items.empty();
  if (const auto* value = As<Dict>()) return !(*value)->items.empty();
  return !IsUndefined() && As<None>() == nullptr;
}

const char* Value::TypeName() const {
  constexpr const char* kNames[] = {"undefined",   "none",     "a boolean", "an integer",
                                    "a float",     "a string", "a list",    "a mapping",
                                    "a namespace", "the loop", "a macro"};
  return kNames[storage_.index()];
}

bool Value::IsNumber() const {
  return As<bool>() != nullptr || As<int64_t>() != nullptr || As<double>() != nullptr;
}

double Value::Number() const {
  if (const auto* value = As<double>()) return *value;
  int64_t integer = 0;
  Integer(&integer);
  return static_cast<double>(integer);
}

bool Value::Integer(int64_t* value) const {
  if (const auto* number = As<int64_t>()) {
    *value = *number;
    return true;
  }
  const auto* flag = As<bool>();
  if (flag != nullptr) *value = *flag ? 1 : 0;
  return flag != nullptr;
}

bool Equal(const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) {
    int64_t x = 0, y = 0;
    if (a.Integer(&x) && b.Integer(&y)) return x == y;
    return a.Number() == b.Number();
  }
  if (const auto* x = a.As<Text>()) {
    const auto* y = b.As<Text>();
    return y != nullptr && x->bytes() == y->bytes();
  }
  if (const auto* x = a.As<List>()) {
    const auto* y = b.As<List>();
    if (y == nullptr) return false;
    return std::equal((*x)->items.begin(), (*x)->items.end(), (*y)->items.begin(),
                      (*y)->items.end(), Equal);
  }
  if (const auto* x = a.As<Dict>()) {
    const auto* y = b.As<Dict>();
    if (y == nullptr || (*x)->items.size() != (*y)->items.size()) return false;
    for (const auto& [key, value] : (*x)->items) {
      const Value* other = (*y)->Find(key);
      if (other == nullptr || !Equal(value, *other)) return false;
    }
    return true;
  }
  if (const auto* x = a.As<Namespace>()) {
    const auto* y = b.As<Namespace>();
    return y != nullptr && x->entries == y->entries;
  }
  return (a.IsUndefined() && b.IsUndefined()) ||
         (a.As<None>() != nullptr && b.As<None>() != nullptr);
}

}  // namespace rserve::model::jinja
