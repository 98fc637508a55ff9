#include "src/model/weights/checkpoint.h"

#include <sys/stat.h>

#include <cstring>
#include <string>

#include "tests/model/temp_folder.h"

namespace rserve::model {
namespace {

// A file of the given header text and data.
std::string File(const std::string& header, const std::string& data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(header.size() >> (8 * i) & 0xFF));
  return bytes + header + data;
}

std::string Floats(std::initializer_list<float> values) {
  std::string bytes;
  for (const float value : values) {
    char raw[4];
    std::memcpy(raw, &value, sizeof(raw));
    bytes.append(raw, sizeof(raw));
  }
  return bytes;
}

constexpr char kTwo[] =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[1,2],"data_offsets":[2,10]},)"
    R"("a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}})";

TEST_CASE("tensors of one file are found with their shapes and bytes, aligned or not") {
  const TempFolder folder;
  folder.Write("model.safetensors", File(kTwo, "\x80\x3f" + Floats({2.5f, -3.0f})));
  const auto checkpoint = Checkpoint::Open(folder.path());
  REQUIRE(checkpoint.ok());
  CHECK((*checkpoint)->Names() == std::vector<std::string>{"a", "b"});
  CHECK((*checkpoint)->total_bytes() == 10);
  CHECK((*checkpoint)->Has("a"));
  CHECK_FALSE((*checkpoint)->Has("c"));
  const auto a = (*checkpoint)->Get("a", {});
  REQUIRE(a.ok());
  CHECK(a->dtype == DType::kBF16);
  CHECK(a->elements == 1);
  const auto b = (*checkpoint)->Get("b", {1, 2});
  REQUIRE(b.ok());
  float values[2] = {};
  WidenToF32(*a, 0, 1, values);
  CHECK(values[0] == 1.0f);
  WidenToF32(*b, 0, 2, values);
  CHECK(values[0] == 2.5f);
  WidenToF32(*b, 1, 1, values);
  CHECK(values[0] == -3.0f);
}

TEST_CASE("a missing tensor and a wrong shape are named") {
  const TempFolder folder;
  folder.Write("model.safetensors", File(kTwo, std::string(10, 'x')));
  const auto checkpoint = Checkpoint::Open(folder.path());
  REQUIRE(checkpoint.ok());
  const auto missing = (*checkpoint)->Get("model.norm.weight").status();
  CHECK(missing.code() == absl::StatusCode::kNotFound);
  CHECK(missing.ToString().find("model.norm.weight") != std::string::npos);
  const auto shape = (*checkpoint)->Get("b", {2, 1}).status();
  CHECK(shape.code() == absl::StatusCode::kInvalidArgument);
  CHECK(shape.ToString().find("[1, 2], want [2, 1]") != std::string::npos);
}

