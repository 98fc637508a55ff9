// Work and checkpoints that a backend must refuse, with a message that says why.

#include <string>
#include <vector>

#include "src/backend/plan/row_store.h"
#include "src/model/weights/checkpoint.h"
#include "tests/backend/golden_case.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

using backend::EmbeddingSlice;
using backend::StageEntry;
using backend::StageWork;

void CheckRefused(const absl::Status& status, const std::string& word) {
  INFO(status);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(status.message()).find(word) != std::string::npos);
}

// A valid micro-batch of one entry of 6 tokens from 2 on, for the tests to spoil.
struct Fixture {
  Fixture()
      : golden(LoadCase("adjacent")),
        pool(1, {}),
        stage(cpu::MakeCpuStage(golden.model, {0, 2}, {4, 4}, &pool)),
        logits(static_cast<size_t>(golden.config.text.vocab_size)),
        row(static_cast<size_t>(golden.config.text.hidden_size)) {
    entry.begin = 2;
    entry.count = 6;
    entry.token_ids = ids.data();
    for (auto& axis : entry.positions) axis = positions.data();
    entry.kv_blocks = blocks;
    entry.want_logits = true;
    entry.logits = logits.data();
  }

  absl::Status Forward(int64_t total = 6) {
    StageWork work;
    work.entries = absl::MakeConstSpan(&entry, 1);
    work.total_tokens = total;
    return stage->Forward(work);
  }

  GoldenCase golden;
  cpu::ThreadPool pool;
  std::unique_ptr<backend::StageBackend> stage;
  std::vector<int32_t> ids = {1, 2, 3, 4, 5, 6};
  std::vector<int32_t> positions = {2, 3, 4, 5, 6, 7};
  std::vector<int32_t> blocks = {3, 0};
  std::vector<float> logits;
  std::vector<float> row;
  StageEntry entry;
};

TEST_CASE("a stage refuses work that does not fit its model or its cache") {
  Fixture f;
  REQUIRE(f.Forward().ok());
  SECTION("begin") {
    f.entry.begin = -1;
    CheckRefused(f.Forward(), "begin -1");
  }
  SECTION("count of nothing") {
    f.entry.count = 0;
    CheckRefused(f.Forward(0), "count 0");
  }
  SECTION("count that overflows") {
    f.entry.count = INT64_MAX - 1;
    CheckRefused(f.Forward(), "count");
  }
  SECTION("total") { CheckRefused(f.Forward(7), "total_tokens is 7"); }
  SECTION("short block table") {
    f.blocks = {3};
    f.entry.kv_blocks = f.blocks;
    CheckRefused(f.Forward(), "kv_blocks has 1");
  }
  SECTION("block that is not there") {
    f.blocks[1] = 4;
    CheckRefused(f.Forward(), "kv_blocks[1] is 4");
    f.blocks[1] = -1;
    CheckRefused(f.Forward(), "kv_blocks[1] is -1");
  }
  SECTION("token out of the vocabulary") {
    f.ids[3] = 64;
    CheckRefused(f.Forward(), "token_ids[3] is 64");
    f.ids[3] = -5;
    CheckRefused(f.Forward(), "token_ids[3] is -5");
  }
  SECTION("negative position") {
    f.positions[0] = -1;
    CheckRefused(f.Forward(), "position -1");
  }
  SECTION("null arrays") {
    f.entry.token_ids = nullptr;
    CheckRefused(f.Forward(), "token_ids is null");
    f.entry.token_ids = f.ids.data();
    f.entry.logits = nullptr;
    CheckRefused(f.Forward(), "logits and likeliest are null");
    backend::Likeliest likeliest;  // the CPU's stage chooses nothing
    f.entry.likeliest = &likeliest;
    CheckRefused(f.Forward(), "likeliest is set");
    f.entry.likeliest = nullptr;
    f.entry.logits = f.logits.data();
    f.entry.positions[2] = nullptr;
    CheckRefused(f.Forward(), "positions");
  }
  SECTION("embeddings outside of the chunk") {
    EmbeddingSlice slice{1, 1, f.row.data()};
    f.entry.embeddings = absl::MakeConstSpan(&slice, 1);
    CheckRefused(f.Forward(), "embeddings[0]");
    slice = {7, 2, f.row.data()};
    CheckRefused(f.Forward(), "embeddings[0]");
    slice = {INT64_MAX, 1, f.row.data()};
    CheckRefused(f.Forward(), "embeddings[0]");
    slice = {3, 1, nullptr};
    CheckRefused(f.Forward(), "data is null");
    backend::RowStore rows(4);
    const backend::StoredRows stored = rows.Take(2);
    slice = {3, 1, nullptr, &stored, 0};
    CheckRefused(f.Forward(), "the stage has no store");
    slice = {3, 1, f.row.data()};
    CHECK(f.Forward().ok());
  }
}

