// The values that a template's expressions have: those of Python that chat templates meet.

#ifndef RSERVE_SRC_MODEL_SPEC_JINJA_VALUE_H_
#define RSERVE_SRC_MODEL_SPEC_JINJA_VALUE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "src/model/spec/jinja/text.h"

namespace rserve::model::jinja {

struct Statement;
class Value;

struct Undefined {
  std::string name;  // of what is not there, for messages
};
struct None {};

// How deep lists and mappings lie in each other; what goes deeper is refused by who makes it.
inline constexpr int kMaxValueDepth = 64;

// `weight` is what walking through all of it costs, in the renderer's units.
struct Values {
  std::vector<Value> items;
  int depth = 1;
  int64_t weight = 1;
};
using List = std::shared_ptr<const Values>;

// Ordered, as Python's. Keys are few.
struct Entries {
  std::vector<std::pair<std::string, Value>> items;
  int depth = 1;
  int64_t weight = 1;
  const Value* Find(std::string_view key) const;
  void Set(std::string_view key, Value value);
};
using Dict = std::shared_ptr<const Entries>;

// What namespace(...) makes: the only thing that a template can change.
struct Namespace {
  std::shared_ptr<Entries> entries;
};
// `loop` inside of a for.
struct Loop {
  List items;
  int64_t index = 0;  // from 0
  int64_t depth = 0;  // from 0
};
struct Macro {
  const Statement* definition = nullptr;  // of the template, which outlives the rendering
};

class Value {
 public:
  using Storage = std::variant<Undefined, None, bool, int64_t, double, Text, List, Dict, Namespace,
                               Loop, Macro>;

  Value() = default;  // undefined
  template <typename T>
  explicit Value(T value) : storage_(std::move(value)) {}
  static Value Of(std::string bytes, bool trusted) {
    return Value(Text(std::move(bytes), trusted));
  }
  static Value OfList(std::vector<Value> items);

  template <typename T>
  const T* As() const {
    return std::get_if<T>(&storage_);
  }
  bool IsUndefined() const { return As<Undefined>() != nullptr; }
  // Lists and mappings in each other, counted; 0 of anything else.
  int Depth() const;
  // 1, and 1 for every 16 bytes of strings in it and 8 for every item; never above 2^40.
  int64_t Weight() const;
  // Whether it may lie in a list, a mapping or a namespace: what refers to others may not, so that
  // no value is part of itself.
  bool IsData() const;

  // Python's bool().
  bool Truthy() const;
  // For messages: "a list", "a string".
  const char* TypeName() const;
  // A bool, an integer or a float as a number.
  bool IsNumber() const;
  double Number() const;
  // A bool or an integer. False: it is neither.
  bool Integer(int64_t* value) const;

 private:
  Storage storage_;
};

// Python's ==.
bool Equal(const Value& a, const Value& b);

}  // namespace rserve::model::jinja

#endif  // RSERVE_SRC_MODEL_SPEC_JINJA_VALUE_H_
