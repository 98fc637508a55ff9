// Checks the tokenizer against recorded ids and prints its speed on one core. Not a test: the whole
// vocabulary of a published model is not in this repository (tools/golden/published_tokenizers.py
// and make_qwen_tokenizer.py make the three files).
//
//   rserve_tokenizer_bench tokenizer.json texts.bin ids.bin

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/spec/tokenizer.h"

namespace rserve::model {
namespace {

std::string ReadFile(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// Of this thread's processor time: what others do on the machine does not count.
double Seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Records of a 32-bit count and that many elements.
template <typename Record>
std::vector<Record> ReadRecords(const std::string& data) {
  std::vector<Record> records;
  for (size_t at = 0; at + 4 <= data.size();) {
    uint32_t count = 0;
    std::memcpy(&count, data.data() + at, 4);
    at += 4;
    Record record(count, {});
    const size_t bytes = count * sizeof(record[0]);
    if (bytes > data.size() - at) break;
    std::memcpy(record.data(), data.data() + at, bytes);
    at += bytes;
    records.push_back(std::move(record));
  }
  return records;
}

int Main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s tokenizer.json texts.bin ids.bin\n", argv[0]);
    return 2;
  }
  const std::string json = ReadFile(argv[1]);
  const double load_begin = Seconds();
  const auto tokenizer = Tokenizer::FromJson(json);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.status().ToString().c_str());
    return 1;
  }
  std::printf("load      %8.2f s for %zu bytes\n", Seconds() - load_begin, json.size());
  const auto texts = ReadRecords<std::string>(ReadFile(argv[2]));
  const auto want = ReadRecords<std::vector<int32_t>>(ReadFile(argv[3]));
  int64_t wrong = 0, bytes = 0, tokens = 0;
  std::vector<double> seconds;
  for (int round = 0; round < 5; ++round) {
    const double begin = Seconds();
    bytes = tokens = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto ids = (*tokenizer)->EncodeUserText(texts[i]);
      bytes += static_cast<int64_t>(texts[i].size());
      if (ids.ok()) tokens += static_cast<int64_t>(ids->size());
      if (round == 0 && (!ids.ok() || i >= want.size() || *ids != want[i]) && ++wrong <= 3) {
        std::printf("text %zu differs\n", i);
      }
    }
    seconds.push_back(Seconds() - begin);
  }
  std::sort(seconds.begin(), seconds.end());
  std::printf("texts     %8zu, %lld differ from the recorded ids\n", texts.size(),
              static_cast<long long>(wrong));
  const double megabytes = static_cast<double>(bytes) * 1e-6;
  std::printf("encode    %8.1f MB/s of one core (median of 5; best %.1f), %.2f bytes a token\n",
              megabytes / seconds[2], megabytes / seconds[0],
              static_cast<double>(bytes) / static_cast<double>(tokens));
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace rserve::model

int main(int argc, char** argv) { return rserve::model::Main(argc, argv); }
