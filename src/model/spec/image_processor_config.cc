#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "src/model/json/json_fields.h"
#include "src/model/spec/image_plan.h"

namespace rserve::model {
namespace {

using nlohmann::json;

constexpr int64_t kMaxConfigBytes = int64_t{1} << 20;
constexpr int64_t kMaxPixelLimit = int64_t{1} << 40;
constexpr int kBicubic = 3;  // PIL's number for it

// Three numbers, one a channel.
void ReadChannels(FieldReader& in, const char* key, double min, double max, float out[3]) {
  const json* value = in.Find(key);
  if (value == nullptr || !in.ok()) return;
  bool good = value->is_array() && value->size() == 3;
  for (size_t c = 0; good && c < 3; ++c) {
    const json& element = (*value)[c];
    good = element.is_number() && element.get<double>() >= min && element.get<double>() <= max;
    if (good) out[c] = element.get<float>();
  }
  if (!good) in.Fail(key, absl::StrCat("want three numbers from ", min, " to ", max));
}

}  // namespace

absl::StatusOr<ImageProcessorConfig> ParseImageProcessorConfig(std::string_view json_text) {
  absl::StatusOr<json> parsed = ParseJson(json_text, "preprocessor_config.json", kMaxConfigBytes);
  if (!parsed.ok()) return parsed.status();
  const json* fields = &*parsed;
  // processor_config.json holds the image processor's fields one level down.
  const bool nested = fields->is_object() && fields->contains("image_processor");
  if (nested) fields = &(*fields)["image_processor"];
  FieldReader in(*fields, nested ? "image_processor" : "preprocessor_config.json");

  ImageProcessorConfig config;
  if (const json* size = in.Find("size"); size != nullptr && in.ok()) {
    FieldReader size_in(*size, "size");
    size_in.Int("shortest_edge", 1, kMaxPixelLimit, &config.min_pixels);
    size_in.Int("longest_edge", 1, kMaxPixelLimit, &config.max_pixels);
    size_in.Int("min_pixels", 1, kMaxPixelLimit, &config.min_pixels);
    size_in.Int("max_pixels", 1, kMaxPixelLimit, &config.max_pixels);
    if (size_in.Has("height") || size_in.Has("width")) {
      in.Fail("size", "want shortest_edge and longest_edge, as pixel counts");
    }
    if (!size_in.ok()) return size_in.status();
  }
  // The reference lets these override `size`.
  in.Int("min_pixels", 1, kMaxPixelLimit, &config.min_pixels);
  in.Int("max_pixels", 1, kMaxPixelLimit, &config.max_pixels);
  in.Int("patch_size", 1, 256, &config.patch_size);
  in.Int("temporal_patch_size", 1, 16, &config.temporal_patch_size);
  in.Int("merge_size", 1, 16, &config.merge_size);
  in.Bool("do_resize", &config.do_resize);
  in.Bool("do_rescale", &config.do_rescale);
  in.Bool("do_normalize", &config.do_normalize);
  in.Float("rescale_factor", 1e-9, 1e9, &config.rescale_factor);
  ReadChannels(in, "image_mean", -1e6, 1e6, config.image_mean);
  ReadChannels(in, "image_std", 1e-6, 1e6, config.image_std);
  int32_t resample = kBicubic;
  in.Int("resample", 0, 100, &resample);
  if (resample != kBicubic) in.Fail("resample", "only 3 (bicubic) is supported");
  if (!in.ok()) return in.status();
  if (config.min_pixels > config.max_pixels) {
    return absl::InvalidArgumentError(
        absl::StrCat("min_pixels ", config.min_pixels, " is above max_pixels ", config.max_pixels));
  }
  return config;
}

}  // namespace rserve::model
