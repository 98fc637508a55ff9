#include "src/backend/cuda/cuda_model.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/attention/attention_cuda.h"
#include "src/backend/cuda/image_builder.h"
#include "src/backend/cuda/loaded_model.h"

namespace rserve::cuda {

namespace {

// RMSNorm's widest row.
constexpr int64_t kMaxWidth = 8192;

absl::Status CheckHead(const char* name, int64_t dim, int64_t hidden) {
  if (dim < 2 || dim % 2 != 0 || Padded(dim) > kernels::cuda::kAttentionMaxHeadDim) {
    return absl::UnimplementedError(absl::StrCat(name, " head_dim ", dim,
                                                 " is not an even number in 2 .. ",
                                                 kernels::cuda::kAttentionMaxHeadDim));
  }
  if (hidden > kMaxWidth) {
    return absl::UnimplementedError(
        absl::StrCat(name, " hidden_size ", hidden, " is above ", kMaxWidth));
  }
  return absl::OkStatus();
}

// What the kernels can do; the configuration itself was checked when it was parsed.
absl::Status CheckLimits(const model::ModelConfig& config, const LoadOptions& options) {
  const model::VisionConfig& vision = config.vision;
  const model::TextConfig& text = config.text;
  if (options.vision) {
    if (absl::Status s = CheckHead("vision", vision.head_dim(), vision.hidden_size); !s.ok())
      return s;
    if (vision.window_size / vision.factor() < 1) {
      return absl::InvalidArgumentError(absl::StrCat("vision window_size ", vision.window_size,
                                                     " is below one merged patch of ",
                                                     vision.factor(), " pixels"));
    }
    if (vision.hidden_act != "silu") {
      return absl::UnimplementedError(
          absl::StrCat("vision hidden_act ", vision.hidden_act, " is not silu"));
    }
  }
  const LayerRange& layers = options.layers;
  if (layers.begin < 0 || layers.end < layers.begin || layers.end > text.num_layers) {
    return absl::InvalidArgumentError(absl::StrCat("layers ", layers.begin, " .. ", layers.end,
                                                   " are not a part of 0 .. ", text.num_layers));
  }
  if (layers.begin == layers.end) {
    if (options.rank == 0 && options.ranks == 1) return absl::OkStatus();
    return absl::InvalidArgumentError("tensor-parallel ranks hold layers; there are none");
  }
  if (text.num_kv_heads <= 0 || text.num_heads % text.num_kv_heads != 0) {
    return absl::UnimplementedError(absl::StrCat("num_attention_heads ", text.num_heads,
                                                 " over num_key_value_heads ", text.num_kv_heads,
                                                 " is not a whole number"));
  }
  if (absl::Status s = backend::CheckShard(text, options.rank, options.ranks); !s.ok()) return s;
  return CheckHead("text", text.head_dim, text.hidden_size);
}

absl::StatusOr<std::string> FindPrefix(const model::Checkpoint& checkpoint,
                                       const std::vector<std::string>& prefixes,
                                       const std::string& name) {
  for (const std::string& prefix : prefixes) {
    if (checkpoint.Has(prefix + name)) return prefix;
  }
  return absl::NotFoundError(absl::StrCat("the checkpoint has no tensor ", name,
                                          " under any of the prefixes ",
                                          absl::StrJoin(prefixes, ", ")));
}

std::vector<Run> Whole(int64_t count) { return {{0, 0, count}}; }

// A share of gate's rows, padded, then as many of up's.
std::vector<RowSource> GateUp(const std::string& mlp, int64_t inter, const Share& share) {
  return {{absl::StrCat(mlp, "gate_proj"), inter, {{share.begin, 0, share.count}}},
          {absl::StrCat(mlp, "up_proj"), inter, {{share.begin, Padded(share.count), share.count}}}};
}

class Loader {
 public:
  Loader(const model::Checkpoint& checkpoint, Timeline* timeline, LoadedModel* model)
      : checkpoint_(checkpoint), timeline_(timeline), model_(model) {}

