#include "src/model/weights/checkpoint.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/model/json/json_fields.h"
#include "src/model/weights/mapped_file.h"
#include "src/model/weights/safetensors_header.h"

namespace rserve::model {
namespace {

using nlohmann::json;

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr int64_t kMaxIndexBytes = int64_t{64} << 20;
constexpr size_t kMaxShards = 4096;

using TensorMap = std::map<std::string, TensorView, std::less<>>;

std::string ShapeText(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// A shard must lie in the checkpoint's folder itself.
bool IsPlainFileName(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find_first_of(std::string("/\\\0", 3)) == std::string::npos;
}

// Which shard holds each tensor, as the index says.
absl::StatusOr<std::map<std::string, std::string>> ReadIndex(const MappedFile& file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  absl::StatusOr<json> parsed = ParseJson(text, kIndexFile, kMaxIndexBytes);
  if (!parsed.ok()) return parsed.status();
  const auto map = parsed->is_object() ? parsed->find("weight_map") : parsed->end();
  if (!parsed->is_object() || map == parsed->end() || !map->is_object() || map->empty()) {
    return absl::InvalidArgumentError(absl::StrCat(kIndexFile, ": no weight_map of tensors"));
  }
  std::map<std::string, std::string> shard_of;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string() || !IsPlainFileName(shard.get_ref<const std::string&>())) {
      return absl::InvalidArgumentError(absl::StrCat(kIndexFile, ": tensor ", tensor.substr(0, 128),
                                                     " is in ", Describe(shard),
                                                     ", want a file name without a path"));
    }
    shard_of.emplace(tensor, shard.get<std::string>());
  }
  return shard_of;
}

}  // namespace

struct Checkpoint::Impl {
  std::vector<std::unique_ptr<MappedFile>> files;
  TensorMap tensors;
  int64_t total_bytes = 0;

  // Maps one file and takes its tensors in. `shard_of`, when given, must name this file for each.
  absl::Status AddFile(const std::string& folder, const std::string& name,
                       const std::map<std::string, std::string>* shard_of) {
    absl::StatusOr<std::unique_ptr<MappedFile>> file = MappedFile::Open(folder + "/" + name);
    if (!file.ok()) return file.status();
    const absl::Span<const uint8_t> bytes((*file)->data(), (*file)->size());
    absl::StatusOr<std::vector<TensorEntry>> entries = ParseSafetensorsHeader(bytes, name);
    if (!entries.ok()) return entries.status();
    for (TensorEntry& entry : *entries) {
      if (shard_of != nullptr) {
        const auto it = shard_of->find(entry.name);
        if (it == shard_of->end() || it->second != name) {
          return absl::InvalidArgumentError(absl::StrCat(
              name, ": tensor ", entry.name, " is ",
              it == shard_of->end() ? "not in the index" : "in the index as in " + it->second));
        }
      }
      TensorView view;
      view.dtype = entry.dtype;
      view.shape = std::move(entry.shape);
      view.data = (*file)->data() + entry.begin;
      view.elements = entry.elements;
      total_bytes += view.elements * DTypeSize(view.dtype);
      tensors.emplace(std::move(entry.name), std::move(view));
    }
    files.push_back(*std::move(file));
    return absl::OkStatus();
  }

  absl::Status AddShards(const std::string& folder, const MappedFile& index) {
    absl::StatusOr<std::map<std::string, std::string>> shard_of = ReadIndex(index);
    if (!shard_of.ok()) return shard_of.status();
    std::vector<std::string> shards;
    for (const auto& [tensor, shard] : *shard_of) shards.push_back(shard);
    std::sort(shards.begin(), shards.end());
    shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
    if (shards.size() > kMaxShards) {
      return absl::InvalidArgumentError(absl::StrCat(kIndexFile, ": names ", shards.size(),
                                                     " shards, the limit is ", kMaxShards));
    }
    for (const std::string& shard : shards) {
      if (absl::Status status = AddFile(folder, shard, &*shard_of); !status.ok()) return status;
    }
    for (const auto& [tensor, shard] : *shard_of) {
      if (tensors.find(tensor) == tensors.end()) {
        return absl::InvalidArgumentError(absl::StrCat(shard, ": has no tensor ",
                                                       tensor.substr(0, 128), ", which ",
                                                       kIndexFile, " places there"));
      }
    }
    return absl::OkStatus();
  }
};

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpoint::~Checkpoint() = default;

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& folder) {
  auto impl = std::make_unique<Impl>();
  absl::Status status = impl->AddFile(folder, kSingleFile, nullptr);
  if (absl::IsNotFound(status)) {
    absl::StatusOr<std::unique_ptr<MappedFile>> index = MappedFile::Open(folder + "/" + kIndexFile);
    if (absl::IsNotFound(index.status())) {
      return absl::NotFoundError(
          absl::StrCat(folder, " has neither ", kSingleFile, " nor ", kIndexFile));
    }
    if (!index.ok()) return index.status();
    status = impl->AddShards(folder, **index);
  }
  if (!status.ok()) return status;
  return std::unique_ptr<Checkpoint>(new Checkpoint(std::move(impl)));
}

bool Checkpoint::Has(std::string_view name) const {
  return impl_->tensors.find(name) != impl_->tensors.end();
}

absl::StatusOr<TensorView> Checkpoint::Get(std::string_view name) const {
  const auto it = impl_->tensors.find(name);
  if (it == impl_->tensors.end()) {
    return absl::NotFoundError(absl::StrCat("the checkpoint has no tensor ", std::string(name)));
  }
  return it->second;
}

absl::StatusOr<TensorView> Checkpoint::Get(std::string_view name,
                                           absl::Span<const int64_t> shape) const {
  absl::StatusOr<TensorView> view = Get(name);
  if (view.ok() && absl::Span<const int64_t>(view->shape) != shape) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", std::string(name), " has the shape ",
                                                   ShapeText(view->shape), ", want ",
                                                   ShapeText(shape)));
  }
  return view;
}

std::vector<std::string> Checkpoint::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, view] : impl_->tensors) names.push_back(name);
  return names;
}

void Checkpoint::Release(const TensorView& view) const {
  MappedFile::Release(view.data, static_cast<size_t>(view.elements * DTypeSize(view.dtype)));
}

int64_t Checkpoint::total_bytes() const { return impl_->total_bytes; }

}  // namespace rserve::model
