// make_tiny_model FOLDER: writes the tests' tiny model and two pictures, for programs of other
// languages.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "tests/engine/tiny_model.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  const std::string folder = argv[1];
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!rserve::testing::WriteTinyModel(RSERVE_SOURCE_DIR, folder)) return 1;
  for (const char* name : {"a", "b"}) {
    const std::vector<uint8_t> png =
        rserve::testing::TestPng(40, 24, static_cast<uint64_t>(name[0]));
    std::ofstream file(folder + "/" + name + ".png", std::ios::binary);
    file.write(reinterpret_cast<const char*>(png.data()), static_cast<std::streamsize>(png.size()));
    if (!file.good()) return 1;
  }
  return 0;
}
