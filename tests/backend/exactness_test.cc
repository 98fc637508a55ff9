// The exactness contract: an output has the same bits however the work is cut and scheduled.

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "src/backend/cpu/weights.h"
#include "src/model/weights/checkpoint.h"
#include "tests/backend/golden_case.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

// A prompt with its embeddings and the logits of the plainest run: whole, alone, one thread, one
// stage.
struct Baseline {
  const Prompt* prompt = nullptr;
  std::vector<std::vector<float>> items;
  std::vector<float> logits;
};

std::vector<Baseline> MakeBaselines(const GoldenCase& golden) {
  cpu::ThreadPool pool(1, {});
  const auto encoder = cpu::MakeCpuEncoder(golden.model, &pool);
  std::vector<Baseline> out;
  for (const Prompt& prompt : golden.prompts) {
    Baseline base;
    base.prompt = &prompt;
    base.items = EncodeItems(*encoder, golden, prompt, false);
    Pipeline pipeline(golden, {}, {16, 16}, 1);
    base.logits = pipeline.Run(pipeline.Begin(prompt, base.items, 0, 0), prompt.tokens());
    out.push_back(std::move(base));
  }
  return out;
}

// Every case as stored, and some with int8 weights, whose promise is the same.
std::vector<GoldenCase> AllCases() {
  std::vector<GoldenCase> out;
  for (const std::string& name : CaseNames()) out.push_back(LoadCase(name));
  for (const char* name : {"gqa7_bf16", "mha_f16"}) {
    out.push_back(LoadCase(name, nullptr, cpu::WeightFormat::kInt8));
    out.back().name += " int8";
  }
  return out;
}

TEST_CASE("embeddings have the same bits for every batch of units and thread count") {
  for (const GoldenCase& golden : AllCases()) {
    const std::string& name = golden.name;
    const std::vector<Baseline> baselines = MakeBaselines(golden);
    for (int threads = 1; threads <= 4; ++threads) {
      CAPTURE(name, threads);
      cpu::ThreadPool pool(threads, {});
      const auto encoder = cpu::MakeCpuEncoder(golden.model, &pool);
      PoisonEncoder(*encoder, golden);
      // All images of all prompts in one batch, in order and reversed.
      for (bool reversed : {false, true}) {
        std::vector<backend::EncodeUnit> units;
        std::vector<std::vector<float>> got;
        std::vector<const std::vector<float>*> want;
        for (const Baseline& base : baselines) {
          for (size_t i = 0; i < base.items.size(); ++i) {
            got.emplace_back(base.items[i].size(), std::numeric_limits<float>::quiet_NaN());
            want.push_back(&base.items[i]);
            units.push_back({base.prompt->grids[i], base.prompt->patches[i].data(), nullptr});
          }
        }
        for (size_t i = 0; i < units.size(); ++i) units[i].embeddings = got[i].data();
        if (reversed) std::reverse(units.begin(), units.end());
        REQUIRE(encoder->Encode(units).ok());
        for (size_t i = 0; i < got.size(); ++i) {
          CAPTURE(i, reversed);
          CHECK(SameBits(got[i], *want[i]));
        }
      }
    }
  }
}

TEST_CASE("logits have the same bits for every chunk size, stage cut and thread count") {
  for (const GoldenCase& golden : AllCases()) {
    const std::string& name = golden.name;
    const std::vector<Baseline> baselines = MakeBaselines(golden);
    const int32_t layers = golden.config.text.num_layers;
    std::vector<std::vector<int32_t>> cuts = {{}, {1}};
    if (layers > 2) cuts.insert(cuts.end(), {{2}, {1, 2}, {1, 3}});
    int threads = 0;
    for (const std::vector<int32_t>& cut : cuts) {
      threads = threads % 4 + 1;
      Pipeline pipeline(golden, cut, {20, 8}, threads);
      pipeline.Poison();
      for (const Baseline& base : baselines) {
        for (int64_t chunk :
             {int64_t{1}, int64_t{3}, int64_t{7}, int64_t{16}, base.prompt->tokens()}) {
          CAPTURE(name, cut, threads, chunk);
          CHECK(SameBits(pipeline.Run(pipeline.Begin(*base.prompt, base.items, 1, 0), chunk),
                         base.logits));
        }
      }
    }
    for (threads = 1; threads <= 4; ++threads) {
      Pipeline pipeline(golden, {}, {20, 8}, threads);
      CAPTURE(name, threads);
      CHECK(
          SameBits(pipeline.Run(pipeline.Begin(*baselines[0].prompt, baselines[0].items, 0, 0), 9),
                   baselines[0].logits));
    }
  }
}