  absl::Status Vision(const std::string& prefix) {
    const model::VisionConfig& config = model_->config().vision;
    VisionWeights& out = model_->vision;
    const int64_t hidden = config.hidden_size, padded = Padded(hidden);
    const int64_t heads = config.num_heads, dim = config.head_dim();
    out.blocks.resize(static_cast<size_t>(config.depth));
    for (int32_t i = 0; i < config.depth; ++i) {
      Block& block = out.blocks[static_cast<size_t>(i)];
      const std::string name = absl::StrCat(prefix, "blocks.", i, ".");
      ImageBuilder image(checkpoint_);
      image.Vector(absl::StrCat(name, "norm1.weight"), hidden, &block.norm1);
      image.Matrix({{absl::StrCat(name, "attn.qkv"), 3 * hidden, HeadRuns(0, 0, 3 * heads, dim)}},
                   3 * heads * Padded(dim), hidden, Whole(hidden), padded, true, &block.qkv);
      image.Matrix({{absl::StrCat(name, "attn.proj"), hidden, Whole(hidden)}}, padded, hidden,
                   HeadRuns(0, 0, heads, dim), heads * Padded(dim), true, &block.proj);
      image.Vector(absl::StrCat(name, "norm2.weight"), hidden, &block.norm2);
      const int64_t inter = config.intermediate_size;
      Mlp(image, absl::StrCat(name, "mlp."), hidden, inter, {0, inter}, true, &block);
      if (absl::Status s = Send(image, &block.memory); !s.ok()) return s;
    }
    ImageBuilder image(checkpoint_);
    image.Matrix(
        {{absl::StrCat(prefix, "patch_embed.proj"), hidden, Whole(hidden)}}, padded,
        config.patch_dim(), Whole(config.patch_dim()), Padded(config.patch_dim()), false,
        &out.patch_embed,
        {config.in_channels, config.temporal_patch_size, config.patch_size, config.patch_size});
    image.Vector(absl::StrCat(prefix, "merger.ln_q.weight"), hidden, &out.merger_norm);
    // The rows of a cell's patches lie one after another, each with its padding.
    const int64_t merged = hidden * config.merge_unit();
    std::vector<Run> columns;
    for (int64_t u = 0; u < config.merge_unit(); ++u) {
      columns.push_back({u * hidden, u * padded, hidden});
    }
    image.Matrix({{absl::StrCat(prefix, "merger.mlp.0"), merged, Whole(merged)}}, Padded(merged),
                 merged, columns, config.merge_unit() * padded, true, &out.merger_fc1);
    const int64_t width = config.out_hidden_size;
    image.Matrix({{absl::StrCat(prefix, "merger.mlp.2"), width, Whole(width)}}, Padded(width),
                 merged, Whole(merged), Padded(merged), true, &out.merger_fc2);
    return Send(image, &out.memory);
  }

  absl::Status Text(const std::string& prefix) {
    const model::TextConfig& config = model_->config().text;
    const LayerRange layers = model_->loaded().layers;
    TextWeights& out = model_->text;
    const int64_t hidden = config.hidden_size, padded = Padded(hidden);
    const int64_t all_heads = config.num_heads, all_kv = config.num_kv_heads;
    const int64_t dim = config.head_dim;
    const Share heads = model_->shard().heads, kv = model_->shard().kv_heads;
    out.layers.resize(static_cast<size_t>(layers.end - layers.begin));
    for (int32_t i = layers.begin; i < layers.end; ++i) {
      Block& block = out.layers[static_cast<size_t>(i - layers.begin)];
      const std::string name = absl::StrCat(prefix, "layers.", i, ".");
      ImageBuilder image(checkpoint_);
      image.Vector(absl::StrCat(name, "input_layernorm.weight"), hidden, &block.norm1);
      image.Matrix({{absl::StrCat(name, "self_attn.q_proj"), all_heads * dim,
                     HeadRuns(heads.begin, 0, heads.count, dim)},
                    {absl::StrCat(name, "self_attn.k_proj"), all_kv * dim,
                     HeadRuns(kv.begin, heads.count, kv.count, dim)},
                    {absl::StrCat(name, "self_attn.v_proj"), all_kv * dim,
                     HeadRuns(kv.begin, heads.count + kv.count, kv.count, dim)}},
                   (heads.count + 2 * kv.count) * Padded(dim), hidden, Whole(hidden), padded, true,
                   &block.qkv);
      image.Matrix({{absl::StrCat(name, "self_attn.o_proj"), hidden, Whole(hidden)}}, padded,
                   all_heads * dim, HeadRuns(heads.begin, 0, heads.count, dim),
                   heads.count * Padded(dim), false, &block.proj);
      image.Vector(absl::StrCat(name, "post_attention_layernorm.weight"), hidden, &block.norm2);
      Mlp(image, absl::StrCat(name, "mlp."), hidden, config.intermediate_size,
          model_->shard().inter, false, &block);
      if (absl::Status s = Send(image, &block.memory); !s.ok()) return s;
    }
    return Ends(prefix, layers.begin == 0, layers.end == config.num_layers);
  }

