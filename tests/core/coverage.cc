#include "tests/core/coverage.h"

#include "absl/strings/str_cat.h"

namespace rserve::test {
namespace {

constexpr const char* kNames[] = {
    "blocked by embedding bytes",
    "blocked by pixel bytes",
    "blocked by units",
    "blocked by kv blocks",
    "blocked by lanes",
    "blocked by in flight limit",
    "batch closed by max tokens",
    "budget b cut a chunk",
    "refused by queue",
    "refused by input bytes",
    "refused never fits",
    "refused malformed",
    "refused duplicate id",
    "refused after drain",
    "id reused",
    "cancel queued",
    "cancel preparing",
    "cancel encoding",
    "cancel ready",
    "cancel prefill0",
    "cancel prefill1",
    "cancel prefill2",
    "cancel prefill3",
    "cancel lingering",
    "cancel unknown",
    "deadline queued",
    "deadline preparing",
    "deadline encoding",
    "deadline ready",
    "deadline prefill0",
    "deadline prefill1",
    "deadline prefill2",
    "deadline prefill3",
    "prepare failed",
    "encode batch failed",
    "encode unit failed",
    "encode retried",
    "encode retry helped",
    "encode retries used up",
    "stage failed0",
    "stage failed1",
    "stage failed2",
    "stage failed3",
    "encoder lost",
    "stage lost",
    "drained",
    "aborted",
    "stale token",
    "duplicate token",
    "wrong kind of token",
    "finished text only",
    "finished with items",
    "finished whole request gate",
    "finished one request sharing",
    "finished one chunk in flight",
    "finished encode on first chunk",
    "finished encode on chunk",
    "finished encode all at once",
    "atomic span taken",
    "repeated rows taken",
    "late reader",
    "batch across requests",
    "batch below c",
    "many requests in micro batch",
    "passed request without tokens",
    "many chunks in flight",
    "ended entry on later stage",
    "micro batch dropped",
    "larger than embedding budget",
    "finished shortest first",
    "finished feasible first",
    "finished square root budget",
    "finished adaptive encode batch",
    "older request passed",
    "prefix reused",
    "prefix reused at entry",
    "unit covered",
    "unit covered while waiting",
    "unit partly covered",
    "block shared in use",
    "kv evicted",
};
static_assert(sizeof(kNames) / sizeof(kNames[0]) == kReachedCount);

}  // namespace

std::vector<std::string> Coverage::Missing() const {
  std::vector<std::string> missing;
  for (int32_t i = 0; i < kReachedCount; ++i) {
    if (counts_[i] == 0) missing.push_back(kNames[i]);
  }
  return missing;
}

std::string Coverage::Table() const {
  std::string table;
  for (int32_t i = 0; i < kReachedCount; ++i) {
    absl::StrAppend(&table, "  ", absl::string_view(kNames[i]), ": ", counts_[i], "\n");
  }
  return table;
}

}  // namespace rserve::test