TEST_CASE("logits have the same bits for every KV block table and block size") {
  for (const std::string name : {"gqa2_tied", "gqa7_bf16", "mha_f16", "patch14"}) {
    const GoldenCase golden = LoadCase(name);
    const std::vector<Baseline> baselines = MakeBaselines(golden);
    for (int32_t block_tokens : {1, 2, 5, 16, 37, 200}) {
      for (uint32_t seed : {1u, 2u}) {
        Pipeline pipeline(golden, {1}, {200 / block_tokens + 2, block_tokens}, 2);
        pipeline.Poison();
        for (const Baseline& base : baselines) {
          CAPTURE(name, block_tokens, seed);
          CHECK(SameBits(pipeline.Run(pipeline.Begin(*base.prompt, base.items, 1, seed), 6),
                         base.logits));
        }
      }
    }
  }
}

// Random micro-batches of all prompts, each prompt several times, until all are finished.
TEST_CASE("logits have the same bits for every neighbour in the micro-batch") {
  for (const GoldenCase& golden : AllCases()) {
    const std::string& name = golden.name;
    const std::vector<Baseline> baselines = MakeBaselines(golden);
    for (uint32_t seed = 1; seed <= 4; ++seed) {
      CAPTURE(name, seed);
      std::mt19937 random(seed);
      Pipeline pipeline(golden, {1}, {160, 4}, static_cast<int>(seed));
      pipeline.Poison();
      std::vector<Sequence> sequences;
      std::vector<const Baseline*> wanted;
      int32_t block = 0;
      for (int copy = 0; copy < 2; ++copy) {
        for (const Baseline& base : baselines) {
          sequences.push_back(pipeline.Begin(*base.prompt, base.items, block, seed));
          block += static_cast<int32_t>(sequences.back().blocks.size());
          wanted.push_back(&base);
        }
      }
      REQUIRE(block <= 160);
      for (bool open = true; open;) {
        std::vector<size_t> order(sequences.size());
        for (size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), random);
        std::vector<Sequence*> batch;
        std::vector<int64_t> counts;
        open = false;
        for (size_t i : order) {
          Sequence& s = sequences[i];
          const int64_t left = s.prompt->tokens() - s.done;
          const int64_t count = std::min<int64_t>(left, static_cast<int64_t>(random() % 20));
          batch.push_back(&s);
          counts.push_back(count);
          open |= count < left;
        }
        if (*std::max_element(counts.begin(), counts.end()) > 0) pipeline.Step(batch, counts);
      }
      for (size_t i = 0; i < sequences.size(); ++i) {
        CAPTURE(i);
        CHECK(SameBits(sequences[i].logits, wanted[i]->logits));
      }
    }
  }
}

