// The whole engine over the CUDA backend: its library opened at run time, here the emulated one
// (with RSERVE_TEST_BUILT_IN it is a part of this program). With RSERVE_TEST_GPU the real backend,
// a part of this program, on GPU 0 alone, and without the tests of lost devices.

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "src/runtime/exception_guard.h"
#include "tests/backend_cuda/emulated_library.h"
#include "tests/engine/golden_folder.h"
#include "tests/engine/harness.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

// As for the backend alone (golden_test.cc), and with supplied embeddings.
constexpr double kLogitsTolerance = 0.035;
// One more rounding where partial sums meet.
constexpr double kParallelTolerance = 0.04;
// Between the backends, encoders included; the tiny model is five layers deep. Seen: up to 0.02.
constexpr double kBackendTolerance = 0.05;

#if defined(RSERVE_TEST_GPU)
constexpr bool kEmulated = false;
constexpr uint64_t kStressRequests = 200;
#else
constexpr bool kEmulated = true;
constexpr uint64_t kStressRequests = 24;
#endif

#if defined(RSERVE_TEST_BUILT_IN)
std::string Library() { return ""; }
#else
std::string Library() {
  std::string path(4096, '\0');
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  REQUIRE(size > 0);
  path.resize(static_cast<size_t>(size));
  return path.substr(0, path.rfind('/')) + "/../lib/librserve_cuda_emulated.so";
}
#endif

ModelEngineOptions CudaOptions(const std::string& folder) {
  ModelEngineOptions options;
  options.scheme = Scheme::kRserve;
  options.model_path = folder;
  options.pin_threads = false;
  options.threads = 1;
  options.kv_tokens = 2048;
  options.encoder_batch_tokens = 512;
  options.token_budget = 96;
  options.backend = Backend::kCuda;
  options.cuda_library = Library();
  return options;
}

// GPUs, where there are several.
void Spread(std::vector<int32_t> devices, ModelEngineOptions* options) {
  if (kEmulated) options->devices = std::move(devices);
}

TEST_CASE("CUDA engine: golden prompts, together and in small chunks, meet the reference") {
  for (const char* name : {"gqa2_tied", "gqa7_bf16", "sharded"}) {
    const GoldenFolder golden(name);
    ModelEngineOptions options = CudaOptions("");
    MeetGoldens(golden, options, "TP1+E1", kLogitsTolerance);
    options.stages = 2;
    options.token_budget = 7;
    Spread({0, 1, 0}, &options);
    MeetGoldens(golden, options, "PP2+E1", kLogitsTolerance);
  }
}

#if !defined(RSERVE_TEST_GPU)
TEST_CASE("CUDA engine: TP2xPP2+E1 and TP4+E1 meet the reference, handed over in every way") {
  const GoldenFolder golden("gqa2_tied");
  ModelEngineOptions options = CudaOptions("");
  options.tensor_parallel = 2;
  options.stages = 2;
  options.devices = {0, 1, 2, 3, 4};
  std::vector<std::vector<float>> first;
  for (const auto way : {StageHandover::kPeer, StageHandover::kNccl, StageHandover::kHost}) {
    options.stage_handover = way;
    const auto logits = MeetGoldens(golden, options, "TP2xPP2+E1", kParallelTolerance);
    if (first.empty()) first = logits;
    for (size_t i = 0; i < first.size(); ++i) CHECK(SameBits(logits[i], first[i]));
  }
  options.tensor_parallel = 4;
  options.stages = 1;
  options.devices = {0, 1, 2, 3, 0};
  MeetGoldens(GoldenFolder("mha_f16"), options, "TP4+E1", kParallelTolerance);
}
#endif