TEST_CASE("every fault of a header is refused with the number that is wrong") {
  const auto tensor = [](const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
    return R"({"t":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
           "}}";
  };
  const std::string f32 = R"("F32")";
  const std::string huge = "\xff\xff\xff\xff\xff\xff\xff\x7f";
  const std::string eight(8, 'd');
  const std::string shape_sum = R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)";
  const std::pair<std::string, std::string> faults[] = {
      {"", "has 0 bytes"},
      {"1234567", "has 7 bytes"},
      {huge + "{}", "header length 9223372036854775807"},
      {std::string(8, '\xff') + "{}", "header length 18446744073709551615"},
      {std::string("\x01\xe1\xf5\x05\0\0\0\0", 8) + "{}", "above the limit 100000000"},
      {std::string("\x03\0\0\0\0\0\0\0", 8) + "{}", "header length 3 is beyond the file's 10"},
      {File("", ""), "no JSON object"},
      {File("{", ""), "no JSON object"},
      {File("[]", ""), "no JSON object"},
      {File("{\"t\xff\":1}", ""), "no JSON object"},
      {File(std::string(100, '['), ""), "nested deeper"},
      {File(R"({"__metadata__":{"a":1}})", ""), "__metadata__"},
      {File(R"({"__metadata__":[]})", ""), "__metadata__"},
      {File(R"({"t":5})", ""), "tensor t: is 5"},
      {File(R"({"":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abcd"), "0 bytes"},
      {File(tensor("\"F33\"", "[2]", "[0,8]"), eight), "unknown dtype \"F33\""},
      {File(tensor("4", "[2]", "[0,8]"), eight), "unknown dtype 4"},
      {File(R"({"t":{"shape":[2],"data_offsets":[0,8]}})", eight), "unknown dtype missing"},
      {File(tensor(f32, "[0]", "[0,0]"), ""), "size 0"},
      {File(tensor(f32, "[2,0,7]", "[0,0]"), eight), "size 0"},
      {File(tensor(f32, "[-2]", "[0,8]"), eight), "size -2"},
      {File(tensor(f32, "[2.0]", "[0,8]"), eight), "size 2.0"},
      {File(tensor(f32, "2", "[0,8]"), eight), "shape is no list"},
      {File(tensor(f32, "[1,1,1,1,1,1,1,1,2]", "[0,8]"), eight), "at most 8"},
      // 2^32 x 2^32 would wrap to 0, 2^62 x 4 bytes as well.
      {File(tensor(f32, "[4294967296,4294967296]", "[0,0]"), ""), "more elements"},
      {File(tensor(f32, "[4611686018427387904]", "[0,0]"), ""), "more elements"},
      {File(tensor(f32, "[18446744073709551615]", "[0,8]"), eight), "more elements"},
      {File(tensor(f32, "[3]", "[0,8]"), eight), "hold 8 bytes, shape and dtype take 12"},
      {File(tensor(f32, "[2]", "[8,0]"), eight), "data_offsets [8,0]"},
      {File(tensor(f32, "[2]", "[0,9]"), eight), "with 8 bytes of data"},
      {File(tensor(f32, "[2]", "[4,12]"), eight), "with 8 bytes of data"},
      {File(tensor(f32, "[2]", "[18446744073709551608,18446744073709551615]"), eight),
       "with 8 bytes of data"},
      {File(tensor(f32, "[2]", "[0]"), eight), "no pair"},
      {File(tensor(f32, "[2]", "[-1,7]"), eight), "no pair"},
      {File(tensor(f32, "[2]", "[0,8]"), "1234567"), "with 7 bytes of data"},
      {File(tensor(f32, "[1]", "[4,8]"), eight), "leaves a gap"},
      {File(tensor(f32, "[1]", "[0,4]"), eight), "the tensors end at byte"},
      {File("{}", "x"), "the tensors end at byte"},
      {File(shape_sum + R"("u":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abcd"),
       "overlaps"},
      {File(shape_sum + R"("u":{"dtype":"F32","shape":[1],"data_offsets":[3,7]}})", "abcdefg"),
       "overlaps"},
      {File(shape_sum + R"("t":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", eight),
       "given twice"},
  };
  for (const auto& [bytes, finding] : faults) {
    const TempFolder folder;
    folder.Write("model.safetensors", bytes);
    const absl::Status status = Checkpoint::Open(folder.path()).status();
    CAPTURE(finding, status.ToString());
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(status.ToString().find(finding) != std::string::npos);
    CHECK(status.ToString().find("model.safetensors") != std::string::npos);
  }
}

TEST_CASE("dtypes of the format that are not supported are unimplemented, with their name") {
  const TempFolder folder;
  folder.Write("model.safetensors",
               File(R"({"t":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})", "12345678"));
  const absl::Status status = Checkpoint::Open(folder.path()).status();
  CHECK(status.code() == absl::StatusCode::kUnimplemented);
  CHECK(status.ToString().find("tensor t: dtype I64") != std::string::npos);
}

TEST_CASE("every truncation of a file is refused") {
  const std::string bytes = File(kTwo, "\x80\x3f" + Floats({2.5f, -3.0f}));
  const TempFolder folder;
  for (size_t size = 0; size < bytes.size(); ++size) {
    folder.Write("model.safetensors", bytes.substr(0, size));
    CAPTURE(size);
    CHECK_FALSE(Checkpoint::Open(folder.path()).ok());
  }
}