TEST_CASE("two chunks of one request in one micro-batch give the bits of two micro-batches") {
  const GoldenCase golden = LoadCase("gqa7_bf16");
  const std::vector<Baseline> baselines = MakeBaselines(golden);
  const Prompt& prompt = *baselines[0].prompt;
  cpu::ThreadPool pool(2, {});
  const auto stage =
      cpu::MakeCpuStage(golden.model, {0, golden.config.text.num_layers}, {10, 8}, &pool);
  const std::vector<int32_t> blocks = {9, 2, 4, 0, 1, 3, 5, 6, 7, 8};
  REQUIRE(prompt.tokens() <= 80);
  std::vector<float> logits(baselines[0].logits.size());
  std::vector<std::vector<backend::EmbeddingSlice>> slices(2);
  std::vector<backend::StageEntry> entries(2);
  const int64_t cut = prompt.tokens() / 2;
  const int64_t hidden = golden.config.text.hidden_size;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t begin = i == 0 ? 0 : cut;
    const int64_t end = i == 0 ? cut : prompt.tokens();
    for (size_t item = 0; item < baselines[0].items.size(); ++item) {
      const int64_t first = prompt.item_begin[item];
      const int64_t rows = static_cast<int64_t>(baselines[0].items[item].size()) / hidden;
      const int64_t from = std::max(first, begin), to = std::min(first + rows, end);
      if (from >= to) continue;
      slices[i].push_back(
          {from, to - from, baselines[0].items[item].data() + (from - first) * hidden});
    }
    entries[i].begin = begin;
    entries[i].count = end - begin;
    entries[i].token_ids = prompt.token_ids.data() + begin;
    for (int axis = 0; axis < 3; ++axis) {
      entries[i].positions[axis] = prompt.positions[axis].data() + begin;
    }
    entries[i].embeddings = slices[i];
    entries[i].kv_blocks = blocks;
  }
  entries[1].want_logits = true;
  entries[1].logits = logits.data();
  backend::StageWork work;
  work.entries = entries;
  work.total_tokens = prompt.tokens();
  REQUIRE(stage->Forward(work).ok());
  CHECK(SameBits(logits, baselines[0].logits));
}

TEST_CASE("all instruction sets with fused multiply-add give the same bits") {
  for (const std::string& name : CaseNames()) {
    GoldenCase golden = LoadCase(name);
    const auto checkpoint = model::Checkpoint::Open(CaseFolder(name));
    REQUIRE(checkpoint.ok());
    for (const auto weights : {cpu::WeightFormat::kStored, cpu::WeightFormat::kInt8}) {
      std::vector<std::vector<float>> first;
      for (const kernels::Isa isa : kernels::kAllIsas) {
        const kernels::KernelTable* table = kernels::TableFor(isa);
        if (table == nullptr || isa == kernels::Isa::kGeneric) continue;
        cpu::LoadOptions options;
        options.weights = weights;
        const auto model = cpu::LoadForIsa(golden.config, **checkpoint, options, *table);
        REQUIRE(model.ok());
        golden.model = *model;
        std::vector<std::vector<float>> results;
        for (const Baseline& base : MakeBaselines(golden)) {
          results.push_back(base.logits);
          results.insert(results.end(), base.items.begin(), base.items.end());
        }
        if (first.empty()) first = results;
        CAPTURE(name, table->name, static_cast<int>(weights));
        for (size_t j = 0; j < results.size(); ++j) CHECK(SameBits(results[j], first[j]));
      }
    }
  }
}

// Random weights have no outliers, and these models few numbers to average errors over.
TEST_CASE("int8 weights stay near the reference's logits") {
  for (const std::string& name : CaseNames()) {
    const GoldenCase golden = LoadCase(name, nullptr, cpu::WeightFormat::kInt8);
    for (const Baseline& base : MakeBaselines(golden)) {
      CAPTURE(name);
      CHECK(RelativeError(base.logits, base.prompt->logits) <= 0.1);
      CHECK(RelativeError(base.logits, base.prompt->logits) > 0.0);
    }
  }
}

TEST_CASE("the generic kernels agree with the reference") {
  for (const std::string& name : CaseNames()) {
    GoldenCase golden = LoadCase(name);
    const auto checkpoint = model::Checkpoint::Open(CaseFolder(name));
    REQUIRE(checkpoint.ok());
    const auto model = cpu::LoadForIsa(golden.config, **checkpoint, cpu::LoadOptions(),
                                       *kernels::TableFor(kernels::Isa::kGeneric));
    REQUIRE(model.ok());
    golden.model = *model;
    for (const Baseline& base : MakeBaselines(golden)) {
      CAPTURE(name);
      CHECK(RelativeError(base.logits, base.prompt->logits) <= 1e-4);
    }
  }
}

}  // namespace
}  // namespace rserve::testing
