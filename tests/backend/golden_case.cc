#include "tests/backend/golden_case.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "src/backend/plan/row_store.h"
#include "src/model/weights/checkpoint.h"
#include "tests/support/catch.h"
#include "tests/support/numbers.h"

namespace rserve::testing {

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The formula of tools/golden/make_backend_goldens.py, from element `begin` on.
std::vector<float> Patches(uint64_t begin, int64_t count, uint64_t seed) {
  std::vector<float> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) {
    uint64_t mixed = ((begin + i + seed * 1000003) * 2654435761u) & 0xffffffffu;
    mixed ^= mixed >> 15;
    mixed = (mixed * 2246822519u) & 0xffffffffu;
    out[i] = static_cast<float>(mixed >> 8) / static_cast<float>(1 << 24) * 4.0f - 2.0f;
  }
  return out;
}

Prompt LoadPrompt(const model::Checkpoint& file, const model::ModelConfig& config, int index) {
  const std::string key = absl::StrCat("p", index, ".");
  Prompt prompt;
  for (float id : ReadNumbers(file, key + "token_ids")) {
    prompt.token_ids.push_back(static_cast<int32_t>(id));
  }
  const std::vector<float> positions = ReadNumbers(file, key + "positions");
  for (size_t i = 0; i < positions.size(); ++i) {
    prompt.positions[i / prompt.token_ids.size()].push_back(static_cast<int32_t>(positions[i]));
  }
  prompt.logits = ReadNumbers(file, key + "logits");
  if (!file.Has(key + "grids")) return prompt;
  prompt.embeddings = ReadNumbers(file, key + "embeddings");
  const std::vector<float> grids = ReadNumbers(file, key + "grids");
  int64_t token = 0;
  uint64_t element = 0;
  for (size_t i = 0; i < grids.size(); i += 3) {
    const model::Grid grid{static_cast<int32_t>(grids[i]), static_cast<int32_t>(grids[i + 1]),
                           static_cast<int32_t>(grids[i + 2])};
    prompt.grids.push_back(grid);
    const int64_t values = grid.patches() * config.vision.patch_dim();
    prompt.patches.push_back(Patches(element, values, static_cast<uint64_t>(index)));
    element += static_cast<uint64_t>(values);
    while (prompt.token_ids[static_cast<size_t>(token)] != config.image_token_id) ++token;
    prompt.item_begin.push_back(token);
    token += grid.patches() / config.vision.merge_unit();
  }
  return prompt;
}

}  // namespace

std::vector<std::string> CaseNames() {
  return {"gqa2_tied", "gqa7_bf16", "mha_f16", "old_names", "sharded", "adjacent", "patch14"};
}

std::string CaseFolder(const std::string& name) {
  return std::string(RSERVE_SOURCE_DIR) + "/tests/data/backend/" + name;
}

model::ModelConfig LoadConfig(const std::string& folder) {
  std::ifstream file(folder + "/config.json");
  std::stringstream text;
  text << file.rdbuf();
  const auto config = model::ParseModelConfig(text.str());
  INFO(folder << ": " << config.status());
  REQUIRE(config.ok());
  return *config;
}

GoldenCase LoadCase(const std::string& name, cpu::ThreadPool* pool, cpu::WeightFormat weights) {
  GoldenCase golden;
  golden.name = name;
  const std::string folder = CaseFolder(name);
  golden.config = LoadConfig(folder);
  const auto checkpoint = model::Checkpoint::Open(folder);
  INFO(name << ": " << checkpoint.status());
  REQUIRE(checkpoint.ok());
  cpu::LoadOptions options;
  options.pool = pool;
  options.weights = weights;
  auto model = cpu::CpuModel::Load(golden.config, **checkpoint, options);
  INFO(name << ": " << model.status());
  REQUIRE(model.ok());
  golden.model = *model;
  const auto file = model::Checkpoint::Open(folder + "/golden");
  INFO(name << ": " << file.status());
  REQUIRE(file.ok());
  for (int i = 0; (*file)->Has(absl::StrCat("p", i, ".token_ids")); ++i) {
    golden.prompts.push_back(LoadPrompt(**file, golden.config, i));
  }
  REQUIRE_FALSE(golden.prompts.empty());
  return golden;
}

std::vector<std::vector<float>> EncodeItems(backend::EncoderBackend& encoder,
                                            const GoldenCase& golden, const Prompt& prompt,
                                            bool together) {
  std::vector<std::vector<float>> out;
  std::vector<backend::EncodeUnit> units;
  for (const model::Grid& grid : prompt.grids) {
    const int64_t rows = grid.patches() / golden.config.vision.merge_unit();
    out.emplace_back(static_cast<size_t>(rows * golden.config.text.hidden_size), kNan);
  }
  for (size_t i = 0; i < prompt.grids.size(); ++i) {
    units.push_back({prompt.grids[i], prompt.patches[i].data(), out[i].data()});
    if (together) continue;
    REQUIRE(encoder.Encode(units).ok());
    units.clear();
  }
  REQUIRE(encoder.Encode(units).ok());
  return out;
}

