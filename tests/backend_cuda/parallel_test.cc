// Tensor parallelism: ranks as threads, each on a device of its own, with the golden checkpoints.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/backend/cuda/host/host_collective.h"
#include "src/backend/cuda/host/host_device.h"
#include "src/backend/cuda/host/host_link.h"
#include "src/backend/plan/shard.h"
#include "tests/backend/ranks.h"
#include "tests/backend/text_chunks.h"
#include "tests/backend_cuda/cuda_case.h"

namespace rserve::testing {
namespace {

// As for one rank, and one more rounding where partial sums meet.
constexpr double kTolerance = 0.04;

// How hidden states get from stage to stage.
enum class Way { kHost, kPeer, kNccl };

// Stages of several ranks; owns their devices.
struct Ranks {
  // The device of stage s's rank r is lost after lost_after[s * ranks + r] operations, where given.
  Ranks(const GoldenCase& golden, int ranks, const std::vector<int32_t>& cuts,
        const backend::KvGeometry& kv, Way way = Way::kHost, std::vector<int64_t> lost_after = {}) {
    const auto checkpoint = model::Checkpoint::Open(CaseFolder(golden.name));
    REQUIRE(checkpoint.ok());
    const int64_t hidden = golden.config.text.hidden_size;
    const size_t count = (cuts.size() + 1) * static_cast<size_t>(ranks);
    lost_after.resize(count, -1);
    for (size_t i = 0; i < count; ++i) {
      cuda::HostDeviceOptions options;
      options.seed = 17 + i;
      options.lost_after = lost_after[i];
      options.number = static_cast<int>(i);
      devices.push_back(std::make_unique<cuda::HostDevice>(options));
    }
    if (way != Way::kHost) {
      for (size_t i = 0; i + static_cast<size_t>(ranks) < count; ++i) {
        auto hand_over = cuda::MakeHostHandOver(
            way == Way::kNccl ? cuda::LinkKind::kNccl : cuda::LinkKind::kPeer, devices[i].get(),
            devices[i + static_cast<size_t>(ranks)].get(), {hidden, kStageLimits.max_tokens, 3});
        REQUIRE(hand_over.ok());
        hand_overs.push_back(*std::move(hand_over));
      }
    }
    stages = MakeRanks(
        golden.config.text.num_layers, cuts, ranks,
        way == Way::kHost ? kStageLimits.max_tokens * hidden : 0, 2,
        [&] { return cuda::MakeHostCollectives(ranks); },
        [&](size_t stage, backend::LayerRange layers, int32_t rank,
            std::unique_ptr<cuda::Collective> end) {
          const size_t place = stage * static_cast<size_t>(ranks) + static_cast<size_t>(rank);
          // Each rank loads what it holds, from the same mapped file.
          auto model = cuda::CudaModel::Load(golden.config, **checkpoint,
                                             {false, layers, rank, ranks}, devices[place].get());
          INFO(golden.name << ": " << model.status());
          REQUIRE(model.ok());
          cuda::StageLinks links;
          if (ranks > 1) links.collective = std::move(end);
          if (way != Way::kHost && stage > 0) {
            links.before = hand_overs[place - static_cast<size_t>(ranks)];
          }
          if (way != Way::kHost && stage < cuts.size()) links.after = hand_overs[place];
          auto made = cuda::MakeCudaStage(*model, layers, kv, kStageLimits, {}, std::move(links));
          INFO(made.status());
          REQUIRE(made.ok());
          return *std::move(made);
        });
  }
  std::vector<std::unique_ptr<cuda::HostDevice>> devices;  // before what uses them
  std::vector<std::shared_ptr<cuda::HandOver>> hand_overs;
  std::vector<std::unique_ptr<backend::StageBackend>> stages;
};

// The logits of all prompts, which are the same bits in chunks.
std::vector<std::vector<float>> AgreesWithReference(const std::string& name, int ranks,
                                                    const std::vector<int32_t>& cuts,
                                                    Way way = Way::kHost) {
  const GoldenCase golden = LoadCase(name);
  cuda::HostDevice device({});
  const auto encoder = EncoderOf(LoadOnDevice(golden, &device));  // E1
  const cpu::KvGeometry kv{40, 4};
  Ranks made(golden, ranks, cuts, kv, way);
  Pipeline pipeline(golden, kv, std::move(made.stages));
  std::vector<std::vector<float>> logits;
  for (const Prompt& prompt : golden.prompts) {
    const auto items = EncodeItems(*encoder, golden, prompt, true);
    logits.push_back(pipeline.Run(pipeline.Begin(prompt, items, 0, 2), prompt.tokens()));
    const double error = RelativeError(logits.back(), prompt.logits);
    INFO(name << " TP" << ranks << ": relative error " << error);
    CHECK(error <= kTolerance);
    CHECK(SameBits(pipeline.Run(pipeline.Begin(prompt, items, 0, 3), 7), logits.back()));
  }
  return logits;
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

TEST_CASE("CUDA: hidden states handed over on devices give the bits of those through the host") {
  for (const int ranks : {1, 2}) {
    const auto host = AgreesWithReference("gqa2_tied", ranks, {1}, Way::kHost);
    for (const Way way : {Way::kPeer, Way::kNccl}) {
      const auto device = AgreesWithReference("gqa2_tied", ranks, {1}, way);
      for (size_t i = 0; i < host.size(); ++i) CHECK(SameBits(device[i], host[i]));
    }
  }
}

TEST_CASE("CUDA: a hand-over keeps micro-batches apart, in parts of any size, and its places") {
  cuda::HostDevice from({1}), to({2});
  constexpr int64_t kWidth = 24, kRows = 6;
  for (const cuda::LinkKind kind : {cuda::LinkKind::kPeer, cuda::LinkKind::kNccl}) {
    auto made = cuda::MakeHostHandOver(kind, &from, &to, {kWidth, kRows, 2});
    REQUIRE(made.ok());
    cuda::HandOver& hand_over = **made;
    cuda::Timeline sender, receiver;
    REQUIRE(sender.Init(&from, false).ok());
    REQUIRE(receiver.Init(&to, false).ok());
    std::vector<cuda::Bf16> rows(2 * kRows * kWidth), got(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i].bits = static_cast<uint16_t>(i + 1);
    const cuda::Bf16* second = rows.data() + kRows * kWidth;
    CHECK(hand_over.Send(8, 0, 2, rows.data(), sender.stream()).ok());
    CHECK(hand_over.Send(9, 0, kRows, second, sender.stream()).ok());
    CHECK(hand_over.Send(8, 2, 4, rows.data() + 2 * kWidth, sender.stream()).ok());
    CHECK(hand_over.Send(10, 0, 1, second, sender.stream()).code() ==
          absl::StatusCode::kResourceExhausted);
    CHECK(hand_over.Send(8, 3, 4, second, sender.stream()).code() ==
          absl::StatusCode::kResourceExhausted);
    REQUIRE(sender.Finish().ok());
    CHECK(hand_over.Receive(9, 0, kRows, got.data() + kRows * kWidth, receiver.stream()).ok());
    CHECK(hand_over.Receive(8, 0, 5, got.data(), receiver.stream()).ok());
    CHECK(hand_over.Receive(8, 5, 1, got.data() + 5 * kWidth, receiver.stream()).ok());
    REQUIRE(receiver.Finish().ok());
    CHECK(std::equal(rows.begin(), rows.end(), got.begin(),
                     [](cuda::Bf16 a, cuda::Bf16 b) { return a.bits == b.bits; }));
    CHECK(hand_over.Receive(10, 0, 1, got.data(), receiver.stream()).code() ==
          absl::StatusCode::kInternal);
    hand_over.Forget(8);
    hand_over.Forget(8);
    hand_over.Forget(77);
    CHECK(hand_over.Receive(8, 0, 1, got.data(), receiver.stream()).code() ==
          absl::StatusCode::kInternal);
    CHECK(hand_over.Send(10, 0, 1, second, sender.stream()).ok());
    REQUIRE(sender.Finish().ok());
  }
  CHECK(from.live_allocations() == 0);
  CHECK(to.live_allocations() == 0);
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
    Ranks made(golden, 2, {}, {40, 4}, Way::kHost, {-1, loaded + after});
    TextChunks text(golden.config.text.vocab_size, 40, 6, 6);
    backend::StageWork& work = text.works[0];
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

TEST_CASE("CUDA: a stage whose device is lost ends with its error, the stage before it goes on") {
  const GoldenCase golden = LoadCase("mha_f16");
  const int64_t loaded = [&] {
    Ranks probe(golden, 2, {1}, {40, 4}, Way::kPeer);
    return probe.devices[3]->operations();
  }();
  for (const Way way : {Way::kPeer, Way::kNccl}) {
    for (int64_t after : {0, 3, 9}) {
      Ranks made(golden, 2, {1}, {40, 4}, way, {-1, -1, -1, loaded + after});
      TextChunks text(golden.config.text.vocab_size, 40, 6, 6);
      std::vector<float> unused(6 * static_cast<size_t>(golden.config.text.hidden_size));
      backend::StageWork first = text.works[0], last = text.works[0];
      first.hidden_out = unused.data();
      last.hidden_in = unused.data();
      for (uint64_t batch = 1; batch <= 5; ++batch) {
        first.micro_batch = last.micro_batch = batch;
        CHECK(made.stages[0]->Forward(first).ok());
        const absl::Status lost = made.stages[1]->Forward(last);
        INFO(lost);
        CHECK(lost == made.devices[3]->lost());
        CHECK(lost.code() == absl::StatusCode::kUnavailable);
        made.stages[1]->Forget(batch);  // its place serves the next
      }
      // Hidden states passed by on the devices.
      CHECK(std::all_of(unused.begin(), unused.end(), [](float x) { return x == 0.0f; }));
    }
  }
}

}  // namespace
}  // namespace rserve::testing
