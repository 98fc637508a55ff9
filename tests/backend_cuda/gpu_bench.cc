// Speeds of the CUDA backend at Qwen2.5-VL-7B shapes with random weights, beside the machine's own
// ceilings of the same run. Prints JSON lines: {"name": ..., "value": ..., "unit": ...}.
//
// All layers share the memory of one: a layer's weights (466 MB) are far larger than a cache, so
// reading them again costs what reading others would. Compiled for the host it runs tiny shapes,
// which shows that it works and measures nothing.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/backend/cuda/cuda_model.h"
#include "src/backend/cuda/loaded_model.h"
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
  auto encoder = cuda::MakeCudaEncoder(model, {8 * patches}, {});
  if (!Ok(encoder.status(), "encoder")) return false;
  const std::vector<float> pixels(static_cast<size_t>(patches * config.patch_dim()), 0.25f);
  for (int images : {1, 8}) {
    std::vector<float> out(
        static_cast<size_t>(images * patches / config.merge_unit() * config.out_hidden_size));
    std::vector<backend::EncodeUnit> units;
    for (int i = 0; i < images; ++i) {
      units.push_back({{1, side, side},
                       pixels.data(),
                       out.data() + static_cast<int64_t>(out.size()) / images * i});
    }
    const double seconds = MedianSeconds([&] { return (*encoder)->Encode(units); });
    if (seconds < 0.0) return false;
    const double rows = static_cast<double>(images * patches);
    const double full = static_cast<double>(config.fullatt_block_indexes.size());
    const double keys = full * static_cast<double>(patches) + (config.depth - full) * 64.0;
    const double flops = rows * (config.depth * ProductFlops(model->vision.blocks[0]) +
                                 keys * 4.0 * config.hidden_size);
    const std::string name = absl::StrCat("encode.", images, "x", patches / config.merge_unit());
    Print(name + ".time", seconds * 1e3, "ms");
    Print(name + ".of_ceiling", flops / seconds * 1e-12 / ceiling, "");
  }
  return true;
}

bool Prefill(const std::shared_ptr<cuda::LoadedModel>& model, double ceiling) {
  const model::TextConfig& config = model->config().text;
  const int64_t prompt = kDry ? 64 : 8192;
  const backend::KvGeometry kv{static_cast<int32_t>(prompt / 16), 16};
  auto stage = cuda::MakeCudaStage(model, {0, config.num_layers}, kv, {prompt, 16, 16}, {});
  if (!Ok(stage.status(), "stage")) return false;
  std::vector<int32_t> ids(static_cast<size_t>(prompt)), blocks;
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i) % config.vocab_size;
  for (int32_t b = 0; b < kv.num_blocks; ++b) blocks.push_back(b);
  std::vector<int32_t> positions(ids.size());
  for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int32_t>(i);
  std::vector<float> logits(static_cast<size_t>(config.vocab_size));
  const std::vector<int64_t> chunks =
      kDry ? std::vector<int64_t>{16, 64} : std::vector<int64_t>{512, 1024, 2048, 4096, 8192};
  for (int64_t chunk : chunks) {
    const double seconds = MedianSeconds([&] {
      for (int64_t begin = 0; begin < prompt; begin += chunk) {
        backend::StageEntry entry;
        entry.begin = begin;
        entry.count = std::min(chunk, prompt - begin);
        entry.token_ids = ids.data() + begin;
        for (auto& axis : entry.positions) axis = positions.data() + begin;
        entry.kv_blocks = blocks;
        entry.want_logits = begin + chunk >= prompt;
        entry.logits = logits.data();
        backend::StageWork work;
        work.entries = {&entry, 1};
        work.total_tokens = entry.count;
        if (absl::Status s = (*stage)->Forward(work); !s.ok()) return s;
      }
      return absl::OkStatus();
    });
    if (seconds < 0.0) return false;
    const double tokens = static_cast<double>(prompt);
    const double flops =
        config.num_layers * (tokens * ProductFlops(model->text.layers[0]) +
                             tokens * tokens / 2 * 4.0 * config.num_heads * config.head_dim);
    const std::string name = absl::StrCat("prefill.", prompt, ".chunk", chunk);
    Print(name + ".time", seconds * 1e3, "ms");
    Print(name + ".of_ceiling", flops / seconds * 1e-12 / ceiling, "");
  }
  return true;
}

bool Run() {
#if defined(RSERVE_TEST_GPU)
  auto opened = cuda::OpenGpu(0);
  if (!Ok(opened.status(), "device")) return false;
  const std::unique_ptr<cuda::Device> device = *std::move(opened);
#else
  const auto device = std::make_unique<cuda::HostDevice>(cuda::HostDeviceOptions{});
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
  return Encode(model, ceiling) && Prefill(model, ceiling);
}

}  // namespace
}  // namespace rserve

int main() { return rserve::Run() ? 0 : 1; }