TEST_CASE("CUDA engine: pictures give what the CPU gives, the same bits for every way of running") {
  std::vector<std::unique_ptr<OwnedRequest>> requests;
  for (uint64_t seed = 1; seed <= 3; ++seed) requests.push_back(MakeRequest("tptxt", seed));
  const std::vector<Outcome> cpu = RunAll(*MustCreate(TinyOptions()), requests, /*together=*/true);
  std::vector<Outcome> first;
  const auto check = [&](const ModelEngineOptions& options, bool together) {
    const std::vector<Outcome> cuda = RunAll(*MustCreate(options), requests, together);
    for (size_t i = 0; i < requests.size(); ++i) {
      REQUIRE(cuda[i].terminal().type == EventType::kFinished);
      const RequestDetail& got = *cuda[i].detail;
      CHECK(RelativeError(got.embeddings, cpu[i].detail->embeddings) <= kBackendTolerance);
      CHECK(RelativeError(got.logits, cpu[i].detail->logits) <= kBackendTolerance);
      if (first.empty()) continue;
      CHECK(SameBits(got.embeddings, first[i].detail->embeddings));
      CHECK(SameBits(got.logits, first[i].detail->logits));
    }
    if (first.empty()) first = cuda;
  };
  ModelEngineOptions options = CudaOptions(TinyModelFolder());
  check(options, false);
  options.device_sharing = DeviceSharing::kTurns;
  check(options, true);
  options.device_sharing = DeviceSharing::kParts;
  options.stages = 2;
  options.token_budget = 40;
  options.embedding_cache_bytes = 1 << 20;
  check(options, true);
  options.scheme = Scheme::kColocated;
  options.stage_handover = StageHandover::kHost;
  options.graph_rows = -1;
  check(options, true);
}

// What an ended request had under way holds its memory until it is through.
void WaitUntilIdle(const ModelEngine& engine) {
  while (!engine.idle() || engine.stats().lingering_requests > 0) std::this_thread::yield();
}

TEST_CASE(
    "CUDA engine: embeddings that stay on the GPUs give the bits of the way through the host") {
  std::vector<std::unique_ptr<OwnedRequest>> requests;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    requests.push_back(MakeRequest(seed % 2 == 0 ? "tptxt" : "pxpt", seed));
    requests.back()->request.keep_embeddings = false;
  }
  const auto logits = [&](const ModelEngineOptions& options, int times) {
    const auto engine = MustCreate(options);
    std::vector<std::vector<float>> all;
    for (int time = 0; time < times; ++time) {
      for (const Outcome& outcome : RunAll(*engine, requests, true)) {
        INFO(outcome.terminal().status);
        REQUIRE(outcome.terminal().type == EventType::kFinished);
        all.push_back(outcome.detail->logits);
      }
    }
    WaitUntilIdle(*engine);
    const DeviceEmbeddingStats stats = engine->device_embedding_stats();
    CHECK(stats.rows == 0);
    CHECK((stats.peak_rows > 0) == options.device_embeddings);
    CHECK((stats.capacity_rows > 0) == options.device_embeddings);
    CHECK(stats.peak_rows <= stats.capacity_rows);
    return all;
  };
  ModelEngineOptions options = CudaOptions(TinyModelFolder());
  options.device_embeddings = false;
  const std::vector<std::vector<float>> want = logits(options, 1);
  const auto check = [&](const ModelEngineOptions& changed, int times = 1) {
    const std::vector<std::vector<float>> got = logits(changed, times);
    for (size_t i = 0; i < got.size(); ++i) CHECK(SameBits(got[i], want[i % want.size()]));
  };
  options.device_embeddings = true;
  check(options);
  // An encoder elsewhere, and one on each side.
  Spread({0, 1}, &options);
  check(options);
  options.encoders = 2;
  options.stages = 2;
  options.token_budget = 24;  // pictures are longer than a chunk
  Spread({0, 1, 0, 2}, &options);
  check(options, 2);  // recorded, then replayed
  // Room for the largest picture only: the requests are larger than the budget.
  const auto planned = MustCreate(options);
  int64_t largest = 0;
  for (const auto& request : requests) {
    const auto preview = planned->PlanRequest(request->request);
    REQUIRE(preview.ok());
    for (const ItemDetail& item : preview->items) largest = std::max(largest, item.tokens);
  }
  options.embedding_bytes = largest * planned->info().hidden_size * int64_t{sizeof(float)};
  check(options);
  // A cache, of which most is evicted: hits come from the host, the others from the encoder.
  options.embedding_cache_bytes = options.embedding_bytes;
  check(options, 2);
}

