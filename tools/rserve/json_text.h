// JSON as text for a file.

#ifndef RSERVE_TOOLS_RSERVE_JSON_TEXT_H_
#define RSERVE_TOOLS_RSERVE_JSON_TEXT_H_

#include <string>

#include "nlohmann/json.hpp"

namespace rserve::tool {

// Names of files need not be UTF-8: what is not becomes U+FFFD, it is no reason to lose a result.
inline std::string JsonText(const nlohmann::json& json, int indent = 1) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_JSON_TEXT_H_
