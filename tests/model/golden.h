// Reading the golden files of tests/data/model.

#ifndef RSERVE_TESTS_MODEL_GOLDEN_H_
#define RSERVE_TESTS_MODEL_GOLDEN_H_

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/catch.h"

namespace rserve::model {

inline std::string ReadGolden(const std::string& name) {
  const std::string path = std::string(RSERVE_SOURCE_DIR) + "/tests/data/model/" + name;
  INFO(path);
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

inline nlohmann::json ReadGoldenJson(const std::string& name) {
  nlohmann::json value = nlohmann::json::parse(ReadGolden(name), nullptr, false);
  REQUIRE_FALSE(value.is_discarded());
  return value;
}

}  // namespace rserve::model

#endif  // RSERVE_TESTS_MODEL_GOLDEN_H_
