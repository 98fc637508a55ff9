// Work that is recorded and replayed: it gives the bits of work that is queued.

#include <algorithm>
#include <memory>
#include <vector>

#include "src/backend/cuda/graphs.h"
#include "src/backend/cuda/host/host_device.h"
#include "tests/backend/text_chunks.h"
#include "tests/backend_cuda/cuda_case.h"
#include "tests/backend_cuda/ends.h"

namespace rserve::testing {
namespace {

constexpr backend::KvGeometry kKv = {40, 4};

cuda::RoleOptions Recording() {
  cuda::RoleOptions role;
  role.graph_rows = 1024;
  return role;
}

// Chunks of a prompt, all started at once; the logits.
std::vector<float> Prefill(const GoldenCase& golden, cuda::HostDevice* device,
                           const cuda::RoleOptions& role, const std::vector<int64_t>& cuts) {
  const auto stages = StagesOf(LoadOnDevice(golden, device), {}, kKv, role);
  std::vector<float> logits;
  for (const int64_t chunk : cuts) {
    // Other tokens in other blocks every time, so that what a recording reads is never what it was.
    TextChunks text(golden.config.text.vocab_size, kKv.num_blocks, 36, chunk);
    std::rotate(text.blocks.begin(), text.blocks.begin() + chunk, text.blocks.end());
    for (int32_t& id : text.ids) id = (id + static_cast<int32_t>(chunk)) % 50;
    Ends ends;
    for (size_t i = 0; i < text.works.size(); ++i) {
      stages[0]->Start(text.works[i], ends.Of(static_cast<int>(i)));
    }
    ends.WaitFor(text.works.size());
    for (const absl::Status& status : ends.statuses()) CHECK(status.ok());
    logits.insert(logits.end(), text.logits.begin(), text.logits.end());
  }
  return logits;
}

TEST_CASE("CUDA: chunks of equal size are recorded once a place, and replayed to the bit") {
  const GoldenCase golden = LoadCase("gqa7_bf16");
  cuda::HostDeviceOptions options;
  options.background = true;
  cuda::HostDevice plain(options);
  const std::vector<int64_t> cuts = {4, 9, 4, 36, 9};
  const std::vector<float> want = Prefill(golden, &plain, {}, cuts);
  CHECK(plain.replays() == 0);
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    options.seed = seed;
    cuda::HostDevice device(options);
    const std::vector<float> got = Prefill(golden, &device, Recording(), cuts);
    INFO("seed " << seed);
    CHECK(SameBits(got, want));
    // Of 9 + 4 + 9 + 1 + 4 chunks all but the first of each size and place.
    CHECK(device.replays() == 27 - 5);
    CHECK(device.live_graphs() == 0);
  }
  // A device that cannot record does without.
  options.can_record = false;
  cuda::HostDevice unable(options);
  CHECK(SameBits(Prefill(golden, &unable, Recording(), cuts), want));
  CHECK(unable.replays() == 0);
  // Larger pieces than the limit are queued.
  cuda::RoleOptions few = Recording();
  few.graph_rows = 3;
  cuda::HostDevice large(options);
  CHECK(SameBits(Prefill(golden, &large, few, cuts), want));
  CHECK(large.replays() == 0);
}

TEST_CASE("CUDA: pictures of equal grids are recorded, and replayed to the bit") {
  const GoldenCase golden = LoadCase("gqa2_tied");
  cuda::HostDevice plain({}), device({7});
  const auto queued = EncoderOf(LoadOnDevice(golden, &plain));
  const auto recorded = EncoderOf(LoadOnDevice(golden, &device), Recording());
  for (int round = 0; round < 3; ++round) {
    for (const Prompt& prompt : golden.prompts) {
      if (prompt.grids.empty()) continue;
      const auto want = EncodeItems(*queued, golden, prompt, true);
      const auto got = EncodeItems(*recorded, golden, prompt, true);
      for (size_t i = 0; i < want.size(); ++i) CHECK(SameBits(got[i], want[i]));
    }
  }
  CHECK(device.replays() > 0);
  CHECK(plain.replays() == 0);
}

// What a body copies, and where from: the pointer is part of the key.
struct CopyKey {
  const float* from = nullptr;
  bool operator==(const CopyKey&) const = default;
};

TEST_CASE(
    "CUDA: a recording is found by its pointers, their number is bounded, failures are not kept") {
  cuda::HostDevice device({});
  cuda::Timeline timeline;
  REQUIRE(timeline.Init(&device, false).ok());
  std::vector<float> from(100), to(1);
  {
    cuda::Graphs<CopyKey> graphs;
    graphs.Init(&timeline, 1, 2);
    const auto run = [&](size_t i) {
      cuda::Queue queue(&timeline);
      const CopyKey key = {&from[i]};
      graphs.Run(key, 1, &queue,
                 [&](cuda::Queue* q) { q->Copy(to.data(), key.from, sizeof(float)); });
      REQUIRE(queue.Finish().ok());
    };
    for (int round = 0; round < 4; ++round) {
      for (size_t i = 0; i < 100; ++i) {
        from[i] = static_cast<float>(1000 * round + static_cast<int>(i));
        run(i);
        CHECK(to[0] == from[i]);
        run(i);  // recorded
        from[i] += 0.5f;
        run(i);  // the recording reads what is there now
        CHECK(to[0] == from[i]);
      }
      CHECK(device.live_graphs() == static_cast<int64_t>(cuda::kMaxGraphs));
    }
    CHECK(device.replays() == 4 * 100 * 2);
    // A body that cannot be queued fails its piece, recorded or not, and is not replayed later.
    const CopyKey bad = {nullptr};
    for (int time = 0; time < 3; ++time) {
      cuda::Queue queue(&timeline);
      graphs.Run(bad, 1, &queue,
                 [](cuda::Queue* q) { q->Note(absl::InvalidArgumentError("no such copy")); });
      CHECK(queue.Finish().code() == absl::StatusCode::kInvalidArgument);
    }
    CHECK(device.replays() == 4 * 100 * 2);
  }
  CHECK(device.live_graphs() == 0);
}

}  // namespace
}  // namespace rserve::testing