// The logits that are kept beside it, or not, change nothing about the token.
TEST_CASE(
    "CUDA engine: without temperature the token is that of the logits, chosen on the device") {
  std::vector<std::unique_ptr<OwnedRequest>> requests;
  for (uint64_t seed = 1; seed <= 4; ++seed) requests.push_back(MakeRequest("txt", 90 + seed));
  std::vector<FirstToken> first;
  for (const bool keep : {true, false}) {
    ModelEngineOptions options = CudaOptions(TinyModelFolder());
    if (!keep) {
      options.stages = 2;
      Spread({0, 1, 0}, &options);
    }
    for (const auto& request : requests) request->request.keep_logits = keep;
    const std::vector<Outcome> outcomes = RunAll(*MustCreate(options), requests, !keep);
    for (size_t i = 0; i < outcomes.size(); ++i) {
      REQUIRE(outcomes[i].terminal().type == EventType::kFinished);
      const RequestDetail& detail = *outcomes[i].detail;
      const std::vector<float>& logits = detail.logits;
      CHECK(logits.empty() == !keep);
      if (keep) {
        first.push_back(detail.first_token);
        const auto largest = std::max_element(logits.begin(), logits.end());
        CHECK(detail.first_token.token == largest - logits.begin());
        double sum = 0;
        for (const float logit : logits) sum += std::exp(double{logit} - double{*largest});
        CHECK(std::fabs(double{detail.first_token.logprob} + std::log(sum)) <= 1e-5);
      }
      CHECK(detail.first_token.token == first[i].token);
      CHECK(detail.first_token.logprob == first[i].logprob);
    }
  }
}

TEST_CASE("CUDA engine: many prompts that share blocks of KV give the bits of prompts alone") {
  ModelEngineOptions options = CudaOptions(TinyModelFolder());
  std::vector<std::unique_ptr<OwnedRequest>> requests;
  for (int32_t i = 0; i < 8; ++i) {
    TokenIds ids;
    for (int32_t t = 0; t < 70; ++t) ids.ids.push_back(t < 64 ? 65 + t % 20 : 66 + i + t % 5);
    requests.push_back(std::make_unique<OwnedRequest>());
    requests.back()->request.parts.push_back(std::move(ids));
    requests.back()->request.keep_logits = true;
  }
  const std::vector<Outcome> alone = RunAll(*MustCreate(options), requests, false);
  options.kv_reuse = true;
  options.kv_block_tokens = 16;
  options.kv_tokens = 192;  // twelve blocks, of which eight such prompts would name forty
  const auto engine = MustCreate(options);
  std::vector<std::unique_ptr<OwnedRequest>> first;
  first.push_back(std::make_unique<OwnedRequest>(*requests[0]));
  RunAll(*engine, first, false);
  const std::vector<Outcome> shared = RunAll(*engine, requests, true);
  for (size_t i = 0; i < requests.size(); ++i) {
    INFO(shared[i].terminal().status);
    REQUIRE(shared[i].terminal().type == EventType::kFinished);
    CHECK(shared[i].detail->reused_tokens == 64);
    CHECK(SameBits(shared[i].detail->logits, alone[i].detail->logits));
  }
}

TEST_CASE("CUDA engine: many requests with cancels end once each and give everything back") {
  ModelEngineOptions options = CudaOptions(TinyModelFolder());
  options.stages = 2;
  Spread({0, 1, 1}, &options);
  options.token_budget = 64;
  const auto engine = MustCreate(options);
  std::vector<std::unique_ptr<OwnedRequest>> requests;
  std::vector<RequestId> ids;
  for (uint64_t i = 0; i < kStressRequests; ++i) {
    requests.push_back(MakeRequest(i % 3 == 0 ? "t" : "tx", 50 + i));
    requests.back()->request.keep_embeddings = i % 2 == 0;
    ids.push_back(MustSubmit(*engine, requests.back()->request));
    if (i % 5 == 4) CHECK(engine->Cancel(ids[i - 1]).ok());
  }
  // Some in the middle: at their first encoded picture.
  const auto outcomes = WaitForAll(*engine, ids, [&](const Event& event) {
    if (event.type == EventType::kItemEncoded && event.request % 7 == 3) {
      engine->Cancel(event.request).IgnoreError();
    }
  });
  for (const auto& [id, outcome] : outcomes) {
    const EventType end = outcome.terminal().type;
    CHECK((end == EventType::kFinished || end == EventType::kCancelled));
  }
  WaitUntilIdle(*engine);
  const OrchestratorStats stats = engine->stats();
  CHECK(stats.embedding_bytes == 0);
  CHECK(engine->device_embedding_stats().rows == 0);
  CHECK(engine->device_embedding_stats().peak_rows > 0);
  CHECK(stats.kv_blocks_used == 0);
  CHECK(stats.stale_tokens == 0);
}

