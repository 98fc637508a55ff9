#include "metrics.h"

#include <algorithm>
#include <cstdio>

namespace server {
namespace {

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

void Gauge(const char* name, const char* help, int64_t value, std::string* out) {
  *out += std::string("# HELP rserve_") + name + " " + help + "\n# TYPE rserve_" + name +
          " gauge\nrserve_" + name + " " + std::to_string(value) + "\n";
}

void Counter(const char* name, const char* help, int64_t value, std::string* out) {
  *out += std::string("# HELP rserve_") + name + " " + help + "\n# TYPE rserve_" + name +
          " counter\nrserve_" + name + " " + std::to_string(value) + "\n";
}

double Seconds(int64_t from_ns, int64_t to_ns) {
  return from_ns == 0 || to_ns <= from_ns ? 0 : static_cast<double>(to_ns - from_ns) * 1e-9;
}

}  // namespace

void Histogram::Observe(double seconds) {
  ++counts_[static_cast<size_t>(std::lower_bound(kBounds.begin(), kBounds.end(), seconds) -
                                kBounds.begin())];
  sum_ += seconds;
  ++total_;
}

void Histogram::Write(const std::string& name, const std::string& help, std::string* out) const {
  *out += "# HELP rserve_" + name + " " + help + "\n# TYPE rserve_" + name + " histogram\n";
  int64_t below = 0;
  for (size_t i = 0; i < kBounds.size(); ++i) {
    below += counts_[i];
    *out += "rserve_" + name + "_bucket{le=\"" + Number(kBounds[i]) + "\"} " +
            std::to_string(below) + "\n";
  }
  *out += "rserve_" + name + "_bucket{le=\"+Inf\"} " + std::to_string(total_) + "\n";
  *out += "rserve_" + name + "_sum " + Number(sum_) + "\n";
  *out += "rserve_" + name + "_count " + std::to_string(total_) + "\n";
}

void Metrics::Response(int code) {
  std::lock_guard<std::mutex> lock(mutex_);
  ++responses_[code];
}

void Metrics::FirstToken(const rserve_detail_info& info) {
  std::lock_guard<std::mutex> lock(mutex_);
  const int64_t first_work_ns = info.first_encode_ns == 0
                                    ? info.first_prefill_ns
                                    : std::min(info.first_encode_ns, info.first_prefill_ns);
  queue_wait_.Observe(Seconds(info.submitted_ns, first_work_ns));
  if (info.first_prepare_ns != 0) {
    media_.Observe(Seconds(info.first_prepare_ns, info.last_prepare_ns));
  }
  if (info.first_encode_ns != 0) {
    encode_.Observe(Seconds(info.first_encode_ns, info.last_encode_ns));
    gate_stall_.Observe(Seconds(info.first_encode_ns, info.first_prefill_ns));
  }
  prefill_.Observe(Seconds(info.first_prefill_ns, info.first_token_ns));
  ttft_.Observe(Seconds(info.submitted_ns, info.first_token_ns));
}

std::string Metrics::Text(const rserve_stats& stats) const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::string out =
      "# HELP rserve_http_responses_total HTTP responses by status code\n"
      "# TYPE rserve_http_responses_total counter\n";
  for (const auto& [code, count] : responses_) {
    out += "rserve_http_responses_total{code=\"" + std::to_string(code) + "\"} " +
           std::to_string(count) + "\n";
  }
  queue_wait_.Write("queue_wait_seconds", "Submit to the first encode or prefill", &out);
  media_.Write("media_seconds", "First picture to be decoded to the last one prepared", &out);
  encode_.Write("encode_seconds", "First encode batch to the last picture's embedding", &out);
  gate_stall_.Write("gate_stall_seconds", "First encode batch to the first prefill chunk", &out);
  prefill_.Write("prefill_seconds", "First prefill chunk to the first token", &out);
  ttft_.Write("ttft_seconds", "Submit to first token", &out);
  Gauge("open_requests", "Accepted and not ended", stats.open_requests, &out);
  Gauge("embedding_bytes", "Live embeddings", stats.embedding_bytes, &out);
  Gauge("pixel_bytes", "Prepared pictures not yet encoded", stats.pixel_bytes, &out);
  Gauge("input_bytes", "Pictures and text of open requests", stats.input_bytes, &out);
  Gauge("kv_blocks_used", "KV blocks in use", stats.kv_blocks_used, &out);
  Counter("encoded_units_total", "Pictures encoded", stats.encoded_units, &out);
  Gauge("cache_bytes", "Embeddings kept for pictures that come again", stats.cache_bytes, &out);
  Counter("cache_hits_total", "Pictures whose embedding was there", stats.cache_hits, &out);
  Counter("cache_shared_total", "Pictures that another open request was encoding",
          stats.cache_shared, &out);
  Counter("cache_misses_total", "Pictures that were encoded for want of one", stats.cache_misses,
          &out);
  Counter("reused_tokens_total", "Tokens that needed no prefill", stats.reused_tokens, &out);
  Counter("prefilled_tokens_total", "Tokens prefilled", stats.prefilled_tokens, &out);
  Counter("requests_finished_total", "Requests that got a first token", stats.finished, &out);
  Counter("requests_failed_total", "Requests that failed", stats.failed, &out);
  Counter("requests_cancelled_total", "Requests that were cancelled", stats.cancelled, &out);
  Counter("requests_refused_total", "Submits that were not accepted", stats.refused, &out);
  return out;
}

}  // namespace server
