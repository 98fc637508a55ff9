// The filters, tests and methods of strings and mappings that templates may use.

#ifndef RSERVE_SRC_MODEL_SPEC_JINJA_BUILTINS_H_
#define RSERVE_SRC_MODEL_SPEC_JINJA_BUILTINS_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/model/spec/jinja/value.h"

namespace rserve::model::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Whether there is such a one at all; the parser asks.
bool IsFilter(std::string_view name);
bool IsTest(std::string_view name);
bool IsMethod(std::string_view name);

// INVALID_ARGUMENT, without a line, for a value or arguments that do not go with it.
absl::StatusOr<Value> ApplyFilter(std::string_view name, const Value& value,
                                  const Arguments& arguments);
absl::StatusOr<bool> ApplyTest(std::string_view name, const Value& value,
                               const Arguments& arguments);
absl::StatusOr<Value> CallMethod(std::string_view name, const Value& value,
                                 const Arguments& arguments);

// Python's str(): what printing a value writes. Numbers and booleans are nobody's words but the
// template's. UNIMPLEMENTED for lists and mappings.
absl::StatusOr<Text> ToText(const Value& value);
// Python's `needle in value`.
absl::StatusOr<bool> Contains(const Value& value, const Value& needle);
// What a for loop goes over: items of a list, keys of a mapping, characters of a string, nothing of
// what is undefined.
absl::StatusOr<List> Iterate(const Value& value);

}  // namespace rserve::model::jinja

#endif  // RSERVE_SRC_MODEL_SPEC_JINJA_BUILTINS_H_
