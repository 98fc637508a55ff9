// What the C ABI costs its caller: processor time and allocations of submit and poll on the calling
// thread, for text requests on an engine whose executor does nothing. Medians over batches; the
// driver thread works beside it and is not counted.
//
//   rserve_abi_bench

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <new>
#include <vector>

#include "rserve/host.h"

namespace {
thread_local int64_t allocations = 0;
}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

constexpr int kBatches = 21;
constexpr uint64_t kRequests = 2000;
constexpr size_t kEvents = 3 * kRequests;  // accepted, first token, finished

double ThreadNanos() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// Ends every job inside its callback.
struct Model {
  rserve_engine* engine = nullptr;
};
rserve_status_t Encode(void* ctx, const rserve_encode_job*, uint64_t token) {
  return rserve_engine_complete(static_cast<Model*>(ctx)->engine, token, RSERVE_STATUS_OK, nullptr,
                                0, nullptr);
}
rserve_status_t Forward(void* ctx, const rserve_stage_job*, uint64_t token) {
  return rserve_engine_complete(static_cast<Model*>(ctx)->engine, token, RSERVE_STATUS_OK, nullptr,
                                0, nullptr);
}
rserve_status_t TakeFirstToken(void*, uint64_t, int32_t* token, float* logprob) {
  *token = 0;
  *logprob = 0;
  return RSERVE_STATUS_OK;
}

struct Sample {
  double submit_ns, poll_ns;  // of one request
  double submit_allocations, poll_allocations;
};

bool RunBatch(rserve_engine* engine, uint64_t first_id, Sample* sample) {
  const int64_t allocations_before = allocations;
  const double begin = ThreadNanos();
  for (uint64_t i = 0; i < kRequests; ++i) {
    rserve_host_request request = RSERVE_HOST_REQUEST_INIT;
    request.request_id = first_id + i;
    request.prompt_tokens = 64;
    request.flags = RSERVE_REQUEST_F_NO_DETAIL;
    if (rserve_engine_submit_plan(engine, &request, nullptr) != RSERVE_STATUS_OK) return false;
  }
  sample->submit_ns = (ThreadNanos() - begin) / kRequests;
  sample->submit_allocations = static_cast<double>(allocations - allocations_before) / kRequests;

  rserve_stats stats = RSERVE_STATS_INIT;
  do {
    usleep(1000);
    if (rserve_engine_get_stats(engine, &stats, nullptr) != RSERVE_STATUS_OK) return false;
  } while (stats.open_requests > 0 || stats.idle == 0);

  const int64_t polled_before = allocations;
  const double poll_begin = ThreadNanos();
  size_t polled = 0;
  while (polled < kEvents) {
    rserve_event events[64];
    size_t count = 0;
    if (rserve_engine_poll(engine, events, 64, sizeof(rserve_event), &count, nullptr) !=
        RSERVE_STATUS_OK) {
      return false;
    }
    polled += count;
  }
  sample->poll_ns = (ThreadNanos() - poll_begin) / kRequests;
  sample->poll_allocations = static_cast<double>(allocations - polled_before) / kRequests;
  return true;
}

double Median(std::vector<Sample> samples, double Sample::*field) {
  std::sort(samples.begin(), samples.end(),
            [&](const Sample& a, const Sample& b) { return a.*field < b.*field; });
  return samples[samples.size() / 2].*field;
}

}  // namespace

int main() {
  Model model;
  rserve_executor executor = RSERVE_EXECUTOR_INIT;
  executor.ctx = &model;
  executor.encode = Encode;
  executor.forward = Forward;
  executor.take_first_token = TakeFirstToken;
  rserve_host_config config = RSERVE_HOST_CONFIG_INIT;
  config.queue_requests = 1 << 20;
  rserve_error* err = nullptr;
  if (rserve_engine_create_with_executor(&config, &executor, nullptr, &model.engine, &err) !=
      RSERVE_STATUS_OK) {
    std::fprintf(stderr, "%s\n", rserve_error_message(err, nullptr));
    return 1;
  }
  std::vector<Sample> samples(kBatches);
  for (int i = 0; i < kBatches; ++i) {
    if (!RunBatch(model.engine, 1 + static_cast<uint64_t>(i) * kRequests, &samples[i])) return 1;
  }
  rserve_engine_destroy(model.engine);
  const double submit = Median(samples, &Sample::submit_ns);
  const double poll = Median(samples, &Sample::poll_ns);
  std::printf("submit %.0f ns and %.2f allocations a request\n", submit,
              Median(samples, &Sample::submit_allocations));
  std::printf("poll   %.0f ns and %.2f allocations a request (3 events)\n", poll,
              Median(samples, &Sample::poll_allocations));
  std::printf("both   %.2f us\n", (submit + poll) / 1e3);
  return 0;
}
