#include "src/model/weights/safetensors_header.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "src/model/json/json_fields.h"

namespace rserve::model {
namespace {

using nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr int64_t kMaxDims = 8;
constexpr size_t kMaxNameBytes = 1024;
constexpr int64_t kMaxHeaderValues = int64_t{4} << 20;  // about 15 a tensor
constexpr const char* kOtherDTypes[] = {"F64", "I64", "I32", "I16",     "I8",      "U64",
                                        "U32", "U16", "U8",  "F8_E4M3", "F8_E5M2", "BOOL"};

// An entry with its raw end, before the spans are compared with each other.
struct Spanned {
  TensorEntry entry;
  uint64_t end = 0;
};

class HeaderParser {
 public:
  HeaderParser(absl::Span<const uint8_t> file, const std::string& file_name)
      : file_(file), file_name_(file_name) {}

  absl::StatusOr<std::vector<TensorEntry>> Parse() {
    absl::StatusOr<json> header = ReadJson();
    if (!header.ok()) return header.status();
    std::vector<Spanned> tensors;
    for (const auto& [name, object] : header->items()) {
      if (name == "__metadata__") {
        if (absl::Status status = CheckMetadata(object); !status.ok()) return status;
        continue;
      }
      absl::StatusOr<Spanned> tensor = ReadTensor(name, object);
      if (!tensor.ok()) return tensor.status();
      tensors.push_back(*std::move(tensor));
    }
    return Arrange(std::move(tensors));
  }

 private:
  absl::Status Fault(const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat(file_name_, ": ", what));
  }
  absl::Status Fault(const std::string& tensor, const std::string& what) const {
    return Fault(absl::StrCat("tensor ", tensor.substr(0, 128), ": ", what));
  }

  absl::StatusOr<json> ReadJson() {
    if (file_.size() < kLengthBytes) {
      return Fault(absl::StrCat("has ", file_.size(), " bytes, a header length takes 8"));
    }
    uint64_t length = 0;
    for (size_t i = 0; i < kLengthBytes; ++i) length |= uint64_t{file_[i]} << (8 * i);
    if (length > kMaxSafetensorsHeaderBytes) {
      return Fault(absl::StrCat("header length ", length, " is above the limit ",
                                kMaxSafetensorsHeaderBytes));
    }
    if (length > file_.size() - kLengthBytes) {
      return Fault(
          absl::StrCat("header length ", length, " is beyond the file's ", file_.size(), " bytes"));
    }
    data_begin_ = kLengthBytes + length;
    const std::string_view text(reinterpret_cast<const char*>(file_.data()) + kLengthBytes,
                                static_cast<size_t>(length));
    absl::Status status = CheckJsonLimits(text, file_name_ + ": header",
                                          static_cast<int64_t>(kMaxSafetensorsHeaderBytes));
    if (!status.ok()) return status;
    // The parser itself keeps the last of two equal keys, so they are counted as they pass.
    absl::flat_hash_set<std::string> names;
    std::string twice;
    int64_t events = 0;
    const auto watch = [&](int depth, json::parse_event_t event, json& key) {
      if (event == json::parse_event_t::key && depth == 1 && key.is_string() &&
          !names.insert(key.get_ref<const std::string&>()).second) {
        twice = key.get_ref<const std::string&>();
      }
      // What is refused is not stored: a parsed value takes many times the bytes of its text.
      return ++events <= kMaxHeaderValues;
    };
    json header = json::parse(text, watch, /*allow_exceptions=*/false);
    if (events > kMaxHeaderValues) {
      return Fault(absl::StrCat("header has more than ", kMaxHeaderValues, " values"));
    }
    if (header.is_discarded() || !header.is_object()) return Fault("header is no JSON object");
    if (!twice.empty()) return Fault(twice, "the name is given twice");
    return header;
  }

  absl::Status CheckMetadata(const json& object) const {
    const bool strings = object.is_object() && std::all_of(object.begin(), object.end(),
                                                           [](auto& v) { return v.is_string(); });
    return strings ? absl::OkStatus() : Fault("__metadata__ is no object of strings");
  }

  absl::Status ReadDType(const std::string& name, const json& object, DType* dtype) const {
    const auto it = object.find("dtype");
    const std::string text =
        it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
    for (const DType known : {DType::kF32, DType::kF16, DType::kBF16}) {
      if (text == DTypeName(known)) {
        *dtype = known;
        return absl::OkStatus();
      }
    }
    const std::string shown = it == object.end() ? "missing" : Describe(*it);
    for (const char* other : kOtherDTypes) {
      if (text == other) {
        return absl::UnimplementedError(absl::StrCat(file_name_, ": tensor ", name.substr(0, 128),
                                                     ": dtype ", text,
                                                     " is not supported, only F32, F16, BF16"));
      }
    }
    return Fault(name, absl::StrCat("unknown dtype ", shown));
  }

