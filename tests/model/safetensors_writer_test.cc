#include "src/model/weights/safetensors_writer.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "src/model/weights/half.h"
#include "tests/model/temp_folder.h"

namespace rserve::model {
namespace {

TEST_CASE("every f16 and bf16 value widens and narrows to itself") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    CAPTURE(bits);
    const float from_bf16 = BF16ToF32(half);
    const float from_f16 = F16ToF32(half);
    if (std::isnan(from_bf16)) {
      REQUIRE(std::isnan(BF16ToF32(F32ToBF16(from_bf16))));
    } else {
      REQUIRE(F32ToBF16(from_bf16) == half);
    }
    if (std::isnan(from_f16)) {
      REQUIRE(std::isnan(F16ToF32(F32ToF16(from_f16))));
    } else {
      REQUIRE(F32ToF16(from_f16) == half);
    }
  }
  CHECK(F16ToF32(0x3555) == Approx(1.0f / 3.0f).epsilon(1e-3));
  CHECK(F16ToF32(0x7BFF) == 65504.0f);
  CHECK(F16ToF32(0x0001) == 0x1p-24f);
  CHECK(F16ToF32(0x8001) == -0x1p-24f);
}

TEST_CASE("narrowing takes the nearest value, of two as near the even one") {
  // Between each value and the next: below, at and above the middle.
  for (uint32_t bits = 0; bits < 0x7BFF; ++bits) {
    const float low = F16ToF32(static_cast<uint16_t>(bits));
    const float high = F16ToF32(static_cast<uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;  // exact
    CAPTURE(bits);
    REQUIRE(F32ToF16(std::nextafter(middle, low)) == bits);
    REQUIRE(F32ToF16(std::nextafter(middle, high)) == bits + 1);
    REQUIRE(F32ToF16(middle) == bits + (bits & 1));
    REQUIRE(F32ToF16(-middle) == (0x8000 | (bits + (bits & 1))));
  }
  for (uint32_t bits = 0; bits < 0x7F7F; ++bits) {
    const float middle = std::bit_cast<float>(bits << 16 | 0x8000u);
    const float low = BF16ToF32(static_cast<uint16_t>(bits));
    CAPTURE(bits);
    REQUIRE(F32ToBF16(std::nextafter(middle, low)) == bits);
    REQUIRE(F32ToBF16(middle) == bits + (bits & 1));
    REQUIRE(F32ToBF16(std::nextafter(middle, std::numeric_limits<float>::infinity())) == bits + 1);
  }
  CHECK(F32ToF16(65519.996f) == 0x7BFF);
  CHECK(F32ToF16(65520.0f) == 0x7C00);
  CHECK(F32ToF16(1e30f) == 0x7C00);
  CHECK(F32ToF16(-std::numeric_limits<float>::infinity()) == 0xFC00);
  CHECK(F32ToBF16(std::numeric_limits<float>::max()) == 0x7F80);
}

TEST_CASE("a written file reads back with every dtype, in pieces of any size") {
  const TempFolder folder;
  const TensorSpec specs[] = {{"w.f32", DType::kF32, {3, 50}},
                              {"w.bf16", DType::kBF16, {7}},
                              {"w.f16", DType::kF16, {20000}},
                              {"scalar", DType::kF32, {}}};
  std::mt19937 random(7);
  std::vector<float> values(150 + 7 + 20000 + 1);
  for (float& value : values) value = static_cast<float>(random()) * 0x1p-31f - 1.0f;
  auto writer = SafetensorsWriter::Create(folder.File("model.safetensors"), specs);
  REQUIRE(writer.ok());
  for (size_t done = 0, step = 1; done < values.size(); done += step, step *= 3) {
    step = std::min(step, values.size() - done);
    REQUIRE((*writer)->Append({values.data() + done, step}).ok());
  }
  CHECK_FALSE(std::filesystem::exists(folder.File("model.safetensors")));
  REQUIRE((*writer)->Finish().ok());
  CHECK((*writer)->Finish().code() == absl::StatusCode::kFailedPrecondition);
  CHECK_FALSE(std::filesystem::exists(folder.File("model.safetensors.part")));

  const auto checkpoint = Checkpoint::Open(folder.path());
  REQUIRE(checkpoint.ok());
  size_t offset = 0;
  for (const TensorSpec& spec : specs) {
    const auto view = (*checkpoint)->Get(spec.name, spec.shape);
    CAPTURE(spec.name);
    REQUIRE(view.ok());
    CHECK(view->dtype == spec.dtype);
    std::vector<float> read(static_cast<size_t>(view->elements));
    WidenToF32(*view, 0, view->elements, read.data());
    for (size_t i = 0; i < read.size(); ++i, ++offset) {
      const float want = spec.dtype == DType::kF32    ? values[offset]
                         : spec.dtype == DType::kBF16 ? BF16ToF32(F32ToBF16(values[offset]))
                                                      : F16ToF32(F32ToF16(values[offset]));
      REQUIRE(read[i] == want);
    }
  }
}

TEST_CASE("a writer that is not finished leaves no file") {
  const TempFolder folder;
  const TensorSpec spec{"t", DType::kF32, {4}};
  {
    auto writer = SafetensorsWriter::Create(folder.File("x"), {spec});
    REQUIRE(writer.ok());
    const float values[3] = {1, 2, 3};
    REQUIRE((*writer)->Append(values).ok());
    const absl::Status status = (*writer)->Finish();
    CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
    CHECK(status.ToString().find("tensor t has 3 values of 4") != std::string::npos);
    CHECK((*writer)->Append(values).code() == absl::StatusCode::kOutOfRange);
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("bad declarations are refused") {
  const TempFolder folder;
  const std::vector<TensorSpec> bad[] = {
      {{"", DType::kF32, {1}}},
      {{"__metadata__", DType::kF32, {1}}},
      {{"a\xff", DType::kF32, {1}}},
      {{"a", DType::kF32, {1}}, {"a", DType::kF32, {1}}},
      {{"a", DType::kF32, {0}}},
      {{"a", DType::kF32, {-1}}},
      {{"a", DType::kF32, {int64_t{1} << 40, int64_t{1} << 40}}}};
  for (const auto& specs : bad) {
    CAPTURE(specs[0].name);
    CHECK(SafetensorsWriter::Create(folder.File("x"), specs).status().code() ==
          absl::StatusCode::kInvalidArgument);
  }
  CHECK_FALSE(SafetensorsWriter::Create(folder.File("no/such/folder"), {}).ok());
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace rserve::model
