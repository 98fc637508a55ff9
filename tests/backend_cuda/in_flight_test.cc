// Work that is started and not waited for: how much, in which order it ends, and how it fails.

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/backend/cuda/host/host_device.h"
#include "src/backend/cuda/weights.h"
#include "tests/backend/text_chunks.h"
#include "tests/backend_cuda/cuda_case.h"
#include "tests/backend_cuda/ends.h"

namespace rserve::testing {
namespace {

constexpr backend::KvGeometry kKv = {40, 4};

TextChunks Text(const GoldenCase& golden, int64_t tokens, int64_t chunk) {
  return TextChunks(golden.config.text.vocab_size, kKv.num_blocks, tokens, chunk);
}

std::vector<float> Together(const GoldenCase& golden, int64_t tokens) {
  cuda::HostDevice device({});
  const auto stages = StagesOf(LoadOnDevice(golden, &device), {}, kKv);
  TextChunks whole = Text(golden, tokens, tokens);
  REQUIRE(stages[0]->Forward(whole.works[0]).ok());
  return whole.logits;
}

TEST_CASE("CUDA: two micro-batches are started before the first has run, and end in their order") {
  const GoldenCase golden = LoadCase("gqa2_tied");
  cuda::HostDevice device({3});
  const auto stages = StagesOf(LoadOnDevice(golden, &device), {}, kKv);
  TextChunks chunks = Text(golden, 30, 10);
  Ends ends;
  const int64_t before = device.operations();
  stages[0]->Start(chunks.works[0], ends.Of(0));
  stages[0]->Start(chunks.works[1], ends.Of(1));
  // Nothing runs on this device before somebody waits: both are queued, none has begun.
  CHECK(device.operations() == before);
  CHECK(ends.order().empty());
  // A third one has to wait for the first.
  stages[0]->Start(chunks.works[2], ends.Of(2));
  CHECK(ends.order().at(0) == 0);
  while (device.Step()) {
  }
  ends.WaitFor(3);
  CHECK(ends.order() == std::vector<int>{0, 1, 2});
  for (const absl::Status& status : ends.statuses()) CHECK(status.ok());
  CHECK(SameBits(chunks.logits, Together(golden, 30)));
}

TEST_CASE("CUDA: work started on a device that runs beside us gives the bits of work waited for") {
  const GoldenCase golden = LoadCase("gqa7_bf16");
  const std::vector<float> want = Together(golden, 36);
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    cuda::HostDeviceOptions options;
    options.seed = seed;
    options.background = true;
    // How its end is told makes no difference.
    options.skip_host_functions = seed % 2 == 0;
    cuda::HostDevice device(options);
    const auto stages = StagesOf(LoadOnDevice(golden, &device), {}, kKv);
    TextChunks chunks = Text(golden, 36, 5);
    Ends ends;
    for (size_t i = 0; i < chunks.works.size(); ++i) {
      stages[0]->Start(chunks.works[i], ends.Of(static_cast<int>(i)));
    }
    ends.WaitFor(chunks.works.size());
    std::vector<int> order;
    for (size_t i = 0; i < chunks.works.size(); ++i) order.push_back(static_cast<int>(i));
    CHECK(ends.order() == order);
    INFO("seed " << seed);
    CHECK(SameBits(chunks.logits, want));
  }
}

TEST_CASE("CUDA: encoder and stage take turns on one device") {
  const GoldenCase golden = LoadCase("gqa2_tied");
  cuda::HostDeviceOptions options;
  options.background = true;
  cuda::HostDevice device(options);
  const auto model = LoadOnDevice(golden, &device);
  auto turns = cuda::Turns::Make(&device);
  REQUIRE(turns.ok());
  cuda::RoleOptions role;
  role.turns = *turns;
  auto encoder = cuda::MakeCudaEncoder(model, kEncoderLimits, role);
  REQUIRE(encoder.ok());
  auto stage =
      cuda::MakeCudaStage(model, {0, golden.config.text.num_layers}, kKv, kStageLimits, role);
  REQUIRE(stage.ok());
  const auto prompt = std::find_if(golden.prompts.begin(), golden.prompts.end(),
                                   [](const Prompt& p) { return !p.grids.empty(); });
  const auto alone = EncodeItems(**encoder, golden, *prompt, true);
  TextChunks chunks = Text(golden, 24, 8);
  Ends ends;
  std::vector<std::vector<float>> items = alone;
  std::vector<backend::EncodeUnit> units;
  for (size_t i = 0; i < items.size(); ++i) {
    std::fill(items[i].begin(), items[i].end(), 0.0f);
    units.push_back({prompt->grids[i], prompt->patches[i].data(), items[i].data()});
  }
  (*encoder)->Start(units, ends.Of(10));
  for (const backend::StageWork& work : chunks.works) (*stage)->Start(work, ends.Of(0));
  ends.WaitFor(4);
  for (size_t i = 0; i < items.size(); ++i) CHECK(SameBits(items[i], alone[i]));
  CHECK(SameBits(chunks.logits, Together(golden, 24)));
}

TEST_CASE("CUDA: all work in flight on a device that is lost ends once, with its error") {
  const GoldenCase golden = LoadCase("gqa2_tied");
  cuda::HostDevice probe({});
  const auto probe_stages = StagesOf(LoadOnDevice(golden, &probe), {}, kKv);
  const int64_t begin = probe.operations();
  for (const int64_t after : {0, 4, 15, 30}) {
    for (const bool background : {false, true}) {
      cuda::HostDeviceOptions options;
      options.seed = 5;
      options.lost_after = begin + after;
      options.background = background;
      cuda::HostDevice device(options);
      {
        const auto stages = StagesOf(LoadOnDevice(golden, &device), {}, kKv);
        TextChunks chunks = Text(golden, 20, 10);
        Ends ends;
        stages[0]->Start(chunks.works[0], ends.Of(0));
        stages[0]->Start(chunks.works[1], ends.Of(1));
        if (!background) {
          while (device.Step()) {
          }
        }
        ends.WaitFor(2);
        CHECK(ends.order() == std::vector<int>{0, 1});
        INFO("lost after " << after << ": " << ends.statuses()[1]);
        CHECK(ends.statuses()[1].code() == absl::StatusCode::kUnavailable);
        CHECK(ends.statuses()[1] == device.lost());
        // Later work fails at once.
        CHECK(stages[0]->Forward(chunks.works[0]) == device.lost());
        CHECK(ends.order().size() == 2);
      }
      CHECK(device.live_allocations() == 0);
    }
  }
}

TEST_CASE("CUDA: after a failed call on a device that goes on, nothing of a role runs without it") {
  const GoldenCase golden = LoadCase("gqa2_tied");
  for (const bool background : {false, true}) {
    cuda::HostDeviceOptions options;
    options.background = background;
    cuda::HostDevice device(options);
    int64_t done = 0;
    {
      const auto stages = StagesOf(LoadOnDevice(golden, &device), {}, kKv);
      TextChunks chunks = Text(golden, 20, 10);
      Ends ends;
      stages[0]->Start(chunks.works[0], ends.Of(0));
      stages[0]->Start(chunks.works[1], ends.Of(1));
      device.FailCalls();
      CHECK(stages[0]->Forward(chunks.works[0]).code() == absl::StatusCode::kUnavailable);
      ends.WaitFor(2);
      CHECK(ends.order() == std::vector<int>{0, 1});
      // The stage goes while the device has its work, host functions and all, before it.
    }
    done = device.operations();
    while (device.Step()) {
    }
    CHECK(device.operations() == done);
    CHECK(device.live_allocations() == 0);
  }
}

TEST_CASE("CUDA: what a GPU refuses of streams, events and recordings is an error on the host") {
  cuda::HostDevice device({}), other({});
  cuda::Timeline here, there;
  REQUIRE(here.Init(&device, false).ok());
  REQUIRE(there.Init(&other, false).ok());
  const absl::StatusOr<cuda::EventRef> event = other.CreateEvent();
  REQUIRE(event.ok());
  // Calls that would break this thread's recording; another thread's are its own affair.
  REQUIRE(device.Bind().ok());
  REQUIRE(device.BeginRecording(here.stream()).ok());
  CHECK(device.Allocate(16).status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK(here.Finish().code() == absl::StatusCode::kFailedPrecondition);
  bool allocated = false;
  std::thread([&] {
    const absl::StatusOr<void*> memory = device.Allocate(16);
    allocated = memory.ok();
    if (allocated) device.Free(*memory);
  }).join();
  CHECK(allocated);
  const absl::StatusOr<cuda::GraphRef> graph = device.EndRecording(here.stream());
  REQUIRE(graph.ok());
  device.DestroyGraph(*graph);
  CHECK(here.Finish().ok());
  // An event of another device, and a kernel of a thread that has bound another device.
  CHECK(device.Record(*event, here.stream()).code() == absl::StatusCode::kInternal);
  CHECK(device.lost().code() == absl::StatusCode::kInternal);
  REQUIRE(device.Bind().code() == absl::StatusCode::kInternal);
  std::vector<cuda::Bf16> x(64), w(64), y(64);
  CHECK(there.products()
            ->Run(cuda::Matrix{w.data(), nullptr, 8, 8}.Args(8, x.data(), 8, y.data(), 8))
            .ok());
  CHECK(there.Finish().message().find("bound another one") != std::string::npos);
}

TEST_CASE("CUDA: what is refused ends at once and disturbs nothing") {
  const GoldenCase golden = LoadCase("gqa2_tied");
  cuda::HostDevice device({});
  const auto stages = StagesOf(LoadOnDevice(golden, &device), {}, kKv);
  TextChunks chunks = Text(golden, 20, 10);
  Ends ends;
  stages[0]->Start(chunks.works[0], ends.Of(0));
  backend::StageWork bad = chunks.works[1];
  bad.total_tokens = 9;
  stages[0]->Start(bad, ends.Of(7));
  CHECK(ends.order() == std::vector<int>{7});
  CHECK(ends.statuses()[0].code() == absl::StatusCode::kInvalidArgument);
  stages[0]->Start(chunks.works[1], ends.Of(1));
  while (device.Step()) {
  }
  ends.WaitFor(3);
  CHECK(ends.order() == std::vector<int>{7, 0, 1});
  CHECK(SameBits(chunks.logits, Together(golden, 20)));
}

}  // namespace
}  // namespace rserve::testing
