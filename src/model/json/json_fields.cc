#include "src/model/json/json_fields.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rserve::model {
namespace {

using nlohmann::json;

// Reads an integer of either signedness; false when the value is none or does not fit.
bool AsInt64(const json& value, int64_t* out) {
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return false;
    *out = static_cast<int64_t>(number);
    return true;
  }
  if (!value.is_number_integer()) return false;
  *out = value.get<int64_t>();
  return true;
}

}  // namespace

absl::Status CheckJsonLimits(std::string_view text, std::string_view what, int64_t max_bytes) {
  if (static_cast<int64_t>(text.size()) > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(what), " has ", text.size(), " bytes, the limit is ", max_bytes));
  }
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxJsonDepth) {
        return absl::InvalidArgumentError(
            absl::StrCat(std::string(what), " is nested deeper than ", kMaxJsonDepth, " levels"));
      }
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<json> ParseJson(std::string_view text, std::string_view what, int64_t max_bytes) {
  if (absl::Status status = CheckJsonLimits(text, what, max_bytes); !status.ok()) return status;
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(what), " is not valid JSON"));
  }
  return value;
}

std::string Describe(const json& value) {
  constexpr size_t kMaxShown = 80;
  if (value.is_structured() && value.size() > 16) {
    return absl::StrCat(value.is_array() ? "a list of " : "an object of ", value.size());
  }
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kMaxShown) text = absl::StrCat(text.substr(0, kMaxShown), "...");
  return text;
}

FieldReader::FieldReader(const json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object_.is_object()) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat(where_, " is ", Describe(object_), ", want an object"));
  }
}

const json* FieldReader::Find(const char* key) const {
  if (!object_.is_object()) return nullptr;
  const auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

bool FieldReader::Has(const char* key) const { return Find(key) != nullptr; }

std::string FieldReader::Path(const char* key) const { return absl::StrCat(where_, ".", key); }

void FieldReader::Fail(const char* key, const std::string& fault) {
  if (!status_.ok()) return;
  const json* value = Find(key);
  status_ = absl::InvalidArgumentError(
      value == nullptr ? absl::StrCat(Path(key), " is missing: ", fault)
                       : absl::StrCat(Path(key), " is ", Describe(*value), ": ", fault));
}

const json* FieldReader::Take(const char* key, Presence presence) {
  if (!status_.ok()) return nullptr;
  const json* value = Find(key);
  if (value == nullptr && presence == Presence::kRequired) Fail(key, "it has no default");
  return value;
}

void FieldReader::Int(const char* key, int64_t min, int64_t max, int64_t* out, Presence presence) {
  const json* value = Take(key, presence);
  if (value == nullptr) return;
  int64_t number = 0;
  if (!AsInt64(*value, &number) || number < min || number > max) {
    Fail(key, absl::StrCat("want an integer from ", min, " to ", max));
    return;
  }
  *out = number;
}

void FieldReader::Int(const char* key, int64_t min, int64_t max, int32_t* out, Presence presence) {
  int64_t number = *out;
  Int(key, min, max, &number, presence);
  if (status_.ok()) *out = static_cast<int32_t>(number);
}

void FieldReader::Float(const char* key, double min, double max, double* out, Presence presence) {
  const json* value = Take(key, presence);
  if (value == nullptr) return;
  const double number = value->is_number() ? value->get<double>() : 0.0;
  // Written so that a NaN fails too.
  if (!value->is_number() || !(number >= min && number <= max)) {
    Fail(key, absl::StrCat("want a number from ", min, " to ", max));
    return;
  }
  *out = number;
}

void FieldReader::Float(const char* key, double min, double max, float* out, Presence presence) {
  double number = *out;
  Float(key, min, max, &number, presence);
  if (status_.ok()) *out = static_cast<float>(number);
}

void FieldReader::Bool(const char* key, bool* out, Presence presence) {
  const json* value = Take(key, presence);
  if (value == nullptr) return;
  if (!value->is_boolean()) {
    Fail(key, "want true or false");
    return;
  }
  *out = value->get<bool>();
}

void FieldReader::String(const char* key, std::string* out, Presence presence) {
  const json* value = Take(key, presence);
  if (value == nullptr) return;
  if (!value->is_string()) {
    Fail(key, "want a string");
    return;
  }
  *out = value->get_ref<const std::string&>();
}

void FieldReader::IntList(const char* key, size_t max_count, int64_t min, int64_t max,
                          std::vector<int32_t>* out, Presence presence) {
  const json* value = Take(key, presence);
  if (value == nullptr) return;
  std::vector<int32_t> numbers;
  bool good = value->is_array() && value->size() <= max_count;
  if (good) {
    for (const json& element : *value) {
      int64_t number = 0;
      good = AsInt64(element, &number) && number >= min && number <= max;
      if (!good) break;
      numbers.push_back(static_cast<int32_t>(number));
    }
  }
  if (!good) {
    Fail(key,
         absl::StrCat("want a list of at most ", max_count, " integers from ", min, " to ", max));
    return;
  }
  *out = std::move(numbers);
}

}  // namespace rserve::model
