// Embeddings that stay on the device between encoder and first stage: the bits of the way through
// host memory, wherever their rows lie.

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "src/backend/cuda/embedding_store.h"
#include "src/backend/cuda/host/host_device.h"
#include "src/backend/plan/row_store.h"
#include "tests/backend_cuda/cuda_case.h"
#include "tests/backend_cuda/ends.h"

namespace rserve::testing {
namespace {

constexpr backend::KvGeometry kKv = {40, 4};
constexpr int64_t kCapacity = 160;  // rows

std::shared_ptr<cuda::EmbeddingStore> StoreOn(const std::vector<cuda::Device*>& devices,
                                              const GoldenCase& golden,
                                              int64_t capacity = kCapacity) {
  auto store = cuda::EmbeddingStore::Make(devices, capacity, golden.config.text.hidden_size);
  INFO(store.status());
  REQUIRE(store.ok());
  return *std::move(store);
}

cuda::RoleOptions With(std::shared_ptr<cuda::EmbeddingStore> store, int64_t graph_rows = 0) {
  cuda::RoleOptions role;
  role.embeddings = std::move(store);
  role.graph_rows = graph_rows;
  return role;
}

int64_t RowsOf(const GoldenCase& golden, const model::Grid& grid) {
  return grid.patches() / golden.config.vision.merge_unit();
}

std::vector<backend::StoredRows> TakeFor(const GoldenCase& golden, const Prompt& prompt,
                                         backend::RowStore* rows) {
  std::vector<backend::StoredRows> stored;
  for (const model::Grid& grid : prompt.grids) {
    stored.push_back(rows->Take(RowsOf(golden, grid)));
    REQUIRE(stored.back());
  }
  return stored;
}

// A prompt's pictures into the store, in one batch; those whose `host` is given there too.
void EncodeStored(backend::EncoderBackend& encoder, const Prompt& prompt,
                  const std::vector<backend::StoredRows>& stored,
                  std::vector<std::vector<float>>* host = nullptr) {
  std::vector<backend::EncodeUnit> units;
  for (size_t i = 0; i < stored.size(); ++i) {
    float* const on_host = host == nullptr ? nullptr : (*host)[i].data();
    units.push_back({prompt.grids[i], prompt.patches[i].data(), on_host, &stored[i]});
  }
  const absl::Status status = encoder.Encode(units);
  INFO(status);
  REQUIRE(status.ok());
}

Sequence BeginStored(const Pipeline& pipeline, const Prompt& prompt,
                     const std::vector<backend::StoredRows>& stored, uint32_t seed) {
  Sequence sequence = pipeline.Begin(prompt, {}, 0, seed);
  for (const backend::StoredRows& rows : stored) sequence.stored.push_back(&rows);
  return sequence;
}

TEST_CASE("CUDA: embeddings that stay on the device give the bits of the way through the host") {
  uint64_t seed = 1;
  for (const std::string& name : CaseNames()) {
    const GoldenCase golden = LoadCase(name);
    cuda::HostDevice device({seed}), other({seed + 50});
    const auto model = LoadOnDevice(golden, &device);
    const auto host_encoder = EncoderOf(model);
    Pipeline host(golden, kKv, StagesOf(model, {}, kKv));
    // The store is the first stage's; one encoder beside it, one on another device.
    const auto store = StoreOn({&device}, golden);
    backend::RowStore rows(kCapacity);
    const auto near = EncoderOf(model, With(store, 1024));
    const auto far = EncoderOf(LoadOnDevice(golden, &other), With(store));
    Pipeline stored_rows(golden, kKv, StagesOf(model, {1}, kKv, With(store, 1024)));
    stored_rows.Poison();
    for (const Prompt& prompt : golden.prompts) {
      const auto items = EncodeItems(*host_encoder, golden, prompt, true);
      const std::vector<float> want = host.Run(host.Begin(prompt, items, 0, 3), prompt.tokens());
      // Rows in gaps: every other row of the store's first ones is somebody else's.
      std::vector<backend::StoredRows> mine, others;
      for (int i = 0; i < 12; ++i) (i % 2 == 0 ? others : mine).push_back(rows.Take(1));
      mine.clear();
      for (backend::EncoderBackend* encoder : {near.get(), far.get(), near.get()}) {
        const auto stored = TakeFor(golden, prompt, &rows);
        EncodeStored(*encoder, prompt, stored);
        INFO(name << ", seed " << seed);
        // The last chunks lie inside pictures, which are longer than 5 tokens.
        for (const int64_t chunk : {prompt.tokens(), int64_t{5}, int64_t{11}}) {
          CHECK(
              SameBits(stored_rows.Run(BeginStored(stored_rows, prompt, stored, 7), chunk), want));
        }
      }
    }
    CHECK(rows.taken() == 0);
    ++seed;
  }
}

TEST_CASE(
    "CUDA: an encode writes its own rows of the store and no others, on every rank's device") {
  const GoldenCase golden = LoadCase("gqa2_tied");
  cuda::HostDevice first({3}), second({4}), encoders({5});
  const auto store = StoreOn({&first, &second}, golden);
  backend::RowStore rows(kCapacity);
  const auto encoder = EncoderOf(LoadOnDevice(golden, &encoders), With(store));
  const Prompt& prompt = *std::find_if(golden.prompts.begin(), golden.prompts.end(),
                                       [](const Prompt& p) { return !p.grids.empty(); });
  const auto items = EncodeItems(*encoder, golden, prompt, true);
  std::vector<std::vector<float>> on_host = items;
  for (auto& item : on_host) item.assign(item.size(), 0.0f);
  std::vector<backend::StoredRows> holes, others;
  for (int i = 0; i < 8; ++i) (i % 2 == 0 ? others : holes).push_back(rows.Take(1));
  holes.clear();
  const auto stored = TakeFor(golden, prompt, &rows);
  EncodeStored(*encoder, prompt, stored, &on_host);
  const int64_t hidden = golden.config.text.hidden_size, width = store->width();
  for (size_t copy = 0; copy < 2; ++copy) {
    std::vector<bool> written(static_cast<size_t>(kCapacity), false);
    for (size_t i = 0; i < stored.size(); ++i) {
      CHECK(SameBits(on_host[i], items[i]));  // also where both are wanted
      stored[i].ForEach(0, stored[i].rows(), [&](int64_t row, const backend::RowRun& run) {
        for (int64_t r = 0; r < run.rows; ++r) {
          written[static_cast<size_t>(run.begin + r)] = true;
          const cuda::Bf16* at = store->Row(copy, run.begin + r);
          for (int64_t c = 0; c < width; ++c) {
            const float want =
                c < hidden ? items[i][static_cast<size_t>((row + r) * hidden + c)] : 0.0f;
            const uint32_t bits = uint32_t{at[c].bits} << 16;
            REQUIRE(std::memcmp(&bits, &want, sizeof(bits)) == 0);
          }
        }
      });
    }
    // Device memory begins as 0xff.
    for (int64_t r = 0; r < kCapacity; ++r) {
      if (written[static_cast<size_t>(r)]) continue;
      for (int64_t c = 0; c < width; ++c) REQUIRE(store->Row(copy, r)[c].bits == 0xffff);
    }
  }
}

TEST_CASE("CUDA: stored rows that are not the unit's, the slice's or the store's are refused") {
  const GoldenCase golden = LoadCase("gqa2_tied");
  cuda::HostDevice device({}), other({});
  const auto model = LoadOnDevice(golden, &device);
  const auto store = StoreOn({&device}, golden, 8);
  const auto encoder = EncoderOf(model, With(store));
  const auto none = EncoderOf(model);
  const auto refused = [](const absl::Status& status, const std::string& part) {
    INFO(status);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(status.message().find(part) != std::string::npos);
  };
  const model::Grid grid{1, 4, 4};
  const std::vector<float> patches(
      static_cast<size_t>(grid.patches() * golden.config.vision.patch_dim()));
  backend::RowStore rows(8), larger(40);
  const backend::StoredRows right = rows.Take(RowsOf(golden, grid)), few = rows.Take(1);
  const backend::StoredRows gap = larger.Take(30), beyond = larger.Take(RowsOf(golden, grid));
  REQUIRE(right);
  CHECK(encoder->Encode({{{grid, patches.data(), nullptr, &right}}}).ok());
  refused(encoder->Encode({{{grid, patches.data(), nullptr, nullptr}}}), "null");
  refused(encoder->Encode({{{grid, patches.data(), nullptr, &few}}}), "names 1 stored rows");
  refused(encoder->Encode({{{grid, patches.data(), nullptr, &beyond}}}), "in a store of 8");
  refused(none->Encode({{{grid, patches.data(), nullptr, &right}}}), "in a store of 0");

  const auto stages = StagesOf(model, {}, kKv, With(store));
  const auto without = StagesOf(model, {}, kKv);
  const std::vector<int32_t> ids(6, 1), positions(6, 1), blocks = {0, 1};
  std::vector<float> logits(static_cast<size_t>(golden.config.text.vocab_size));
  backend::EmbeddingSlice slice;
  slice.token_begin = 1;
  slice.rows = 2;
  slice.stored = &right;
  const auto forward = [&](backend::StageBackend& stage) {
    backend::StageEntry entry;
    entry.count = 6;
    entry.token_ids = ids.data();
    for (auto& axis : entry.positions) axis = positions.data();
    entry.embeddings = {&slice, 1};
    entry.kv_blocks = blocks;
    entry.want_logits = true;
    entry.logits = logits.data();
    backend::StageWork work;
    work.entries = {&entry, 1};
    work.total_tokens = 6;
    return stage.Forward(work);
  };
  CHECK(forward(*stages[0]).ok());
  refused(forward(*without[0]), "the stage has no store");
  slice.first_row = right.rows() - 1;
  refused(forward(*stages[0]), "that are stored");
  slice.first_row = -1;
  refused(forward(*stages[0]), "that are stored");
  slice.first_row = 0;
  slice.stored = &beyond;
  refused(forward(*stages[0]), "on of a store of 8");

  // A store elsewhere, of other rows, or larger than memory.
  const auto elsewhere = cuda::MakeCudaStage(model, {0, golden.config.text.num_layers}, kKv,
                                             kStageLimits, With(StoreOn({&other}, golden)));
  refused(elsewhere.status(), "is not rank 0's");
  auto wide = cuda::EmbeddingStore::Make({&device}, 8, golden.config.text.hidden_size + 8);
  REQUIRE(wide.ok());
  refused(cuda::MakeCudaEncoder(model, kEncoderLimits, With(*wide)).status(), "the store's rows");
  cuda::HostDeviceOptions small;
  small.memory_bytes = 1000;
  cuda::HostDevice full(small);
  for (const int64_t capacity : {int64_t{100}, INT64_MAX}) {
    const auto refused_store = cuda::EmbeddingStore::Make({&full}, capacity, 48);
    CHECK(refused_store.status().code() == absl::StatusCode::kResourceExhausted);
    CHECK(refused_store.status().message().find("embedding_bytes") != std::string::npos);
  }
}

TEST_CASE("CUDA: a device lost on the way to the store ends the encode once and frees all memory") {
  const GoldenCase golden = LoadCase("gqa2_tied");
  const Prompt& prompt = *std::find_if(golden.prompts.begin(), golden.prompts.end(),
                                       [](const Prompt& p) { return !p.grids.empty(); });
  for (const int64_t after : {0, 10, 40}) {
    cuda::HostDevice stage_device({});
    cuda::HostDeviceOptions options;
    options.background = true;
    cuda::HostDevice device(options);
    {
      const auto store = StoreOn({&stage_device}, golden);
      backend::RowStore rows(kCapacity);
      const auto encoder = EncoderOf(LoadOnDevice(golden, &device), With(store));
      const auto stored = TakeFor(golden, prompt, &rows);
      device.LoseAfter(after);
      Ends ends;
      std::vector<backend::EncodeUnit> units;
      for (size_t i = 0; i < stored.size(); ++i) {
        units.push_back({prompt.grids[i], prompt.patches[i].data(), nullptr, &stored[i]});
      }
      encoder->Start(units, ends.Of(0));
      encoder->Start(units, ends.Of(1));
      ends.WaitFor(2);
      CHECK(ends.order() == std::vector<int>{0, 1});
      INFO("lost after " << after << ": " << ends.statuses()[1]);
      CHECK(ends.statuses()[1].code() == absl::StatusCode::kUnavailable);
    }
    CHECK(device.live_allocations() == 0);
    CHECK(stage_device.live_allocations() == 0);
  }
}

}  // namespace
}  // namespace rserve::testing