#if !defined(RSERVE_TEST_GPU)
EmulatedFunctions Emulated() {
#if defined(RSERVE_TEST_BUILT_IN)
  return rserve_emulated_functions();
#else
  void* library = dlopen(Library().c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  const auto entry = reinterpret_cast<EmulatedEntry>(dlsym(library, kEmulatedEntry));
  REQUIRE(entry != nullptr);
  return entry();
#endif
}

TEST_CASE("CUDA engine: memory that runs out in the library ends in the engine's guard") {
  const absl::Status status = runtime::RunGuarded("a stage", Emulated().run_out_of_memory);
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
}

TEST_CASE("CUDA engine: a device that is lost ends every request once; the engine can be ended") {
  for (const int64_t after : {0, 40, 200}) {
    ModelEngineOptions options = CudaOptions(TinyModelFolder());
    options.token_budget = 32;
    const auto engine = MustCreate(options);
    std::vector<std::unique_ptr<OwnedRequest>> requests;
    for (uint64_t i = 0; i < 8; ++i) {
      requests.push_back(MakeRequest(i % 2 == 0 ? "txt" : "t", 10 + i));
    }
    Emulated().lose_after(-1, after);
    std::vector<RequestId> ids;
    for (const auto& request : requests) ids.push_back(MustSubmit(*engine, request->request));
    int failed = 0;
    for (const auto& [id, outcome] : WaitForAll(*engine, ids)) {
      if (outcome.terminal().type == EventType::kFinished) continue;
      ++failed;
      INFO(outcome.terminal().status);
      CHECK(outcome.terminal().type == EventType::kFailed);
      CHECK(outcome.terminal().status.code() == absl::StatusCode::kUnavailable);
      CHECK(outcome.terminal().status.message().find("lost after") != std::string::npos);
    }
    INFO("lost after " << after);
    CHECK(failed > 0);
    // It stays lost, and says so to those who come later.
    const RequestId late = MustSubmit(*engine, requests[1]->request);
    CHECK(WaitForAll(*engine, {late}).at(late).terminal().type == EventType::kFailed);
    WaitUntilIdle(*engine);
    CHECK(engine->stats().kv_blocks_used == 0);
    CHECK(engine->stats().embedding_bytes == 0);
    CHECK(engine->device_embedding_stats().rows == 0);
  }
}

TEST_CASE("CUDA engine: every rank of the first stage reads embeddings on its own device") {
  std::vector<std::unique_ptr<OwnedRequest>> requests;
  requests.push_back(MakeRequest("tpxt", 77));
  requests[0]->request.keep_embeddings = false;
  ModelEngineOptions options = CudaOptions(TinyModelFolder());
  options.tensor_parallel = 2;
  options.devices = {0, 1, 2};
  options.token_budget = 24;
  std::vector<float> want;
  for (const bool on_devices : {false, true}) {
    options.device_embeddings = on_devices;
    const auto engine = MustCreate(options);
    const std::vector<Outcome> outcomes = RunAll(*engine, requests, false);
    REQUIRE(outcomes[0].terminal().type == EventType::kFinished);
    if (want.empty()) want = outcomes[0].detail->logits;
    CHECK(SameBits(outcomes[0].detail->logits, want));
    CHECK((engine->device_embedding_stats().peak_rows > 0) == on_devices);
  }
}

TEST_CASE("CUDA engine: cuDNN's attention and free algorithms are a choice") {
  std::vector<std::unique_ptr<OwnedRequest>> requests;
  requests.push_back(MakeRequest("tpxt", 78));
  const std::vector<Outcome> cpu = RunAll(*MustCreate(TinyOptions()), requests, false);
  ModelEngineOptions options = CudaOptions(TinyModelFolder());
  options.cudnn_attention = true;
  const auto refused = ModelEngine::Create(options);
  CHECK(refused.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(refused.status().message().find("deterministic") != std::string::npos);
  options.deterministic = false;
  const std::vector<Outcome> cuda = RunAll(*MustCreate(options), requests, false);
  REQUIRE(cuda[0].terminal().type == EventType::kFinished);
  CHECK(RelativeError(cuda[0].detail->embeddings, cpu[0].detail->embeddings) <= kBackendTolerance);
  CHECK(RelativeError(cuda[0].detail->logits, cpu[0].detail->logits) <= kBackendTolerance);
}

TEST_CASE("CUDA engine: one lost device of TP2xPP2+E1 ends every request once") {
  for (const int number : {0, 1, 3, 4}) {
    ModelEngineOptions options = CudaOptions(TinyModelFolder());
    options.tensor_parallel = 2;
    options.stages = 2;
    options.devices = {0, 1, 2, 3, 4};
    options.token_budget = 24;
    options.stage_handover = number % 2 == 0 ? StageHandover::kPeer : StageHandover::kNccl;
    const auto engine = MustCreate(options);
    std::vector<std::unique_ptr<OwnedRequest>> requests;
    for (uint64_t i = 0; i < 6; ++i) {
      requests.push_back(MakeRequest("txt", 30 + i));
      requests.back()->request.keep_embeddings = i % 2 == 0;
    }
    Emulated().lose_after(number, 60);
    std::vector<RequestId> ids;
    for (const auto& request : requests) ids.push_back(MustSubmit(*engine, request->request));
    int failed = 0;
    // WaitForAll checks that each has one end.
    for (const auto& [id, outcome] : WaitForAll(*engine, ids)) {
      if (outcome.terminal().type == EventType::kFinished) continue;
      ++failed;
      INFO("device " << number << ": " << outcome.terminal().status);
      CHECK(outcome.terminal().type == EventType::kFailed);
      CHECK(outcome.terminal().status.code() == absl::StatusCode::kUnavailable);
    }
    CHECK(failed > 0);
    WaitUntilIdle(*engine);
    CHECK(engine->stats().kv_blocks_used == 0);
    CHECK(engine->stats().embedding_bytes == 0);
    CHECK(engine->device_embedding_stats().rows == 0);
  }
}

TEST_CASE("CUDA engine: what is not there is UNAVAILABLE, what cannot be is refused by its name") {
  ModelEngineOptions options = CudaOptions(TinyModelFolder());
  const auto fails = [&](absl::StatusCode code, const std::string& part) {
    const auto engine = ModelEngine::Create(options);
    UNSCOPED_INFO(engine.status());
    return engine.status().code() == code &&
           engine.status().message().find(part) != std::string::npos;
  };
  options.devices = {99};
  CHECK(fails(absl::StatusCode::kUnavailable, "GPU 99"));
  options.devices = {-1};
  CHECK(fails(absl::StatusCode::kInvalidArgument, "devices"));
  options.devices = {0, 0, 0};
  CHECK(fails(absl::StatusCode::kInvalidArgument, "devices has 3 entries for 2"));
  options.devices = {};
  options.tensor_parallel = 2;
  CHECK(fails(absl::StatusCode::kInvalidArgument, "each needs its own"));
  options.tensor_parallel = 3;
  CHECK(fails(absl::StatusCode::kUnimplemented, "tensor_parallel is 3"));
  options.tensor_parallel = 1;
  options.cuda_library = "/nowhere/librserve_cuda.so";
  CHECK(fails(absl::StatusCode::kUnavailable, "/nowhere/librserve_cuda.so"));
  options.backend = static_cast<Backend>(2);
  CHECK(fails(absl::StatusCode::kInvalidArgument, "backend"));
  options.backend = Backend::kCpu;
  options.devices = {0};
  CHECK(fails(absl::StatusCode::kInvalidArgument, "cpu has no devices"));
}
#endif

}  // namespace
}  // namespace rserve::testing
