#include "src/sim/config_json.h"

#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/model/json/json_fields.h"
#include "src/sim/scheme.h"

namespace rserve::sim {
namespace {

using nlohmann::json;

// One object's fields, read or written by the same list, so that the two cannot differ.
class Fields {
 public:
  Fields(const json& in, std::string where) : in_(&in), where_(where), reader_(in, where) {}
  explicit Fields(json* out) : in_(nullptr), out_(out), reader_(*out, "") {}

  void Real(const char* key, double min, double max, double* value) {
    known_.insert(key);
    if (out_ != nullptr) {
      (*out_)[key] = *value;
    } else {
      reader_.Float(key, min, max, value);
    }
  }
  template <typename T>
  void Int(const char* key, int64_t min, int64_t max, T* value) {
    known_.insert(key);
    if (out_ != nullptr) {
      (*out_)[key] = *value;
    } else {
      reader_.Int(key, min, max, value);
    }
  }
  void Bool(const char* key, bool* value) {
    known_.insert(key);
    if (out_ != nullptr) {
      (*out_)[key] = *value;
    } else {
      reader_.Bool(key, value);
    }
  }
  // One of `names`, which stand for the values 0, 1, ... of an enum.
  template <typename Enum, size_t N>
  void Name(const char* key, const char* const (&names)[N], Enum* value) {
    known_.insert(key);
    if (out_ != nullptr) {
      (*out_)[key] = names[static_cast<size_t>(*value)];
      return;
    }
    std::string text = names[static_cast<size_t>(*value)];
    reader_.String(key, &text);
    for (size_t i = 0; i < N; ++i) {
      if (text != names[i]) continue;
      *value = static_cast<Enum>(i);
      return;
    }
    reader_.Fail(
        key, absl::StrCat("want one of ", absl::StrJoin(std::begin(names), std::end(names), ", ")));
  }
  void Also(const char* key) { known_.insert(key); }

  absl::Status Done() const {
    if (in_ == nullptr || !reader_.ok()) return reader_.status();
    for (const auto& [key, value] : in_->items()) {
      if (!known_.contains(key)) {
        return absl::InvalidArgumentError(absl::StrCat(where_, ".", key, " is not known"));
      }
    }
    return absl::OkStatus();
  }

