#include "tools/rserve/kernel_cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/activation/activation.h"
#include "kernels/attention/attention.h"
#include "kernels/rmsnorm/rmsnorm.h"
#include "kernels/rotary/rotary.h"
#include "src/backend/cpu/buffer.h"

namespace rserve::tool {
namespace {

using cpu::Compute;
using kernels::KernelTable;
using kernels::WeightType;

constexpr int64_t kFloat = sizeof(float);

// Small numbers of both signs: no case runs into infinities or numbers too small to be normal.
std::shared_ptr<std::vector<float>> Floats(int64_t count) {
  auto out = std::make_shared<std::vector<float>>(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    (*out)[static_cast<size_t>(i)] = static_cast<float>(i % 17 - 8) * 0.0625f;
  }
  return out;
}

struct Shape {
  const char* name;
  int64_t n, k;
  kernels::Activation activation;
  bool residual;
  int64_t merged;  // rows of x that make one row of this product
};
// SwiGLU computes gate and up, 2 n columns.
constexpr Shape kPrefill[] = {{"qkv", 2560, 2048, kernels::Activation::kNone, false, 1},
                              {"o", 2048, 2048, kernels::Activation::kNone, true, 1},
                              {"gate_up", 11008, 2048, kernels::Activation::kSwiglu, false, 1},
                              {"down", 2048, 11008, kernels::Activation::kNone, true, 1}};
constexpr Shape kEncode[] = {{"qkv", 3840, 1280, kernels::Activation::kNone, false, 1},
                             {"proj", 1280, 1280, kernels::Activation::kNone, true, 1},
                             {"gate_up", 3420, 1280, kernels::Activation::kSwiglu, false, 1},
                             {"down", 1280, 3420, kernels::Activation::kNone, true, 1},
                             {"merger", 5120, 5120, kernels::Activation::kGelu, false, 4}};

KernelCase Product(const char* group, const Shape& shape, WeightType type, int64_t all_rows) {
  const int64_t rows = std::max<int64_t>(all_rows / shape.merged, 1);
  const bool paired = shape.activation == kernels::Activation::kSwiglu;
  const int64_t columns = paired ? 2 * shape.n : shape.n;
  KernelCase out;
  out.group = group;
  out.op = "product";
  out.detail = absl::StrCat(shape.name, " ", columns, " x ", shape.k);
  out.weights = kWeightNames[static_cast<size_t>(type)];
  out.rows = rows;
  out.flop = 2.0 * static_cast<double>(rows) * static_cast<double>(columns * shape.k);
  out.bytes = static_cast<double>(kernels::WeightTypeSize(type) * columns * shape.k +
                                  rows * (shape.k + shape.n) * kFloat);
  out.make = [shape, type, rows, paired](Compute* compute) -> std::function<void()> {
    const KernelTable& isa = compute->isa();
    const int64_t bytes = kernels::PackedBytes(isa, type, shape.n, shape.k, paired);
    auto weight = std::make_shared<cpu::AlignedBytes>(bytes);
    std::memset(weight->data(), 0x3c, static_cast<size_t>(bytes));  // about 1 or 0.01
    auto x = Floats(rows * shape.k);
    auto y = Floats(rows * shape.n);
    kernels::GemmArgs args;
    args.weight = {weight->data(), type, shape.n, shape.k, paired};
    args.m = rows;
    args.x = x->data();
    args.x_stride = shape.k;
    args.y = y->data();
    args.y_stride = shape.n;
    args.activation = shape.activation;
    // Added to itself again and again it would grow without bounds, so it is another array.
    auto residual = shape.residual ? Floats(rows * shape.n) : nullptr;
    if (residual != nullptr) args.residual = residual->data();
    return [compute, args, weight, x, y, residual] { compute->Product(args); };
  };
  return out;
}

struct AttentionShape {
  const char* group;
  const char* name;
  int64_t queries;  // rows
  int64_t keys;     // of the first query (causal), or of the segment (else)
  bool causal;      // over a paged cache, one more key a query; else segments of `keys` rows
  int64_t heads, group_heads, head_dim;
};
constexpr AttentionShape kAttention[] = {
    {"encode", "windows of 64", 1024, 64, false, 16, 1, 80},
    {"encode", "full, 1024", 1024, 1024, false, 16, 1, 80},
    {"encode", "full, 4096", 4096, 4096, false, 16, 1, 80},
    {"prefill", "causal 0 .. 512", 512, 1, true, 16, 8, 128},
    {"prefill", "causal 1792 .. 2048", 256, 1793, true, 16, 8, 128},
    {"prefill", "causal 0 .. 2048", 2048, 1, true, 16, 8, 128},
};

// As the encoder and the stage cut their work (src/backend/cpu).
std::function<void()> MakeAttention(const AttentionShape& shape, Compute* compute) {
  const int64_t dim = shape.head_dim;
  const int64_t kv_heads = shape.heads / shape.group_heads;
  const int64_t stride = (shape.heads + 2 * kv_heads) * dim;
  auto qkv = Floats(shape.queries * stride);
  auto out = Floats(shape.queries * shape.heads * dim);
  constexpr int64_t kBlock = 16;
  const int64_t blocks = shape.causal ? (shape.keys + shape.queries) / kBlock + 1 : 0;
  auto cache = Floats(blocks * kv_heads * 2 * dim * kBlock);
  auto table = std::make_shared<std::vector<int32_t>>(static_cast<size_t>(blocks));
  for (int64_t b = 0; b < blocks; ++b) (*table)[static_cast<size_t>(b)] = static_cast<int32_t>(b);

  const int64_t segment = shape.causal ? shape.queries : shape.keys;
  const int64_t most =
      std::max<int64_t>(compute->isa().attention_block_rows / shape.group_heads, 1);
  const int64_t parts = (segment + most - 1) / most;
  const int64_t tasks = shape.queries / segment * parts * kv_heads;
  return [=] {
    compute->Tasks(tasks, [&](int64_t task, float* scratch) {
      const int64_t head = task % kv_heads;
      const int64_t part = task / kv_heads % parts;
      const int64_t first = task / kv_heads / parts * segment;
      const int64_t begin = segment * part / parts;
      kernels::AttentionRows rows;
      rows.head_dim = dim;
      rows.scale = 1.0f / std::sqrt(static_cast<float>(dim));
      rows.queries = segment * (part + 1) / parts - begin;
      rows.group = shape.group_heads;
      rows.q = qkv->data() + (first + begin) * stride + head * shape.group_heads * dim;
      rows.q_stride = stride;
      rows.out = out->data() + (first + begin) * shape.heads * dim + head * shape.group_heads * dim;
      rows.out_stride = shape.heads * dim;
      if (shape.causal) {
        rows.limit = shape.keys + begin;
        rows.limit_step = 1;
        rows.k = cache->data() + head * 2 * dim * kBlock;
        rows.v = rows.k + dim * kBlock;
        rows.kv_stride = kv_heads * 2 * dim * kBlock;
        rows.blocks = table->data();
        rows.block_tokens = kBlock;
      } else {
        rows.limit = segment;
        rows.k = qkv->data() + first * stride + (shape.heads + head) * dim;
        rows.v = rows.k + kv_heads * dim;
        rows.kv_stride = stride;
      }
      kernels::AttendRows(compute->isa(), rows, scratch);
    });
  };
}

KernelCase RowCase(const char* group, const char* op, std::string detail, int64_t rows,
                   int64_t floats, std::function<std::function<void()>(Compute*)> make) {
  KernelCase out;
  out.group = group;
  out.op = op;
  out.detail = std::move(detail);
  out.rows = rows;
  out.bytes = static_cast<double>(floats * kFloat);
  out.make = std::move(make);
  return out;
}

KernelCase NormCase(const char* group, int64_t rows, int64_t width) {
  return RowCase(
      group, "rmsnorm", absl::StrCat("width ", width), rows, 2 * rows * width,
      [rows, width](Compute* compute) -> std::function<void()> {
        auto x = Floats(rows * width), y = Floats(rows * width), w = Floats(width);
        return [=] {
          compute->Norm({x->data(), width, w->data(), 1e-6f, width, y->data(), width}, rows);
        };
      });
}

KernelCase RotaryCase(const char* group, int64_t rows, int64_t heads, int64_t dim) {
  return RowCase(group, "rotary", absl::StrCat(heads, " heads of ", dim), rows,
                 2 * rows * heads * dim + rows * dim,
                 [=](Compute* compute) -> std::function<void()> {
                   auto x = Floats(rows * heads * dim);
                   auto cosine = std::make_shared<std::vector<float>>(rows * dim / 2, 0.8f);
                   auto sine = std::make_shared<std::vector<float>>(rows * dim / 2, 0.6f);
                   return [=] {
                     const kernels::RotaryArgs args{x->data(), heads * dim,    heads,
                                                    dim,       cosine->data(), sine->data()};
                     compute->Rows(rows, [&](int64_t begin, int64_t end) {
                       kernels::Rotary(compute->isa(), args, begin, end);
                     });
                   };
                 });
}

KernelCase MapCase(const char* op, void (*fn)(const KernelTable&, const float*, int64_t, float*)) {
  constexpr int64_t kRows = 512, kWidth = 11008;
  return RowCase("prefill", op, absl::StrCat("width ", kWidth), kRows, 2 * kRows * kWidth,
                 [fn](Compute* compute) -> std::function<void()> {
                   auto x = Floats(kRows * kWidth), y = Floats(kRows * kWidth);
                   return [=] {
                     compute->Rows(kRows, [&](int64_t begin, int64_t end) {
                       fn(compute->isa(), x->data() + begin * kWidth, (end - begin) * kWidth,
                          y->data() + begin * kWidth);
                     });
                   };
                 });
}

}  // namespace

std::vector<KernelCase> PrefillProducts(WeightType type, int64_t rows) {
  std::vector<KernelCase> out;
  for (const Shape& shape : kPrefill) out.push_back(Product("prefill", shape, type, rows));
  return out;
}

std::vector<KernelCase> EncodeProducts(WeightType type, int64_t rows) {
  std::vector<KernelCase> out;
  for (const Shape& shape : kEncode) out.push_back(Product("encode", shape, type, rows));
  return out;
}

std::vector<KernelCase> AttentionCases() {
  std::vector<KernelCase> out;
  for (const AttentionShape& shape : kAttention) {
    KernelCase entry;
    entry.group = shape.group;
    entry.op = "attention";
    entry.detail = shape.name;
    entry.rows = shape.queries;
    const double queries = static_cast<double>(shape.queries);
    const double keys = static_cast<double>(shape.keys) + (shape.causal ? (queries - 1) / 2 : 0.0);
    entry.flop = 4.0 * queries * keys * static_cast<double>(shape.heads * shape.head_dim);
    entry.make = [shape](Compute* compute) { return MakeAttention(shape, compute); };
    out.push_back(std::move(entry));
  }
  return out;
}

std::vector<KernelCase> RowCases() {
  return {NormCase("prefill", 512, 2048),      NormCase("encode", 1024, 1280),
          RotaryCase("prefill", 512, 18, 128), RotaryCase("encode", 1024, 32, 80),
          MapCase("silu", &kernels::Silu),     MapCase("gelu", &kernels::Gelu)};
}

}  // namespace rserve::tool
