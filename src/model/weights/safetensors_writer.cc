#include "src/model/weights/safetensors_writer.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/model/weights/half.h"
#include "src/model/weights/safetensors_header.h"

namespace rserve::model {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "values are written as they lie");

constexpr size_t kBlockValues = 16384;  // converted and written at once

bool IsGoodName(const std::string& name) {
  return !name.empty() && name != "__metadata__" &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > 0x20 && c < 0x7F; });
}

absl::Status Elements(const TensorSpec& tensor, int64_t* elements) {
  *elements = 1;
  for (const int64_t size : tensor.shape) {
    // Leaves room for the sum of all tensors' bytes in 63 bits for any file a disk can hold.
    if (size < 1 || size > (std::numeric_limits<int64_t>::max() >> 8) / *elements) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", tensor.name, ": shape has the size ", size));
    }
    *elements *= size;
  }
  return absl::OkStatus();
}

}  // namespace

struct SafetensorsWriter::Impl {
  std::string path;
  std::string part_path;
  std::FILE* file = nullptr;
  std::vector<TensorSpec> tensors;
  std::vector<int64_t> elements;
  size_t current = 0;   // tensor that the next value belongs to
  int64_t written = 0;  // values of it that are written

  ~Impl() {
    if (file == nullptr) return;
    std::fclose(file);
    std::remove(part_path.c_str());
  }

  absl::Status Write(const void* bytes, size_t size) {
    if (std::fwrite(bytes, 1, size, file) == size) return absl::OkStatus();
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", part_path));
  }

  absl::Status WriteHeader(const std::map<std::string, std::string>& metadata) {
    json header = json::object();
    if (!metadata.empty()) header["__metadata__"] = metadata;
    int64_t begin = 0;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const int64_t bytes = elements[i] * DTypeSize(tensors[i].dtype);
      if (bytes > std::numeric_limits<int64_t>::max() - begin) {
        return absl::InvalidArgumentError("the tensors take more than 2^63 bytes");
      }
      header[tensors[i].name] = {{"dtype", std::string(DTypeName(tensors[i].dtype))},
                                 {"shape", tensors[i].shape},
                                 {"data_offsets", {begin, begin + bytes}}};
      begin += bytes;
    }
    std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
    text.append((8 - text.size() % 8) % 8, ' ');  // the data begins at a multiple of 8
    if (text.size() > kMaxSafetensorsHeaderBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the header takes ", text.size(), " bytes, the limit is ", kMaxSafetensorsHeaderBytes));
    }
    uint8_t length[8];
    for (int i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(text.size() >> (8 * i));
    absl::Status status = Write(length, sizeof(length));
    return status.ok() ? Write(text.data(), text.size()) : status;
  }

  absl::Status WriteValues(const float* values, size_t count, DType dtype) {
    if (dtype == DType::kF32) return Write(values, count * sizeof(float));
    uint16_t block[kBlockValues];
    for (size_t i = 0; i < count; ++i) {
      block[i] = dtype == DType::kBF16 ? F32ToBF16(values[i]) : F32ToF16(values[i]);
    }
    return Write(block, count * sizeof(uint16_t));
  }

  void SkipComplete() {
    while (current < tensors.size() && written == elements[current]) {
      ++current;
      written = 0;
    }
  }
};

SafetensorsWriter::SafetensorsWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SafetensorsWriter::~SafetensorsWriter() = default;

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    const std::string& path, absl::Span<const TensorSpec> tensors,
    const std::map<std::string, std::string>& metadata) {
  auto impl = std::make_unique<Impl>();
  impl->tensors.assign(tensors.begin(), tensors.end());
  std::set<std::string_view> names;
  for (const TensorSpec& tensor : impl->tensors) {
    if (!IsGoodName(tensor.name) || !names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor name \"", tensor.name, "\" is given twice, reserved or not of printable ASCII"));
    }
    int64_t elements = 0;
    if (absl::Status status = Elements(tensor, &elements); !status.ok()) return status;
    impl->elements.push_back(elements);
  }
  impl->path = path;
  impl->part_path = path + ".part";
  impl->file = std::fopen(impl->part_path.c_str(), "wb");
  if (impl->file == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", impl->part_path));
  }
  if (absl::Status status = impl->WriteHeader(metadata); !status.ok()) return status;
  return std::unique_ptr<SafetensorsWriter>(new SafetensorsWriter(std::move(impl)));
}

absl::Status SafetensorsWriter::Append(absl::Span<const float> values) {
  size_t done = 0;
  while (done < values.size()) {
    impl_->SkipComplete();
    if (impl_->current == impl_->tensors.size()) {
      return absl::OutOfRangeError(
          absl::StrCat(values.size() - done, " values more than the declared tensors take"));
    }
    const int64_t missing = impl_->elements[impl_->current] - impl_->written;
    const size_t count = static_cast<size_t>(std::min<int64_t>(
        missing, static_cast<int64_t>(std::min(values.size() - done, kBlockValues))));
    absl::Status status =
        impl_->WriteValues(values.data() + done, count, impl_->tensors[impl_->current].dtype);
    if (!status.ok()) return status;
    impl_->written += static_cast<int64_t>(count);
    done += count;
  }
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Finish() {
  if (impl_->file == nullptr) return absl::FailedPreconditionError("the file is finished already");
  impl_->SkipComplete();
  if (impl_->current < impl_->tensors.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("tensor ", impl_->tensors[impl_->current].name, " has ", impl_->written,
                     " values of ", impl_->elements[impl_->current]));
  }
  std::FILE* const file = std::exchange(impl_->file, nullptr);
  const bool closed = std::fclose(file) == 0;
  if (!closed || std::rename(impl_->part_path.c_str(), impl_->path.c_str()) != 0) {
    absl::Status status = absl::ErrnoToStatus(errno, absl::StrCat("cannot complete ", impl_->path));
    std::remove(impl_->part_path.c_str());
    return status;
  }
  return absl::OkStatus();
}

}  // namespace rserve::model