void PoisonEncoder(backend::EncoderBackend& encoder, const GoldenCase& golden) {
  const model::Grid grid{2, 20, 20};
  const std::vector<float> patches(
      static_cast<size_t>(grid.patches() * golden.config.vision.patch_dim()), kNan);
  std::vector<float> out(static_cast<size_t>(grid.patches() * golden.config.text.hidden_size));
  REQUIRE(encoder.Encode({{grid, patches.data(), out.data()}}).ok());
  REQUIRE(std::isnan(out[0]));
}

Pipeline::Pipeline(const GoldenCase& golden, const std::vector<int32_t>& cuts, cpu::KvGeometry kv,
                   int threads)
    : golden_(golden), kv_(kv), pool_(threads, {}) {
  int32_t begin = 0;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    const int32_t end = i < cuts.size() ? cuts[i] : golden.config.text.num_layers;
    stages_.push_back(cpu::MakeCpuStage(golden.model, {begin, end}, kv, &pool_));
    begin = end;
  }
}

Pipeline::Pipeline(const GoldenCase& golden, cpu::KvGeometry kv,
                   std::vector<std::unique_ptr<backend::StageBackend>> stages)
    : golden_(golden), kv_(kv), pool_(1, {}), stages_(std::move(stages)) {}

void Pipeline::Poison() {
  Prompt prompt;
  const int64_t tokens = int64_t{kv_.num_blocks} * kv_.block_tokens;
  prompt.token_ids.assign(static_cast<size_t>(tokens), 0);
  for (auto& axis : prompt.positions) axis.assign(static_cast<size_t>(tokens), 1);
  prompt.item_begin = {0};
  Sequence sequence = Begin(
      prompt,
      {std::vector<float>(static_cast<size_t>(tokens * golden_.config.text.hidden_size), kNan)}, 0,
      0);
  Step({&sequence}, {tokens});
  REQUIRE(std::isnan(sequence.logits[0]));
}

Sequence Pipeline::Begin(const Prompt& prompt, std::vector<std::vector<float>> items,
                         int32_t first_block, uint32_t seed) const {
  Sequence sequence;
  sequence.prompt = &prompt;
  sequence.items = std::move(items);
  sequence.blocks.resize(
      static_cast<size_t>((prompt.tokens() + kv_.block_tokens - 1) / kv_.block_tokens));
  std::iota(sequence.blocks.begin(), sequence.blocks.end(), first_block);
  if (seed != 0) {
    std::mt19937 random(seed);
    std::shuffle(sequence.blocks.begin(), sequence.blocks.end(), random);
  }
  sequence.logits.assign(static_cast<size_t>(golden_.config.text.vocab_size), kNan);
  return sequence;
}

void Pipeline::Step(const std::vector<Sequence*>& sequences, const std::vector<int64_t>& counts) {
  const int64_t hidden = golden_.config.text.hidden_size;
  std::vector<std::vector<backend::EmbeddingSlice>> slices(sequences.size());
  std::vector<backend::StageEntry> entries;
  int64_t total = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    Sequence& s = *sequences[i];
    if (counts[i] == 0) continue;
    backend::StageEntry entry;
    entry.begin = s.done;
    entry.count = counts[i];
    entry.token_ids = s.prompt->token_ids.data() + s.done;
    for (int axis = 0; axis < 3; ++axis) {
      entry.positions[axis] = s.prompt->positions[axis].data() + s.done;
    }
    for (size_t item = 0; item < s.items.size(); ++item) {
      const int64_t first = s.prompt->item_begin[item];
      const int64_t rows = static_cast<int64_t>(s.items[item].size()) / hidden;
      const int64_t begin = std::max(first, s.done);
      const int64_t end = std::min(first + rows, s.done + counts[i]);
      if (begin >= end) continue;
      slices[i].push_back({begin, end - begin, s.items[item].data() + (begin - first) * hidden});
    }
    for (size_t item = 0; item < s.stored.size(); ++item) {
      const int64_t first = s.prompt->item_begin[item];
      const int64_t begin = std::max(first, s.done);
      const int64_t end = std::min(first + s.stored[item]->rows(), s.done + counts[i]);
      if (begin >= end) continue;
      slices[i].push_back({begin, end - begin, nullptr, s.stored[item], begin - first});
    }
    entry.embeddings = slices[i];
    entry.kv_blocks = s.blocks;
    s.done += counts[i];
    total += counts[i];
    entry.want_logits = s.finished();
    entry.logits = entry.want_logits ? s.logits.data() : nullptr;
    entries.push_back(entry);
  }
  ++micro_batches_;
  std::vector<float> in, out;
  for (size_t stage = 0; stage < stages_.size(); ++stage) {
    const bool last = stage + 1 == stages_.size();
    if (!last) out.assign(static_cast<size_t>(total * hidden), kNan);
    backend::StageWork work;
    work.entries = entries;
    work.total_tokens = total;
    work.hidden_in = stage == 0 ? nullptr : in.data();
    work.hidden_out = last ? nullptr : out.data();
    work.micro_batch = micro_batches_;
    const absl::Status status = stages_[stage]->Forward(work);
    INFO(status);
    REQUIRE(status.ok());
    stages_[stage]->Forget(micro_batches_);
    std::swap(in, out);
  }
}

std::vector<float> Pipeline::Run(Sequence sequence, int64_t chunk) {
  while (!sequence.finished()) {
    Step({&sequence}, {std::min(chunk, sequence.prompt->tokens() - sequence.done)});
  }
  return std::move(sequence.logits);
}

}  // namespace rserve::testing