 private:
  const json* in_;
  json* out_ = nullptr;
  std::string where_;
  model::FieldReader reader_;
  std::set<std::string> known_ = {"name"};
};

constexpr int64_t kMost = int64_t{1} << 40;

void ModelFields(Fields& f, ModelShape* m) {
  f.Int("layers", 1, 4096, &m->language.layers);
  f.Int("hidden", 1, 1 << 20, &m->language.hidden);
  f.Int("heads", 1, 4096, &m->language.heads);
  f.Int("kv_heads", 1, 4096, &m->language.kv_heads);
  f.Int("head_dim", 1, 4096, &m->language.head_dim);
  f.Int("intermediate", 1, 1 << 22, &m->language.intermediate);
  f.Int("vocabulary", 1, 1 << 24, &m->language.vocabulary);
  f.Int("vision_depth", 1, 4096, &m->vision.depth);
  f.Int("vision_hidden", 1, 1 << 20, &m->vision.hidden);
  f.Int("vision_intermediate", 1, 1 << 22, &m->vision.intermediate);
  f.Int("vision_patch_input", 1, 1 << 20, &m->vision.patch_input);
  f.Int("vision_patches_per_token", 1, 1024, &m->vision.patches_per_token);
  f.Int("vision_window_patches", 1, 1 << 20, &m->vision.window_patches);
  f.Int("vision_full_attention_blocks", 0, 4096, &m->vision.full_attention_blocks);
  f.Int("vision_output", 1, 1 << 20, &m->vision.output);
}

void HardwareFields(Fields& f, Hardware* h) {
  f.Real("peak_tflops", 1e-6, 1e9, &h->peak_tflops);
  f.Real("memory_gb_s", 1e-6, 1e9, &h->memory_gb_s);
  f.Real("memory_gb", 1e-6, 1e9, &h->memory_gb);
  f.Real("point_to_point_gb_s", 1e-6, 1e9, &h->point_to_point_gb_s);
  f.Real("all_reduce_bus_gb_s", 1e-6, 1e9, &h->all_reduce_bus_gb_s);
  f.Real("embedding_gb_s", 1e-6, 1e9, &h->embedding_gb_s);
  f.Real("handover_us", 0, 1e9, &h->handover_us);
  f.Real("all_reduce_latency_us", 0, 1e9, &h->all_reduce_latency_us);
}

void CalibrationFields(Fields& f, Calibration* c) {
  f.Real("mfu_linear", 1e-6, 1, &c->mfu_linear);
  f.Real("mfu_attention", 1e-6, 1, &c->mfu_attention);
  f.Real("mfu_vision", 1e-6, 1, &c->mfu_vision);
  f.Real("micro_batch_ms", 0, 1e6, &c->micro_batch_ms);
  f.Real("request_ms", 0, 1e6, &c->request_ms);
  f.Real("received_us_per_token", 0, 1e6, &c->received_us_per_token);
  f.Real("encode_batch_ms", 0, 1e6, &c->encode_batch_ms);
  f.Real("host_ms_per_item", 0, 1e6, &c->host_ms_per_item);
  f.Real("host_us_per_token", 0, 1e6, &c->host_us_per_token);
  f.Real("transfer_ms", 0, 1e6, &c->transfer_ms);
  f.Real("front_end_ms", 0, 1e6, &c->front_end_ms);
  f.Real("tp_micro_batch_ms", 0, 1e6, &c->tp_micro_batch_ms);
}

// In the order of their enums.
constexpr const char* kGates[] = {"streaming", "whole-request"};
constexpr const char* kSharings[] = {"many", "one-request"};
constexpr const char* kTriggers[] = {"on-arrival", "on-first-chunk", "on-chunk"};
constexpr const char* kOrders[] = {"arrival", "shortest-first", "feasible-first"};
constexpr const char* kRoles[] = {"stage", "encoder"};

void PolicyFields(Fields& f, SimConfig* config) {
  Policy& policy = config->policy;
  f.Name("gate", kGates, &policy.gate);
  f.Name("sharing", kSharings, &policy.sharing);
  f.Name("trigger", kTriggers, &policy.trigger);
  f.Name("order", kOrders, &policy.order);
  f.Int("order_stretch", 0, 1000, &policy.order_stretch);
  f.Int("order_guard_ns", 0, kMost * 1024, &policy.order_guard_ns);
  f.Int("slo_ns", 0, kMost * 1024, &policy.slo_ns);
  f.Int("hopeless_guard_ns", 0, kMost * 1024, &policy.hopeless_guard_ns);
  f.Int("token_budget", 1, INT64_MAX, &policy.token_budget);
  f.Bool("square_root_budget", &policy.square_root_budget);
  f.Int("min_token_budget", 1, kMost, &policy.min_token_budget);
  f.Bool("one_chunk_in_flight", &policy.one_chunk_in_flight);
  f.Int("encode_batch_tokens", 1, INT64_MAX, &policy.encode_batch_tokens);
  f.Bool("adaptive_encode_batch", &policy.adaptive_encode_batch);
  f.Bool("encode_across_requests", &policy.encode_across_requests);
  f.Int("encode_flush_ns", 0, kNever, &policy.encode_flush_ns);
  f.Name("first", kRoles, &config->first);
  f.Int("media_lanes", 0, 4096, &config->media_lanes);
  f.Int("max_micro_batches", 0, 4096, &config->max_micro_batches);
  f.Int("max_passes", 1, 1 << 20, &config->max_passes);
  f.Int("embedding_bytes", 0, INT64_MAX, &config->embedding_bytes);
  f.Int("kv_tokens", 0, kMost, &config->kv_tokens);
  f.Real("slo_s", 0, 1e9, &config->slo_s);
}

// A preset by name, or an object that starts from one.
template <typename T, typename Find, typename Read>
absl::Status ReadPreset(const json& root, const char* key, Find find, Read read, T* value) {
  if (!root.contains(key)) return absl::OkStatus();
  const json& given = root[key];
  if (!given.is_string() && !given.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, " must be a preset's name or an object, is ", model::Describe(given)));
  }
  const json* name = given.is_string() ? &given : nullptr;
  if (given.is_object() && given.contains("name")) name = &given["name"];
  if (name != nullptr && name->is_string()) {
    const std::string text = name->get<std::string>();
    absl::StatusOr<T> preset = find(text);
    if (preset.ok()) {
      *value = *std::move(preset);
    } else if (given.is_string()) {
      return preset.status();
    } else {
      value->name = text;  // a new thing with a name of its own
    }
  }
  if (!given.is_object()) return absl::OkStatus();
  Fields fields(given, key);
  read(fields, value);
  return fields.Done();
}