  // The shape and its product; a dimension of 0 is refused, since no weight has one.
  absl::Status ReadShape(const json& object, TensorEntry* entry) const {
    const auto it = object.find("shape");
    if (it == object.end() || !it->is_array() || it->size() > static_cast<size_t>(kMaxDims)) {
      return Fault(entry->name, absl::StrCat("shape is no list of at most ", kMaxDims, " sizes"));
    }
    const int64_t limit = static_cast<int64_t>(file_.size());  // no element is below one byte
    entry->elements = 1;
    for (const json& dim : *it) {
      if (!dim.is_number_unsigned() || dim.get<uint64_t>() == 0) {
        return Fault(entry->name,
                     absl::StrCat("shape ", Describe(*it), " has the size ", Describe(dim)));
      }
      const uint64_t size = dim.get<uint64_t>();
      if (size > static_cast<uint64_t>(limit / entry->elements)) {
        return Fault(entry->name, absl::StrCat("shape ", Describe(*it),
                                               " has more elements than the file bytes, ", limit));
      }
      entry->elements *= static_cast<int64_t>(size);
      entry->shape.push_back(static_cast<int64_t>(size));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Spanned> ReadTensor(const std::string& name, const json& object) const {
    if (name.empty() || name.size() > kMaxNameBytes) {
      return Fault(name,
                   absl::StrCat("the name has ", name.size(), " bytes, want 1 to ", kMaxNameBytes));
    }
    if (!object.is_object()) return Fault(name, absl::StrCat("is ", Describe(object)));
    Spanned tensor;
    tensor.entry.name = name;
    absl::Status status = ReadDType(name, object, &tensor.entry.dtype);
    if (status.ok()) status = ReadShape(object, &tensor.entry);
    if (!status.ok()) return status;

    const auto it = object.find("data_offsets");
    if (it == object.end() || !it->is_array() || it->size() != 2 ||
        !(*it)[0].is_number_unsigned() || !(*it)[1].is_number_unsigned()) {
      return Fault(name, "data_offsets is no pair of offsets");
    }
    const uint64_t begin = (*it)[0].get<uint64_t>();
    const uint64_t end = (*it)[1].get<uint64_t>();
    const uint64_t data_bytes = file_.size() - data_begin_;
    if (begin > end || end > data_bytes) {
      return Fault(name, absl::StrCat("data_offsets ", Describe(*it), " with ", data_bytes,
                                      " bytes of data in the file"));
    }
    // No overflow: the number of elements is at most that of the file's bytes.
    const uint64_t want = static_cast<uint64_t>(tensor.entry.elements) *
                          static_cast<uint64_t>(DTypeSize(tensor.entry.dtype));
    if (end - begin != want) {
      return Fault(name, absl::StrCat("data_offsets ", Describe(*it), " hold ", end - begin,
                                      " bytes, shape and dtype take ", want));
    }
    tensor.entry.begin = data_begin_ + begin;
    tensor.end = data_begin_ + end;
    return tensor;
  }

  absl::StatusOr<std::vector<TensorEntry>> Arrange(std::vector<Spanned> tensors) const {
    std::sort(tensors.begin(), tensors.end(),
              [](const Spanned& a, const Spanned& b) { return a.entry.begin < b.entry.begin; });
    std::vector<TensorEntry> entries;
    uint64_t covered = data_begin_;
    for (Spanned& tensor : tensors) {
      const uint64_t begin = tensor.entry.begin;
      if (begin != covered) {
        return Fault(tensor.entry.name,
                     absl::StrCat(begin < covered ? "overlaps the tensor before it"
                                                  : "leaves a gap before it",
                                  ": begins at byte ", begin, ", expected ", covered));
      }
      covered = tensor.end;
      entries.push_back(std::move(tensor.entry));
    }
    if (covered != file_.size()) {
      return Fault(
          absl::StrCat("the tensors end at byte ", covered, ", the file at ", file_.size()));
    }
    return entries;
  }

  const absl::Span<const uint8_t> file_;
  const std::string& file_name_;
  uint64_t data_begin_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<TensorEntry>> ParseSafetensorsHeader(absl::Span<const uint8_t> file,
                                                                const std::string& file_name) {
  return HeaderParser(file, file_name).Parse();
}

}  // namespace rserve::model
