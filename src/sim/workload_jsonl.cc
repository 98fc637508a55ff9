// Workloads as JSONL.

#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/model/json/json_fields.h"
#include "src/sim/workload.h"

namespace rserve::sim {
namespace {

constexpr int64_t kMaxLineBytes = int64_t{1} << 20;
constexpr int64_t kMaxTokens = int64_t{1} << 24;
constexpr size_t kMaxItems = 4096;

absl::StatusOr<SimRequest> ParseLine(std::string_view line, const std::string& where) {
  absl::StatusOr<nlohmann::json> json = model::ParseJson(line, where, kMaxLineBytes);
  if (!json.ok()) return json.status();
  SimRequest request;
  model::FieldReader fields(*json, where);
  fields.Int("arrival_ns", 0, std::numeric_limits<int64_t>::max() / 4, &request.arrival_ns,
             model::Presence::kRequired);
  fields.Int("prompt_tokens", 1, kMaxTokens, &request.prompt_tokens, model::Presence::kRequired);
  const nlohmann::json* items = fields.Find("items");
  if (!fields.ok()) return fields.status();
  if (items == nullptr) return request;
  if (!items->is_array() || items->size() > kMaxItems) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": items must be a list of at most ", kMaxItems));
  }
  int64_t end = 0;
  for (const nlohmann::json& one : *items) {
    SimItem item;
    const std::string place = absl::StrCat(where, " items[", request.items.size(), "]");
    model::FieldReader reader(one, place);
    reader.Int("at", 0, kMaxTokens, &item.token_begin, model::Presence::kRequired);
    reader.Int("tokens", 1, kMaxTokens, &item.tokens, model::Presence::kRequired);
    reader.Int("units", 1, 1 << 16, &item.units);
    int64_t content = 0;
    reader.Int("content", 0, std::numeric_limits<int64_t>::max(), &content);
    if (!reader.ok()) return reader.status();
    item.content = static_cast<uint64_t>(content);
    if (item.token_begin < end || item.tokens > request.prompt_tokens - item.token_begin ||
        item.units > item.tokens) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, " takes ", item.tokens, " tokens in ", item.units, " units from ",
                       item.token_begin, "; it must lie behind token ", end,
                       " and within the prompt's ", request.prompt_tokens));
    }
    end = item.token_begin + item.tokens;
    request.items.push_back(item);
  }
  return request;
}

}  // namespace

std::string ToJsonl(const std::vector<SimRequest>& requests) {
  std::string out;
  for (const SimRequest& request : requests) {
    absl::StrAppend(&out, "{\"arrival_ns\": ", request.arrival_ns,
                    ", \"prompt_tokens\": ", request.prompt_tokens, ", \"items\": [");
    for (size_t i = 0; i < request.items.size(); ++i) {
      const SimItem& item = request.items[i];
      absl::StrAppend(&out, i == 0 ? "" : ", ", "{\"at\": ", item.token_begin,
                      ", \"tokens\": ", item.tokens);
      if (item.units != 1) absl::StrAppend(&out, ", \"units\": ", item.units);
      if (item.content != 0) absl::StrAppend(&out, ", \"content\": ", item.content);
      absl::StrAppend(&out, "}");
    }
    absl::StrAppend(&out, "]}\n");
  }
  return out;
}

absl::StatusOr<std::vector<SimRequest>> FromJsonl(std::string_view text) {
  std::vector<SimRequest> requests;
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    absl::StatusOr<SimRequest> request = ParseLine(line, absl::StrCat("line ", number));
    if (!request.ok()) return request.status();
    requests.push_back(*std::move(request));
  }
  return requests;
}

}  // namespace rserve::sim
