// A folder for one test's files, removed with it.

#ifndef RSERVE_TESTS_MODEL_TEMP_FOLDER_H_
#define RSERVE_TESTS_MODEL_TEMP_FOLDER_H_

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/catch.h"

namespace rserve::model {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "rserve_model_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream file(File(name), std::ios::binary);
    file << bytes;
    REQUIRE(file.good());
  }

 private:
  std::string path_;
};

}  // namespace rserve::model

#endif  // RSERVE_TESTS_MODEL_TEMP_FOLDER_H_