 private:
  void Mlp(ImageBuilder& image, const std::string& mlp, int64_t hidden, int64_t inter,
           const Share& share, bool bias, Block* block) {
    const int64_t padded = Padded(share.count);
    image.Matrix(GateUp(mlp, inter, share), 2 * padded, hidden, Whole(hidden), Padded(hidden), bias,
                 &block->gate_up);
    image.Matrix({{absl::StrCat(mlp, "down_proj"), hidden, Whole(hidden)}}, Padded(hidden), inter,
                 {{share.begin, 0, share.count}}, padded, bias, &block->down);
  }

  // The token table for the first stage, norm and head for the last; one matrix when they are tied
  // and both on this stage.
  absl::Status Ends(const std::string& prefix, bool first, bool last) {
    const model::TextConfig& config = model_->config().text;
    TextWeights& out = model_->text;
    const int64_t hidden = config.hidden_size, vocab = config.vocab_size;
    const bool tied = config.tie_word_embeddings;
    const std::string table = absl::StrCat(prefix, "embed_tokens");
    ImageBuilder image(checkpoint_);
    Matrix embedding;
    const Share& share = model_->shard().vocab;
    const auto load = [&](const std::string& name, const Share& rows, Matrix* to) {
      image.Matrix({{name, vocab, {{rows.begin, 0, rows.count}}}}, Padded(rows.count), hidden,
                   Whole(hidden), Padded(hidden), false, to);
    };
    if (first) load(table, {0, vocab}, &embedding);
    if (last && !(first && tied)) load(tied ? table : "lm_head", share, &out.head);
    if (last) image.Vector(absl::StrCat(prefix, "norm.weight"), hidden, &out.norm);
    if (!first && !last) return absl::OkStatus();
    if (absl::Status s = Send(image, &out.memory); !s.ok()) return s;
    out.embedding = embedding.w;
    if (first && last && tied) {
      out.head = embedding;
      out.head.w += share.begin * embedding.k;
      out.head.n = Padded(share.count);
    }
    return absl::OkStatus();
  }

  absl::Status Send(ImageBuilder& image, Memory* memory) {
    model_->bytes += image.bytes();
    return image.Send(timeline_, memory);
  }

  const model::Checkpoint& checkpoint_;
  Timeline* timeline_;
  LoadedModel* model_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const CudaModel>> CudaModel::Load(
    const model::ModelConfig& config, const model::Checkpoint& checkpoint,
    const LoadOptions& options, Device* device) {
  if (absl::Status status = CheckLimits(config, options); !status.ok()) return status;
  auto loaded = std::make_shared<LoadedModel>(config, options, device);
  Timeline timeline;
  if (absl::Status s = timeline.Init(device, true); !s.ok()) return s;
  Loader loader(checkpoint, &timeline, loaded.get());
  // The published files' names first, then those of the reference's modules.
  if (options.vision) {
    absl::StatusOr<std::string> prefix =
        FindPrefix(checkpoint, {"visual.", "model.visual."}, "patch_embed.proj.weight");
    if (!prefix.ok()) return prefix.status();
    if (absl::Status s = loader.Vision(*prefix); !s.ok()) return s;
  }
  if (options.layers.begin < options.layers.end) {
    absl::StatusOr<std::string> prefix =
        FindPrefix(checkpoint, {"model.", "model.language_model."}, "embed_tokens.weight");
    if (!prefix.ok()) return prefix.status();
    if (absl::Status s = loader.Text(*prefix); !s.ok()) return s;
  }
  return std::shared_ptr<const CudaModel>(std::move(loaded));
}

}  // namespace rserve::cuda
