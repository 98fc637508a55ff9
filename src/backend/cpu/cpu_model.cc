#include "src/backend/cpu/cpu_model.h"

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/attention/attention.h"
#include "src/backend/cpu/weight_loader.h"
#include "src/backend/cpu/weights.h"

namespace rserve::cpu {

namespace {

using Precision = WeightLoader::Precision;

// What the kernels can do; the configuration itself was checked when it was parsed.
absl::Status CheckLimits(const model::ModelConfig& config, const kernels::KernelTable& isa) {
  const model::VisionConfig& vision = config.vision;
  const model::TextConfig& text = config.text;
  if (vision.head_dim() > kernels::kMaxHeadDim || vision.head_dim() % 4 != 0 ||
      vision.head_dim() <= 0) {
    return absl::UnimplementedError(absl::StrCat("vision head_dim ", vision.head_dim(),
                                                 " is not a multiple of 4 in 4 .. ",
                                                 kernels::kMaxHeadDim));
  }
  if (text.head_dim > kernels::kMaxHeadDim || text.head_dim % 2 != 0 || text.head_dim <= 0) {
    return absl::UnimplementedError(absl::StrCat(
        "head_dim ", text.head_dim, " is not an even number in 2 .. ", kernels::kMaxHeadDim));
  }
  if (text.num_kv_heads <= 0 || text.num_heads % text.num_kv_heads != 0 ||
      text.num_heads / text.num_kv_heads > isa.attention_block_rows) {
    return absl::UnimplementedError(absl::StrCat(
        "num_attention_heads ", text.num_heads, " over num_key_value_heads ", text.num_kv_heads,
        " must be a whole number of at most ", isa.attention_block_rows));
  }
  if (vision.window_size / vision.factor() < 1) {
    return absl::InvalidArgumentError(absl::StrCat("vision window_size ", vision.window_size,
                                                   " is below one merged patch of ",
                                                   vision.factor(), " pixels"));
  }
  if (vision.hidden_act != "silu") {
    return absl::UnimplementedError(
        absl::StrCat("vision hidden_act ", vision.hidden_act, " is not silu"));
  }
  return absl::OkStatus();
}

absl::Status CheckInt8(const model::ModelConfig& config) {
  const std::pair<const char*, int64_t> widths[] = {
      {"hidden_size", config.text.hidden_size},
      {"intermediate_size", config.text.intermediate_size},
      {"heads * head_dim", int64_t{config.text.num_heads} * config.text.head_dim},
      {"vision hidden_size", config.vision.hidden_size},
      {"vision intermediate_size", config.vision.intermediate_size}};
  for (const auto& [name, width] : widths) {
    if (width > kernels::kMaxInt8K) {
      return absl::UnimplementedError(absl::StrCat(
          name, " ", width, " is above ", kernels::kMaxInt8K, ", the most that int8 weights take"));
    }
  }
  return absl::OkStatus();
}

void LoadVision(const model::VisionConfig& config, const std::string& prefix, WeightLoader* loader,
                VisionWeights* out) {
  const int64_t hidden = config.hidden_size;
  const int64_t inter = config.intermediate_size;
  loader->Matrix(
      {{absl::StrCat(prefix, "patch_embed.proj"), hidden}}, config.patch_dim(), false,
      &out->patch_embed, Precision::kStored,
      {config.in_channels, config.temporal_patch_size, config.patch_size, config.patch_size});
  for (int32_t i = 0; i < config.depth && loader->status().ok(); ++i) {
    const std::string block = absl::StrCat(prefix, "blocks.", i, ".");
    VisionBlock& w = out->blocks.emplace_back();
    loader->Vector(absl::StrCat(block, "norm1.weight"), hidden, &w.norm1);
    loader->Matrix({{absl::StrCat(block, "attn.qkv"), 3 * hidden}}, hidden, true, &w.qkv,
                   Precision::kAsAsked);
    loader->Matrix({{absl::StrCat(block, "attn.proj"), hidden}}, hidden, true, &w.proj,
                   Precision::kAsAsked);
    loader->Vector(absl::StrCat(block, "norm2.weight"), hidden, &w.norm2);
    loader->Pair(absl::StrCat(block, "mlp.gate_proj"), absl::StrCat(block, "mlp.up_proj"), inter,
                 {0, inter}, hidden, true, &w.gate_up);
    loader->Matrix({{absl::StrCat(block, "mlp.down_proj"), hidden}}, inter, true, &w.down,
                   Precision::kAsAsked);
  }
  const int64_t merged = hidden * config.merge_unit();
  loader->Vector(absl::StrCat(prefix, "merger.ln_q.weight"), hidden, &out->merger_norm);
  loader->Matrix({{absl::StrCat(prefix, "merger.mlp.0"), merged}}, merged, true, &out->merger_fc1,
                 Precision::kStored);
  loader->Matrix({{absl::StrCat(prefix, "merger.mlp.2"), config.out_hidden_size}}, merged, true,
                 &out->merger_fc2, Precision::kStored);
}

// Heads of a share as rows or columns.
backend::Share OfHeads(const backend::Share& heads, int64_t dim) {
  return {heads.begin * dim, heads.count * dim};
}

void LoadEnds(const LoadOptions& options, const std::string& prefix, WeightLoader* loader,
              LoadedModel* model) {
  const model::TextConfig& config = model->config().text;
  TextWeights& out = model->text;
  const std::string embedding = absl::StrCat(prefix, "embed_tokens");
  const bool tied = config.tie_word_embeddings;
  if (options.shared != nullptr) {
    out.embedding = std::static_pointer_cast<const LoadedModel>(options.shared)->text.embedding;
  } else if (!tied || options.ranks > 1) {
    auto table = std::make_shared<TokenTable>();
    loader->Raw(absl::StrCat(embedding, ".weight"), config.vocab_size, config.hidden_size,
                &table->bytes, &table->type);
    out.embedding = std::move(table);
  }
  loader->Matrix({{tied ? embedding : "lm_head", config.vocab_size, model->shard().vocab}},
                 config.hidden_size, false, &out.head, Precision::kStored);
}

void LoadText(const LoadOptions& options, const std::string& prefix, WeightLoader* loader,
              LoadedModel* model) {
  const model::TextConfig& config = model->config().text;
  TextWeights* out = &model->text;
  const int64_t hidden = config.hidden_size;
  const int64_t q_rows = int64_t{config.num_heads} * config.head_dim;
  const int64_t kv_rows = int64_t{config.num_kv_heads} * config.head_dim;
  const backend::TextShard& shard = model->shard();
  const backend::Share q = OfHeads(shard.heads, config.head_dim);
  const backend::Share kv = OfHeads(shard.kv_heads, config.head_dim);
  LoadEnds(options, prefix, loader, model);
  for (int32_t i = 0; i < config.num_layers && loader->status().ok(); ++i) {
    const std::string layer = absl::StrCat(prefix, "layers.", i, ".");
    TextLayer& w = out->layers.emplace_back();
    loader->Vector(absl::StrCat(layer, "input_layernorm.weight"), hidden, &w.input_norm);
    loader->Matrix({{absl::StrCat(layer, "self_attn.q_proj"), q_rows, q},
                    {absl::StrCat(layer, "self_attn.k_proj"), kv_rows, kv},
                    {absl::StrCat(layer, "self_attn.v_proj"), kv_rows, kv}},
                   hidden, true, &w.qkv, Precision::kAsAsked);
    loader->Matrix({{absl::StrCat(layer, "self_attn.o_proj"), hidden}}, q_rows, false, &w.o,
                   Precision::kAsAsked, {}, q);
    loader->Vector(absl::StrCat(layer, "post_attention_layernorm.weight"), hidden, &w.post_norm);
    loader->Pair(absl::StrCat(layer, "mlp.gate_proj"), absl::StrCat(layer, "mlp.up_proj"),
                 config.intermediate_size, shard.inter, hidden, false, &w.gate_up);
    loader->Matrix({{absl::StrCat(layer, "mlp.down_proj"), hidden}}, config.intermediate_size,
                   false, &w.down, Precision::kAsAsked, {}, shard.inter);
  }
  loader->Vector(absl::StrCat(prefix, "norm.weight"), hidden, &out->norm);
}

}  // namespace

void LoadedModel::EmbedToken(int32_t token, float* out) const {
  const int64_t hidden = config_.text.hidden_size;
  if (text.embedding == nullptr) {
    kernels::UnpackRow(isa_, text.head.weight, token, out);
    return;
  }
  const TokenTable& table = *text.embedding;
  const uint8_t* row = table.bytes.data() + token * hidden * kernels::WeightTypeSize(table.type);
  if (table.type == kernels::WeightType::kF32) {
    std::memcpy(out, row, static_cast<size_t>(hidden) * sizeof(float));
  } else {
    isa_.widen(table.type, reinterpret_cast<const uint16_t*>(row), hidden, out);
  }
}

absl::StatusOr<std::shared_ptr<const CpuModel>> CpuModel::Load(const model::ModelConfig& config,
                                                               const model::Checkpoint& checkpoint,
                                                               const LoadOptions& options) {
  return LoadForIsa(config, checkpoint, options, kernels::BestIsa());
}

absl::StatusOr<std::shared_ptr<const CpuModel>> LoadForIsa(const model::ModelConfig& config,
                                                           const model::Checkpoint& checkpoint,
                                                           const LoadOptions& options,
                                                           const kernels::KernelTable& isa) {
  if (absl::Status status = CheckLimits(config, isa); !status.ok()) return status;
  if (options.weights == WeightFormat::kInt8) {
    if (absl::Status status = CheckInt8(config); !status.ok()) return status;
  }
  if (absl::Status s = backend::CheckShard(config.text, options.rank, options.ranks); !s.ok()) {
    return s;
  }
  // The published files' names first, then those of the reference's modules.
  absl::StatusOr<std::string> vision =
      FindPrefix(checkpoint, {"visual.", "model.visual."}, "patch_embed.proj.weight");
  if (!vision.ok()) return vision.status();
  absl::StatusOr<std::string> text =
      FindPrefix(checkpoint, {"model.", "model.language_model."}, "embed_tokens.weight");
  if (!text.ok()) return text.status();

  auto loaded = std::make_shared<LoadedModel>(config, options, isa);
  WeightLoader loader(checkpoint, isa, options);
  if (options.rank == 0) LoadVision(config.vision, *vision, &loader, &loaded->vision);
  LoadText(options, *text, &loader, loaded.get());
  if (!loader.status().ok()) return loader.status();
  loaded->weight_bytes_ = loader.packed_bytes();
  return std::shared_ptr<const CpuModel>(std::move(loaded));
}

}  // namespace rserve::cpu
