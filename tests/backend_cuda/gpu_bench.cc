// Speeds of the CUDA backend at Qwen2.5-VL-7B shapes with random weights, beside the machine's own
// ceilings of the same run. Prints JSON lines: {"name": ..., "value": ..., "unit": ...}.
//
// All layers share the memory of one: a layer's weights (466 MB) are far larger than a cache, so
// reading them again costs what reading others would. Compiled for the host it runs tiny shapes,
// which shows that it works and measures nothing.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/backend/cuda/cuda_model.h"
#include "src/backend/cuda/embedding_store.h"
#include "src/backend/cuda/loaded_model.h"
#include "src/backend/plan/row_store.h"
#include "tests/backend/text_chunks.h"
#if defined(RSERVE_TEST_GPU)
#include "src/backend/cuda/gpu/gpu_device.h"
#else
#include "src/backend/cuda/host/host_device.h"
#endif

namespace rserve {
namespace {

#if defined(RSERVE_TEST_GPU)
constexpr bool kDry = false;
#else
constexpr bool kDry = true;
#endif
constexpr int kRuns = kDry ? 1 : 7;

using cuda::Bf16;

bool Ok(const absl::Status& status, const char* what) {
  if (!status.ok()) std::fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  return status.ok();
}

void Print(const std::string& name, double value, const char* unit) {
  std::printf("{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", name.c_str(), value, unit);
  std::fflush(stdout);
}

// The median of some runs after one that warms up; negative when a run fails.
template <typename Fn>
double MedianSeconds(Fn run) {
  std::vector<double> seconds;
  for (int i = 0; i < kRuns + 1; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    if (!Ok(run(), "run")) return -1.0;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (i > 0) seconds.push_back(took.count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

model::ModelConfig Config() {
  model::ModelConfig config;
  model::VisionConfig& vision = config.vision;
  model::TextConfig& text = config.text;
  vision.fullatt_block_indexes = {7, 15, 23, 31};
  vision.out_hidden_size = 3584;
  text.vocab_size = 152064;
  text.hidden_size = 3584;
  text.intermediate_size = 18944;
  text.num_layers = 28;
  text.num_heads = 28;
  text.num_kv_heads = 4;
  text.head_dim = 128;
  text.mrope_section = {16, 24, 24};
  if (kDry) {
    vision.depth = 2;
    vision.hidden_size = 32;
    vision.intermediate_size = 40;
    vision.num_heads = 2;
    vision.fullatt_block_indexes = {1};
    text.vocab_size = 64;
    text.hidden_size = vision.out_hidden_size = 32;
    text.intermediate_size = 64;
    text.num_layers = 2;
    text.num_heads = 2;
    text.num_kv_heads = 1;
    text.head_dim = 16;
    text.mrope_section = {2, 3, 3};
  }
  return config;
}

// Random numbers of a matrix's usual size on the device, taken piece by piece.
class RandomWeights {
 public:
  RandomWeights(cuda::Timeline* timeline, int64_t elements) {
    auto memory = cuda::Memory::Make(timeline->device(), cuda::Memory::Kind::kDevice, elements * 2);
    auto pinned = cuda::Memory::Make(timeline->device(), cuda::Memory::Kind::kPinned, kPiece * 2);
    ok_ = Ok(memory.status(), "weights") && Ok(pinned.status(), "weights");
    if (!ok_) return;
    memory_ = *std::move(memory);
    auto* host = static_cast<uint16_t*>(pinned->data());
    uint32_t x = 12345;
    for (int64_t i = 0; i < kPiece; ++i) {
      x = x * 1664525u + 1013904223u;
      // Sign and 7 bits of fraction around 2^-6.
      host[i] = static_cast<uint16_t>((x >> 31) << 15 | 121u << 7 | (x >> 24 & 127u));
    }
    for (int64_t at = 0; at < elements && ok_; at += kPiece) {
      const int64_t count = std::min(kPiece, elements - at);
      ok_ = Ok(timeline->device()->Copy(static_cast<Bf16*>(memory_.data()) + at, host, count * 2,
                                        timeline->stream()),
               "weights");
    }
    ok_ = ok_ && Ok(timeline->Finish(), "weights");
  }
  bool ok() const { return ok_; }
  const Bf16* Take(int64_t elements) {
    const Bf16* at = static_cast<const Bf16*>(memory_.data()) + used_;
    used_ += (elements + 127) / 128 * 128;
    return at;
  }
  void Matrix(int64_t n, int64_t k, bool bias, cuda::Matrix* out) {
    *out = {Take(n * k), bias ? Take(n) : nullptr, n, k};
  }

 private:
  static constexpr int64_t kPiece = int64_t{1} << 20;
  cuda::Memory memory_;
  int64_t used_ = 0;
  bool ok_ = false;
};

void FillBlock(RandomWeights& w, int64_t hidden, int64_t qkv, int64_t attention, int64_t inter,
               bool bias, cuda::Block* block) {
  block->norm1 = w.Take(hidden);
  block->norm2 = w.Take(hidden);
  w.Matrix(qkv, hidden, true, &block->qkv);
  w.Matrix(hidden, attention, bias, &block->proj);
  w.Matrix(2 * inter, hidden, bias, &block->gate_up);
  w.Matrix(hidden, inter, bias, &block->down);
}

// The pointers of a block, without its memory.
cuda::Block Shared(const cuda::Block& block) {
  cuda::Block copy;
  copy.norm1 = block.norm1;
  copy.norm2 = block.norm2;
  copy.qkv = block.qkv;
  copy.proj = block.proj;
  copy.gate_up = block.gate_up;
  copy.down = block.down;
  return copy;
}

void FillModel(RandomWeights& w, cuda::LoadedModel* model) {
  using cuda::Padded;
  const model::VisionConfig& vision = model->config().vision;
  const model::TextConfig& text = model->config().text;
  const int64_t vh = Padded(vision.hidden_size), th = Padded(text.hidden_size);
  const int64_t va = vision.num_heads * Padded(vision.head_dim());
  const int64_t ta = text.num_heads * Padded(text.head_dim);
  cuda::Block block;
  FillBlock(w, vh, 3 * va, va, Padded(vision.intermediate_size), true, &block);
  for (int i = 0; i < vision.depth; ++i) model->vision.blocks.push_back(Shared(block));
  w.Matrix(vh, Padded(vision.patch_dim()), false, &model->vision.patch_embed);
  model->vision.merger_norm = w.Take(vh);
  const int64_t merged = Padded(vision.hidden_size * vision.merge_unit());
  w.Matrix(merged, vh * vision.merge_unit(), true, &model->vision.merger_fc1);
  w.Matrix(th, merged, true, &model->vision.merger_fc2);
  FillBlock(w, th, ta + 2 * text.num_kv_heads * Padded(text.head_dim), ta,
            Padded(text.intermediate_size), false, &block);
  for (int i = 0; i < text.num_layers; ++i) model->text.layers.push_back(Shared(block));
  model->text.norm = w.Take(th);
  w.Matrix(Padded(text.vocab_size), th, false, &model->text.head);
  model->text.embedding = model->text.head.w;
}

// Multiplications and additions of the products, and of attention with `keys` keys a row.
double ProductFlops(const cuda::Block& b) {
  double weights = 0.0;
  for (const cuda::Matrix* m : {&b.qkv, &b.proj, &b.gate_up, &b.down}) {
    weights += static_cast<double>(m->n) * static_cast<double>(m->k);
  }
  return 2.0 * weights;
}

bool Ceilings(cuda::Timeline* timeline, double* tflops) {
  const int64_t size = kDry ? 64 : 8192;
  cuda::Device* device = timeline->device();
  RandomWeights w(timeline, 3 * size * size);
  if (!w.ok()) return false;
  cuda::Matrix matrix;
  w.Matrix(size, size, false, &matrix);
  const Bf16* x = w.Take(size * size);
  auto* y = const_cast<Bf16*>(w.Take(size * size));
  const int repeat = kDry ? 1 : 10;
  const double product = MedianSeconds([&] {
    for (int i = 0; i < repeat; ++i) {
      if (absl::Status s = timeline->products()->Run(matrix.Args(size, x, size, y, size)); !s.ok())
        return s;
    }
    return timeline->Finish();
  });
  if (product < 0.0) return false;
  const double d = static_cast<double>(size);
  *tflops = 2.0 * d * d * d * repeat / product * 1e-12;
  Print(absl::StrCat("ceiling.product.", size), *tflops, "TFLOP/s");
  const double copy = MedianSeconds([&] {
    for (int i = 0; i < repeat; ++i) {
      if (absl::Status s = device->Copy(y, x, size * size * 2, timeline->stream()); !s.ok())
        return s;
    }
    return timeline->Finish();
  });
  if (copy < 0.0) return false;
  Print("ceiling.copy", 4.0 * d * d * repeat / copy * 1e-9, "GB/s read and written");
  return true;
}

bool Encode(const std::shared_ptr<cuda::LoadedModel>& model, double ceiling) {
  const model::VisionConfig& config = model->config().vision;
  const int32_t side = kDry ? 8 : 64;  // patches: 1024 tokens an image
  const int64_t patches = int64_t{side} * side;
  const std::vector<float> pixels(static_cast<size_t>(patches * config.patch_dim()), 0.25f);
  struct Way {
    const char* name;
    int64_t graph_rows;
    int32_t side;
    std::vector<int> images;
    bool any_algorithm = false;
    bool fused = false;
  };
  // Small pictures are what recordings are for.
  const int32_t small = kDry ? 4 : 16;
  const Way ways[] = {{"", 0, side, {1, 8}},
                      {".any_algorithm", 0, side, {8}, true},
                      {".cudnn", 0, side, {1, 8}, true, true},
                      {"", 0, small, {1}},
                      {".graphs", 8192, small, {1}}};
  for (const Way& way : ways) {
    cuda::RoleOptions role;
    role.graph_rows = way.graph_rows;
    role.deterministic = !way.any_algorithm;
    role.fused_attention = way.fused;
    auto encoder = cuda::MakeCudaEncoder(model, {8 * patches}, role);
    if (way.fused && !Ok(encoder.status(), "left out")) continue;
    if (!Ok(encoder.status(), "encoder")) return false;
    const int64_t unit_patches = int64_t{way.side} * way.side;
    const int64_t unit_tokens = unit_patches / config.merge_unit();
    for (const int images : way.images) {
      std::vector<float> out(static_cast<size_t>(images * unit_tokens * config.out_hidden_size));
      std::vector<backend::EncodeUnit> units;
      for (int i = 0; i < images; ++i) {
        units.push_back({{1, way.side, way.side},
                         pixels.data(),
                         out.data() + i * unit_tokens * config.out_hidden_size});
      }
      const double seconds = MedianSeconds([&] { return (*encoder)->Encode(units); });
      if (seconds < 0.0) return false;
      const double rows = static_cast<double>(images * unit_patches);
      const double full = static_cast<double>(config.fullatt_block_indexes.size());
      const double keys = full * static_cast<double>(unit_patches) + (config.depth - full) * 64.0;
      const double flops = rows * (config.depth * ProductFlops(model->vision.blocks[0]) +
                                   keys * 4.0 * config.hidden_size);
      const std::string name = absl::StrCat("encode.", images, "x", unit_tokens, way.name);
      Print(name + ".time", seconds * 1e3, "ms");
      Print(name + ".of_ceiling", flops / seconds * 1e-12 / ceiling, "");
    }
  }
  return true;
}

// A stage over all layers, with a cache for `tokens`.
absl::StatusOr<std::unique_ptr<backend::StageBackend>> MakeStage(
    const std::shared_ptr<cuda::LoadedModel>& model, int64_t tokens,
    const cuda::RoleOptions& role) {
  const backend::KvGeometry kv{static_cast<int32_t>(tokens / 16), 16};
  return cuda::MakeCudaStage(model, {0, model->config().text.num_layers}, kv, {tokens, 16, 16},
                             role);
}

bool Prefill(const std::shared_ptr<cuda::LoadedModel>& model, double ceiling) {
  const model::TextConfig& config = model->config().text;
  const int64_t prompt = kDry ? 64 : 8192;
  struct Way {
    const char* name;
    bool deterministic;
    int64_t graph_rows;
    std::vector<int64_t> chunks;
  };
  const Way ways[] = {
      {"", true, 0,
       kDry ? std::vector<int64_t>{16, 64} : std::vector<int64_t>{512, 1024, 2048, 4096, 8192}},
      {".any_algorithm", false, 0, {kDry ? 64 : 2048}},
      {".graphs", true, 1024, {kDry ? 16 : 512}}};
  for (const Way& way : ways) {
    cuda::RoleOptions role;
    role.deterministic = way.deterministic;
    role.graph_rows = way.graph_rows;
    auto stage = MakeStage(model, prompt, role);
    if (!Ok(stage.status(), "stage")) return false;
    for (const int64_t chunk : way.chunks) {
      testing::TextChunks text(config.vocab_size, static_cast<int32_t>(prompt / 16), prompt, chunk);
      const double seconds = MedianSeconds([&] {
        for (const backend::StageWork& work : text.works) {
          if (absl::Status s = (*stage)->Forward(work); !s.ok()) return s;
        }
        return absl::OkStatus();
      });
      if (seconds < 0.0) return false;
      const double tokens = static_cast<double>(prompt);
      const double flops =
          config.num_layers * (tokens * ProductFlops(model->text.layers[0]) +
                               tokens * tokens / 2 * 4.0 * config.num_heads * config.head_dim);
      const std::string name = absl::StrCat("prefill.", prompt, ".chunk", chunk, way.name);
      Print(name + ".time", seconds * 1e3, "ms");
      Print(name + ".of_ceiling", flops / seconds * 1e-12 / ceiling, "");
    }
  }
  return true;
}

// Where threads wait for a number to be reached.
class Count {
 public:
  void Add(const absl::Status& status) {
    std::lock_guard<std::mutex> lock(mutex_);
    status_.Update(status);
    ++count_;
    changed_.notify_all();
  }
  absl::Status WaitFor(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return count_ >= count; });
    return status_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
  absl::Status status_;
};

// From patches to logits: images of 1024 tokens, each a chunk, and a text behind them. `overlap`: a
// chunk is prefilled while the images after it are encoded; else all are encoded first. Embeddings
// stay on the device where there is a store.
class FirstToken {
 public:
  FirstToken(const model::ModelConfig& config, int images, backend::RowStore* store)
      : config_(config),
        images_(images),
        stored_(static_cast<size_t>(images)),
        text_(config.text.vocab_size, static_cast<int32_t>(tokens() / 16), tokens(), kImageTokens),
        slices_(static_cast<size_t>(images)) {
    const size_t patches = static_cast<size_t>(kSide) * kSide;
    patches_.assign(patches * static_cast<size_t>(config.vision.patch_dim()), 0.25f);
    rows_.resize(static_cast<size_t>(images));
    for (size_t i = 0; i < rows_.size(); ++i) {
      slices_[i] = {static_cast<int64_t>(i) * kImageTokens, kImageTokens};
      if (store != nullptr) {
        stored_[i] = store->Take(kImageTokens);
        slices_[i].stored = &stored_[i];
      } else {
        rows_[i].resize(static_cast<size_t>(kImageTokens * config.text.hidden_size));
        slices_[i].data = rows_[i].data();
      }
      text_.entries[i].embeddings = {&slices_[i], 1};
    }
  }

  static constexpr int32_t kSide = kDry ? 8 : 64;  // patches
  static constexpr int64_t kImageTokens = int64_t{kSide} * kSide / 4;

  int64_t tokens() const { return images_ * kImageTokens + kTextTokens; }

  absl::Status Run(backend::EncoderBackend* encoder, backend::StageBackend* stage, bool overlap) {
    Count encoded, prefilled;
    std::thread encode([&] {
      for (size_t i = 0; i < rows_.size(); ++i) {
        const bool stored = static_cast<bool>(stored_[i]);
        const backend::EncodeUnit unit = {{1, kSide, kSide},
                                          patches_.data(),
                                          stored ? nullptr : rows_[i].data(),
                                          stored ? &stored_[i] : nullptr};
        encoder->Start({&unit, 1}, [&](const absl::Status& status) { encoded.Add(status); });
      }
    });
    for (int i = 0; i < static_cast<int>(text_.works.size()); ++i) {
      const int needed = overlap ? std::min(i + 1, images_) : images_;
      encoded.WaitFor(needed).IgnoreError();
      stage->Start(text_.works[static_cast<size_t>(i)],
                   [&](const absl::Status& status) { prefilled.Add(status); });
    }
    encode.join();
    absl::Status status = encoded.WaitFor(images_);
    status.Update(prefilled.WaitFor(static_cast<int>(text_.works.size())));
    return status;
  }

 private:
  static constexpr int64_t kTextTokens = 2 * kImageTokens;

  const model::ModelConfig& config_;
  const int images_;
  std::vector<backend::StoredRows> stored_;
  testing::TextChunks text_;
  std::vector<backend::EmbeddingSlice> slices_;
  std::vector<float> patches_;
  std::vector<std::vector<float>> rows_;
};

bool Ttft(const std::shared_ptr<cuda::LoadedModel>& model) {
  const int images = 8;
  const int64_t rows = images * FirstToken::kImageTokens;
  struct Way {
    const char* name;
    bool overlap;
    bool on_device;
  };
  for (const Way& way : {Way{"overlapped", true, true},
                         {"one_after_another", false, true},
                         {"overlapped.host_embeddings", true, false}}) {
    cuda::RoleOptions role;
    backend::RowStore store(rows);
    if (way.on_device) {
      auto made =
          cuda::EmbeddingStore::Make({model->device()}, rows, model->config().text.hidden_size);
      if (!Ok(made.status(), "store")) return false;
      role.embeddings = *std::move(made);
    }
    FirstToken request(model->config(), images, way.on_device ? &store : nullptr);
    auto encoder =
        cuda::MakeCudaEncoder(model, {int64_t{FirstToken::kSide} * FirstToken::kSide}, role);
    auto stage = MakeStage(model, request.tokens(), role);
    if (!Ok(encoder.status(), "encoder") || !Ok(stage.status(), "stage")) return false;
    const double seconds =
        MedianSeconds([&] { return request.Run(encoder->get(), stage->get(), way.overlap); });
    if (seconds < 0.0) return false;
    Print(absl::StrCat("ttft.8x1024+2048.", way.name, ".time"), seconds * 1e3, "ms");
  }
  return true;
}

bool Run() {
#if defined(RSERVE_TEST_GPU)
  auto opened = cuda::OpenGpu(0);
  if (!Ok(opened.status(), "device")) return false;
  const std::unique_ptr<cuda::Device> device = *std::move(opened);
#else
  cuda::HostDeviceOptions options;
  options.background = true;
  const auto device = std::make_unique<cuda::HostDevice>(options);
#endif
  cuda::Timeline timeline;
  if (!Ok(timeline.Init(device.get(), false), "stream")) return false;
  double ceiling = 0.0;
  if (!Ceilings(&timeline, &ceiling)) return false;
  const model::ModelConfig config = Config();
  RandomWeights weights(&timeline, kDry ? int64_t{1} << 18 : int64_t{1} << 30);
  if (!weights.ok()) return false;
  auto model = std::make_shared<cuda::LoadedModel>(
      config, cuda::LoadOptions{true, {0, config.text.num_layers}, 0, 1}, device.get());
  FillModel(weights, model.get());
  return Encode(model, ceiling) && Prefill(model, ceiling) && Ttft(model);
}

}  // namespace
}  // namespace rserve

int main() { return rserve::Run() ? 0 : 1; }
