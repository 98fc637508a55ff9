// The GPT-2 alphabet: each byte written as one printable character, as vocabularies store tokens.

#ifndef RSERVE_SRC_MODEL_SPEC_BYTE_LEVEL_H_
#define RSERVE_SRC_MODEL_SPEC_BYTE_LEVEL_H_

#include <optional>
#include <string>
#include <string_view>

namespace rserve::model {

// The bytes that `token` writes ("Ġthe" is " the"), or nullopt when a character of it is none of
// the alphabet's 256 or it is not UTF-8.
std::optional<std::string> ByteLevelDecode(std::string_view token);

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_BYTE_LEVEL_H_
