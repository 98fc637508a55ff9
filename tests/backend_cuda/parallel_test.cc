// Tensor parallelism: ranks as threads, each on a device of its own, with the golden checkpoints.

#include <functional>
#include <string>
#include <vector>

#include "src/backend/cuda/host/host_collective.h"
#include "src/backend/cuda/host/host_device.h"
#include "src/backend/plan/parallel_stage.h"
#include "src/backend/plan/shard.h"
#include "tests/backend_cuda/cuda_case.h"

namespace rserve::testing {
namespace {

// As for one rank, and one more rounding where partial sums meet.
constexpr double kTolerance = 0.04;

// Stages of several ranks; owns their devices.
struct Ranks {
  // Rank r's device is lost after lost_after[r] operations, where given.
  Ranks(const GoldenCase& golden, int ranks, const std::vector<int32_t>& cuts,
        const backend::KvGeometry& kv, std::vector<int64_t> lost_after = {}) {
    const auto checkpoint = model::Checkpoint::Open(CaseFolder(golden.name));
    REQUIRE(checkpoint.ok());
    lost_after.resize(static_cast<size_t>(ranks), -1);
    std::vector<int32_t> ends = cuts;
    ends.push_back(golden.config.text.num_layers);
    int32_t begin = 0;
    for (int32_t end : ends) {
      std::vector<std::unique_ptr<backend::StageBackend>> stage;
      std::vector<std::unique_ptr<cuda::Collective>> collectives = cuda::MakeHostCollectives(ranks);
      cuda::Collective* first = collectives[0].get();
      for (int32_t rank = 0; rank < ranks; ++rank) {
        devices.push_back(std::make_unique<cuda::HostDevice>(cuda::HostDeviceOptions{
            static_cast<uint64_t>(17 + rank), lost_after[static_cast<size_t>(rank)]}));
        // Each rank loads what it holds, from the same mapped file.
        auto model = cuda::CudaModel::Load(
            golden.config, **checkpoint, {false, {begin, end}, rank, ranks}, devices.back().get());
        INFO(golden.name << ": " << model.status());
        REQUIRE(model.ok());
        auto made = cuda::MakeCudaStage(*model, {begin, end}, kv, kStageLimits, {},
                                        std::move(collectives[static_cast<size_t>(rank)]));
        INFO(made.status());
        REQUIRE(made.ok());
        stage.push_back(*std::move(made));
      }
      stages.push_back(backend::MakeParallelStage(
          std::move(stage), kStageLimits.max_tokens * golden.config.text.hidden_size, 2,
          [first] { first->Abort(); }));
      begin = end;
    }
  }
  std::vector<std::unique_ptr<cuda::HostDevice>> devices;  // before what uses them
  std::vector<std::unique_ptr<backend::StageBackend>> stages;
};

void AgreesWithReference(const std::string& name, int ranks, const std::vector<int32_t>& cuts) {
  const GoldenCase golden = LoadCase(name);
  cuda::HostDevice device({});
  const auto encoder = EncoderOf(LoadOnDevice(golden, &device));  // E1
  const cpu::KvGeometry kv{40, 4};
  Ranks made(golden, ranks, cuts, kv);
  Pipeline pipeline(golden, kv, std::move(made.stages));
  for (const Prompt& prompt : golden.prompts) {
    const auto items = EncodeItems(*encoder, golden, prompt, true);
    const std::vector<float> whole =
        pipeline.Run(pipeline.Begin(prompt, items, 0, 2), prompt.tokens());
    const double error = RelativeError(whole, prompt.logits);
    INFO(name << " TP" << ranks << ": relative error " << error);
    CHECK(error <= kTolerance);
    CHECK(SameBits(pipeline.Run(pipeline.Begin(prompt, items, 0, 3), 7), whole));
  }
}

TEST_CASE("CUDA: TP2, TP3, TP4 and TP7 agree with the reference, to the bit for every chunk") {
  AgreesWithReference("mha_f16", 2, {});
  AgreesWithReference("adjacent", 3, {});
  AgreesWithReference("mha_f16", 4, {});
  AgreesWithReference("gqa7_bf16", 7, {});  // seven ranks hold the one key head
}

TEST_CASE("CUDA: TP2 x PP2 + E1 agrees with the reference, tied and untied, one key head or more") {
  for (const char* name : {"gqa2_tied", "old_names", "sharded", "patch14"}) {
    AgreesWithReference(name, 2, {1});
  }
}

TEST_CASE("CUDA: shares cover the model and no more") {
  const model::TextConfig text = LoadCase("gqa2_tied").config.text;
  for (int64_t ranks : {1, 2, 4}) {
    int64_t heads = 0, inter = 0, vocab = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      REQUIRE(backend::CheckShard(text, rank, ranks).ok());
      const backend::TextShard shard = backend::ShardOf(text, rank, ranks);
      CHECK(shard.heads.begin == heads);
      CHECK(shard.inter.begin == inter);
      CHECK(shard.vocab.begin == vocab);
      // The key head that a rank's query heads belong to is one of its own.
      const int64_t group = text.num_heads / text.num_kv_heads;
      CHECK(shard.kv_heads.begin == shard.heads.begin / group);
      heads += shard.heads.count;
      inter += shard.inter.count;
      vocab += shard.vocab.count;
    }
    CHECK(heads == text.num_heads);
    CHECK(inter == text.intermediate_size);
    CHECK(vocab == text.vocab_size);
  }
  CHECK(backend::CheckShard(text, 0, 3).code() == absl::StatusCode::kUnimplemented);
  CHECK(backend::CheckShard(text, 2, 2).code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("CUDA: a rank that fails fails its stage, and the others do not wait for it") {
  const GoldenCase golden = LoadCase("mha_f16");
  // Where a forward pass begins, in operations.
  const int64_t loaded = [&] {
    Ranks probe(golden, 2, {}, {40, 4});
    return probe.devices[1]->operations();
  }();
  for (int64_t after : {0, 5, 12}) {
    Ranks made(golden, 2, {}, {40, 4}, {-1, loaded + after});
    std::vector<float> logits(static_cast<size_t>(golden.config.text.vocab_size));
    std::vector<int32_t> blocks(40);
    for (int32_t b = 0; b < 40; ++b) blocks[static_cast<size_t>(b)] = b;
    const std::vector<int32_t> ids(6, 1), positions(6, 0);
    backend::StageEntry entry;
    entry.count = 6;
    entry.token_ids = ids.data();
    for (auto& axis : entry.positions) axis = positions.data();
    entry.kv_blocks = blocks;
    entry.want_logits = true;
    entry.logits = logits.data();
    backend::StageWork work;
    work.entries = {&entry, 1};
    work.total_tokens = 7;
    // Refused by all ranks alike: the stage goes on.
    CHECK(made.stages[0]->Forward(work).code() == absl::StatusCode::kInvalidArgument);
    work.total_tokens = 6;
    const absl::Status lost = made.stages[0]->Forward(work);
    INFO(lost);
    CHECK(lost.code() == absl::StatusCode::kUnavailable);
    CHECK(made.stages[0]->Forward(work) == lost);
  }
}

}  // namespace
}  // namespace rserve::testing
