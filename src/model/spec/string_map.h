// A hash map from strings that is searched with a std::string_view without making a string.
//
// Abseil's own transparent lookup takes absl::string_view, which Debian's build of Abseil keeps
// apart from the standard one.

#ifndef RSERVE_SRC_MODEL_SPEC_STRING_MAP_H_
#define RSERVE_SRC_MODEL_SPEC_STRING_MAP_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace rserve::model {

struct StringViewHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

template <typename Value>
using StringMap = absl::flat_hash_map<std::string, Value, StringViewHash, std::equal_to<>>;

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_STRING_MAP_H_