TEST_CASE("every flipped byte of a header gives a status or the same tensors' bounds") {
  const std::string bytes = File(kTwo, "\x80\x3f" + Floats({2.5f, -3.0f}));
  const TempFolder folder;
  for (size_t at = 0; at < bytes.size() - 10; ++at) {
    for (const char flip : {'\x01', '\x10', '\x80'}) {
      std::string altered = bytes;
      altered[at] ^= flip;
      folder.Write("model.safetensors", altered);
      const auto checkpoint = Checkpoint::Open(folder.path());
      if (!checkpoint.ok()) continue;
      for (const std::string& name : (*checkpoint)->Names()) {
        const TensorView view = *(*checkpoint)->Get(name);
        std::vector<float> values(static_cast<size_t>(view.elements));
        WidenToF32(view, 0, view.elements, values.data());
      }
    }
  }
}

// Two shards with one tensor each, and their index.
void WriteShards(const TempFolder& folder, const std::string& index) {
  folder.Write("s1.safetensors",
               File(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", Floats({1.0f})));
  folder.Write("s2.safetensors",
               File(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", Floats({2.0f})));
  folder.Write("model.safetensors.index.json", index);
}

TEST_CASE("shards are opened as the index says") {
  const TempFolder folder;
  WriteShards(folder, R"({"metadata":{"total_size":8},
                          "weight_map":{"a":"s1.safetensors","b":"s2.safetensors"}})");
  const auto checkpoint = Checkpoint::Open(folder.path());
  REQUIRE(checkpoint.ok());
  CHECK((*checkpoint)->Names() == std::vector<std::string>{"a", "b"});
  float value = 0.0f;
  WidenToF32(*(*checkpoint)->Get("b"), 0, 1, &value);
  CHECK(value == 2.0f);
}

TEST_CASE("faults of an index are refused with the tensor and the shard") {
  const std::pair<std::string, std::string> faults[] = {
      {"", "not valid JSON"},
      {"[]", "no weight_map"},
      {R"({"weight_map":{}})", "no weight_map"},
      {R"({"weight_map":[]})", "no weight_map"},
      {R"({"weight_map":{"a":5}})", "tensor a is in 5"},
      {R"({"weight_map":{"a":"../s1.safetensors"}})", "without a path"},
      {R"({"weight_map":{"a":"/etc/passwd"}})", "without a path"},
      {R"({"weight_map":{"a":"x\\y"}})", "without a path"},
      {R"({"weight_map":{"a":".."}})", "without a path"},
      {R"({"weight_map":{"a":""}})", "without a path"},
      {R"({"weight_map":{"a":"s1.safetensors\u0000x"}})", "without a path"},
      {R"({"weight_map":{"a":"s1.safetensors","b":"s3.safetensors"}})", "s3.safetensors"},
      {R"({"weight_map":{"a":"s1.safetensors","c":"s1.safetensors"}})", "has no tensor c"},
      {R"({"weight_map":{"a":"s2.safetensors","b":"s1.safetensors"}})", "in the index as in"},
      {R"({"weight_map":{"a":"s1.safetensors","c":"s2.safetensors"}})", "not in the index"},
  };
  for (const auto& [index, finding] : faults) {
    const TempFolder folder;
    WriteShards(folder, index);
    const absl::Status status = Checkpoint::Open(folder.path()).status();
    CAPTURE(index, status.ToString());
    CHECK_FALSE(status.ok());
    CHECK(status.ToString().find(finding) != std::string::npos);
  }
}

TEST_CASE("folders without weights, and what is no file, are refused") {
  const TempFolder folder;
  CHECK(Checkpoint::Open(folder.path()).status().code() == absl::StatusCode::kNotFound);
  CHECK(Checkpoint::Open(folder.File("absent")).status().code() == absl::StatusCode::kNotFound);
  SECTION("a folder of that name") {
    REQUIRE(mkdir(folder.File("model.safetensors").c_str(), 0700) == 0);
  }
  SECTION("a pipe of that name, which has no writer") {
    REQUIRE(mkfifo(folder.File("model.safetensors").c_str(), 0600) == 0);
  }
  CHECK(Checkpoint::Open(folder.path()).status().code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace rserve::model