TEST_CASE("later and earlier stages need their activations") {
  Fixture f;
  StageWork work;
  work.entries = absl::MakeConstSpan(&f.entry, 1);
  work.total_tokens = 6;
  const auto first = cpu::MakeCpuStage(f.golden.model, {0, 1}, {4, 4}, &f.pool);
  CheckRefused(first->Forward(work), "hidden_out");
  const auto last = cpu::MakeCpuStage(f.golden.model, {1, 2}, {4, 4}, &f.pool);
  CheckRefused(last->Forward(work), "hidden_in");
}

TEST_CASE("a stage of impossible layers or cache says so on every call") {
  const GoldenCase golden = LoadCase("adjacent");
  cpu::ThreadPool pool(1, {});
  const StageWork nothing;
  CheckRefused(cpu::MakeCpuStage(golden.model, {0, 3}, {4, 4}, &pool)->Forward(nothing),
               "layers 0 .. 3");
  CheckRefused(cpu::MakeCpuStage(golden.model, {2, 1}, {4, 4}, &pool)->Forward(nothing), "layers");
  CheckRefused(cpu::MakeCpuStage(golden.model, {1, 1}, {4, 4}, &pool)->Forward(nothing), "layers");
  CheckRefused(cpu::MakeCpuStage(golden.model, {0, 2}, {0, 4}, &pool)->Forward(nothing),
               "num_blocks 0");
  CheckRefused(cpu::MakeCpuStage(golden.model, {0, 2}, {4, -1}, &pool)->Forward(nothing),
               "block_tokens -1");
  const absl::Status huge =
      cpu::MakeCpuStage(golden.model, {0, 2}, {INT32_MAX, INT32_MAX}, &pool)->Forward(nothing);
  CHECK(huge.code() == absl::StatusCode::kResourceExhausted);
  CHECK(cpu::MakeCpuStage(golden.model, {0, 2}, {4, 4}, &pool)->Forward(nothing).ok());
}

TEST_CASE("the encoder refuses grids that cannot be") {
  const GoldenCase golden = LoadCase("adjacent");
  const auto encoder = cpu::MakeCpuEncoder(golden.model, nullptr);
  float value = 0.0f;
  CheckRefused(encoder->Encode({{{1, 0, 4}, &value, &value}}), "empty");
  CheckRefused(encoder->Encode({{{-1, 4, 4}, &value, &value}}), "empty");
  CheckRefused(encoder->Encode({{{1, 3, 4}, &value, &value}}), "spatial_merge_size");
  CheckRefused(encoder->Encode({{{1 << 30, 1 << 30, 1 << 30}, &value, &value}}), "patches");
  CheckRefused(encoder->Encode({{{1, 2, 2}, nullptr, &value}}), "null");
  CHECK(encoder->Encode({}).ok());
}

TEST_CASE("loading names the tensor that is missing, misshapen or out of place") {
  const std::string folder = CaseFolder("gqa2_tied");
  const auto checkpoint = model::Checkpoint::Open(folder);
  REQUIRE(checkpoint.ok());
  const auto load = [&](auto change) {
    model::ModelConfig config = LoadConfig(folder);
    change(config);
    return cpu::CpuModel::Load(config, **checkpoint, {}).status();
  };
  const auto says = [](const absl::Status& status, const std::string& word) {
    INFO(status);
    CHECK_FALSE(status.ok());
    CHECK(std::string(status.message()).find(word) != std::string::npos);
  };
  says(load([](auto& c) { c.text.num_layers = 3; }), "layers.2.input_layernorm.weight");
  says(load([](auto& c) { c.vision.depth = 3; }), "blocks.2.norm1.weight");
  says(load([](auto& c) { c.text.intermediate_size = 51; }), "mlp.gate_proj.weight");
  says(load([](auto& c) { c.text.vocab_size = 65; }), "embed_tokens.weight");
  says(load([](auto& c) { c.text.tie_word_embeddings = false; }), "lm_head.weight");
  says(load([](auto& c) { c.vision.num_heads = 4; }), "vision head_dim 6");
  says(load([](auto& c) { c.vision.window_size = 7; }), "window_size 7");
  says(load([](auto& c) { c.text.num_kv_heads = 3; }), "num_key_value_heads 3");
}

TEST_CASE("loading reports its progress up to the end and counts what it holds") {
  const std::string folder = CaseFolder("sharded");
  const auto checkpoint = model::Checkpoint::Open(folder);
  REQUIRE(checkpoint.ok());
  int64_t last = 0, total = 0;
  bool rising = true;
  cpu::LoadOptions options;
  options.progress = [&](int64_t done, int64_t all) {
    rising &= done > last;
    last = done;
    total = all;
  };
  const auto model = cpu::CpuModel::Load(LoadConfig(folder), **checkpoint, options);
  REQUIRE(model.ok());
  CHECK(rising);
  CHECK(last == total);
  CHECK((*model)->weight_bytes() >= total);
}

}  // namespace
}  // namespace rserve::testing