absl::Status ReadLayout(const json& root, SimConfig* config) {
  model::FieldReader reader(root, "config");
  std::string layout, scheme;
  reader.String("layout", &layout);
  reader.String("scheme", &scheme);
  std::vector<int32_t> layers;
  reader.IntList("layers", 64, 1, 4096, &layers);
  if (!reader.ok()) return reader.status();
  if (!layout.empty()) {
    absl::StatusOr<Layout> parsed = ParseLayout(layout);
    if (!parsed.ok()) return parsed.status();
    config->layout = *std::move(parsed);
  }
  if (!layers.empty()) config->layout.layers.assign(layers.begin(), layers.end());
  if (!scheme.empty()) return ApplyScheme(scheme, config);
  return absl::OkStatus();
}

}  // namespace

std::string ToJson(const SimConfig& config) {
  SimConfig c = config;
  json root = json::object();
  const auto write = [&root](const char* key, const auto& fill) {
    json object = json::object();
    Fields fields(&object);
    fill(fields);
    root[key] = object;
  };
  write("model", [&](Fields& f) { ModelFields(f, &c.model); });
  write("hardware", [&](Fields& f) { HardwareFields(f, &c.hardware); });
  write("calibration", [&](Fields& f) { CalibrationFields(f, &c.calibration); });
  write("policy", [&](Fields& f) { PolicyFields(f, &c); });
  root["model"]["name"] = c.model.name;
  root["hardware"]["name"] = c.hardware.name;
  root["calibration"]["name"] = c.calibration.name;
  root["layout"] = LayoutName(c.layout);
  if (!c.layout.layers.empty()) root["layers"] = c.layout.layers;
  root["scheme"] = c.scheme;
  return root.dump(2) + "\n";
}

absl::Status FromJson(std::string_view text, SimConfig* config) {
  absl::StatusOr<json> root = model::ParseJson(text, "config", 1 << 20);
  if (!root.ok()) return root.status();
  Fields top(*root, "config");
  for (const char* key :
       {"model", "hardware", "calibration", "policy", "layout", "layers", "scheme"}) {
    top.Also(key);
  }
  if (absl::Status s = top.Done(); !s.ok()) return s;
  SimConfig out = *config;
  if (absl::Status s = ReadPreset(*root, "model", FindModelShape, ModelFields, &out.model); !s.ok())
    return s;
  if (absl::Status s = ReadPreset(*root, "hardware", FindHardware, HardwareFields, &out.hardware);
      !s.ok())
    return s;
  if (absl::Status s =
          ReadPreset(*root, "calibration", FindCalibration, CalibrationFields, &out.calibration);
      !s.ok())
    return s;
  if (absl::Status s = ReadLayout(*root, &out); !s.ok()) return s;
  if (root->contains("policy")) {
    Fields policy((*root)["policy"], "policy");
    PolicyFields(policy, &out);
    if (absl::Status s = policy.Done(); !s.ok()) return s;
  }
  *config = std::move(out);
  return absl::OkStatus();
}

}  // namespace rserve::sim
