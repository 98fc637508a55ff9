// Work that is started and not waited for: how much, in which order it ends, and how it fails.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "src/backend/cuda/host/host_device.h"
#include "tests/backend_cuda/cuda_case.h"

namespace rserve::testing {
namespace {

constexpr backend::KvGeometry kKv = {40, 4};

// Which pieces of work have ended, and how.
class Ends {
 public:
  backend::Done Of(int piece) {
    return [this, piece](absl::Status status) {
      std::lock_guard<std::mutex> lock(mutex_);
      order_.push_back(piece);
      statuses_.push_back(std::move(status));
      changed_.notify_all();
    };
  }
  void WaitFor(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return order_.size() >= count; });
  }
  std::vector<int> order() {
    std::lock_guard<std::mutex> lock(mutex_);
    return order_;
  }
  std::vector<absl::Status> statuses() {
    std::lock_guard<std::mutex> lock(mutex_);
    return statuses_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> order_;
  std::vector<absl::Status> statuses_;
};

// The chunks of one prompt of text, as micro-batches.
struct Chunks {
  Chunks(const GoldenCase& golden, int64_t tokens, int64_t chunk)
      : logits(static_cast<size_t>(golden.config.text.vocab_size), 0.0f) {
    for (int64_t t = 0; t < tokens; ++t) {
      ids.push_back(static_cast<int32_t>(7 + t * 5 % 40));
      positions.push_back(static_cast<int32_t>(t));
    }
    for (int32_t b = 0; b < kKv.num_blocks; ++b) blocks.push_back(b);
    for (int64_t begin = 0; begin < tokens; begin += chunk) {
      backend::StageEntry entry;
      entry.begin = begin;
      entry.count = std::min(chunk, tokens - begin);
      entry.token_ids = ids.data() + begin;
      for (auto& axis : entry.positions) axis = positions.data() + begin;
      entry.kv_blocks = blocks;
      entry.want_logits = begin + chunk >= tokens;
      entry.logits = entry.want_logits ? logits.data() : nullptr;
      entries.push_back(entry);
    }
    for (const backend::StageEntry& entry : entries) {
      works.push_back({{&entry, 1}, entry.count, nullptr, nullptr});
    }
  }
  Chunks(const Chunks&) = delete;
  std::vector<int32_t> ids, positions, blocks;
  std::vector<float> logits;
  std::vector<backend::StageEntry> entries;
  std::vector<backend::StageWork> works;
};

std::vector<float> Together(const GoldenCase& golden, int64_t tokens) {
  cuda::HostDevice device({});
  const auto stages = StagesOf(LoadOnDevice(golden, &device), {}, kKv);
  Chunks whole(golden, tokens, tokens);
  REQUIRE(stages[0]->Forward(whole.works[0]).ok());
  return whole.logits;
}

TEST_CASE("CUDA: two micro-batches are started before the first has run, and end in their order") {
  const GoldenCase golden = LoadCase("gqa2_tied");
  cuda::HostDevice device({3});
  const auto stages = StagesOf(LoadOnDevice(golden, &device), {}, kKv);
  Chunks chunks(golden, 30, 10);
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
    Chunks chunks(golden, 36, 5);
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
  Chunks chunks(golden, 24, 8);
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
        Chunks chunks(golden, 20, 10);
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

TEST_CASE("CUDA: what is refused ends at once and disturbs nothing") {
  const GoldenCase golden = LoadCase("gqa2_tied");
  cuda::HostDevice device({});
  const auto stages = StagesOf(LoadOnDevice(golden, &device), {}, kKv);
  Chunks chunks(golden, 20, 10);
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
