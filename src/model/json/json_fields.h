// Checked reading of JSON from outside: parsing with limits, and typed fields with ranges.
//
// nlohmann::json aborts or throws on most misuse; everything that reads a file of a checkpoint or a
// request's JSON goes through these helpers, which answer with a status instead.

#ifndef RSERVE_SRC_MODEL_JSON_JSON_FIELDS_H_
#define RSERVE_SRC_MODEL_JSON_JSON_FIELDS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rserve::model {

inline constexpr int kMaxJsonDepth = 64;

// Parses `text`. `what` names the document in errors ("config.json"). INVALID_ARGUMENT when the
// text is longer than `max_bytes`, nested deeper than kMaxJsonDepth or not JSON (a number out of
// range and invalid UTF-8 included). Of a key given twice the last value counts, as in Python.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, std::string_view what,
                                         int64_t max_bytes);

// The depth and length checks of ParseJson alone, for callers that parse by themselves.
absl::Status CheckJsonLimits(std::string_view text, std::string_view what, int64_t max_bytes);

// A short, safe rendering of a value for an error message.
std::string Describe(const nlohmann::json& value);

enum class Presence { kOptional, kRequired };

// Reads the fields of one object. The first fault sticks: later reads do nothing, and status()
// names it ("vision_config.depth is -3, want 1 to 1024"). An absent or null optional field leaves
// *out as it was.
class FieldReader {
 public:
  // `object` must outlive the reader. A value that is not an object is a fault by itself.
  FieldReader(const nlohmann::json& object, std::string where);

  bool Has(const char* key) const;  // present and not null
  // The field if it is present, not null; nullptr otherwise.
  const nlohmann::json* Find(const char* key) const;

  void Int(const char* key, int64_t min, int64_t max, int32_t* out,
           Presence presence = Presence::kOptional);
  void Int(const char* key, int64_t min, int64_t max, int64_t* out,
           Presence presence = Presence::kOptional);
  void Float(const char* key, double min, double max, float* out,
             Presence presence = Presence::kOptional);
  void Float(const char* key, double min, double max, double* out,
             Presence presence = Presence::kOptional);
  void Bool(const char* key, bool* out, Presence presence = Presence::kOptional);
  void String(const char* key, std::string* out, Presence presence = Presence::kOptional);
  // A list of at most `max_count` integers.
  void IntList(const char* key, size_t max_count, int64_t min, int64_t max,
               std::vector<int32_t>* out, Presence presence = Presence::kOptional);

  // Records a fault of the field in the caller's words, unless one is recorded already.
  void Fail(const char* key, const std::string& fault);

  const absl::Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }

 private:
  const nlohmann::json* Take(const char* key, Presence presence);
  std::string Path(const char* key) const;

  const nlohmann::json& object_;
  std::string where_;
  absl::Status status_;
};

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_JSON_JSON_FIELDS_H_
