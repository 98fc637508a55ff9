#include "kernels/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "tests/kernels/arrays.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

using kernels::AttentionRows;
using kernels::KernelTable;

// One key-value head with `group` query heads over `tokens` tokens, in f64.
std::vector<float> Reference(const std::vector<float>& q, const std::vector<float>& k,
                             const std::vector<float>& v, int64_t tokens, int64_t keys,
                             int64_t group, int64_t dim, float scale, bool causal) {
  std::vector<float> out(q.size());
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t seen = causal ? t + 1 : keys;
    for (int64_t h = 0; h < group; ++h) {
      const float* query = q.data() + (t * group + h) * dim;
      std::vector<double> p(static_cast<size_t>(seen));
      double largest = -1e300, total = 0.0;
      for (int64_t j = 0; j < seen; ++j) {
        double s = 0.0;
        for (int64_t d = 0; d < dim; ++d) {
          s += double{query[d]} * k[static_cast<size_t>(j * dim + d)];
        }
        p[static_cast<size_t>(j)] = s * scale;
        largest = std::max(largest, s * scale);
      }
      for (double& x : p) total += x = std::exp(x - largest);
      for (int64_t d = 0; d < dim; ++d) {
        double sum = 0.0;
        for (int64_t j = 0; j < seen; ++j) {
          sum += p[static_cast<size_t>(j)] * v[static_cast<size_t>(j * dim + d)];
        }
        out[static_cast<size_t>((t * group + h) * dim + d)] = static_cast<float>(sum / total);
      }
    }
  }
  return out;
}

void Run(const KernelTable& isa, const AttentionRows& rows) {
  std::vector<float> scratch = NanFloats(kernels::AttentionScratchFloats(isa));
  kernels::AttendRows(isa, rows, scratch.data());
}

double WorstError(const std::vector<float>& got, const std::vector<float>& want) {
  double worst = 0.0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i])) return 1e9;
    worst = std::max(worst, std::fabs(double{got[i]} - want[i]));
  }
  return worst;
}

TEST_CASE("attention inside a segment agrees with f64 and does not depend on the query block") {
  for (const KernelTable* isa : AllIsas()) {
    for (int64_t dim : {4, 20, 80, 128, 256}) {
      for (int64_t keys : {1, 3, 16, 64, 127, 128, 129, 300}) {
        const std::vector<float> q = RandomFloats(keys * dim, 1, 2.0f);
        const std::vector<float> k = RandomFloats(keys * dim, 2, 2.0f);
        const std::vector<float> v = RandomFloats(keys * dim, 3);
        const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
        const std::vector<float> want = Reference(q, k, v, keys, keys, 1, dim, scale, false);
        std::vector<float> first;
        for (int64_t block : {int64_t{isa->attention_block_rows}, int64_t{17}, int64_t{1}}) {
          std::vector<float> out = NanFloats(keys * dim);
          for (int64_t begin = 0; begin < keys; begin += block) {
            AttentionRows rows;
            rows.head_dim = dim;
            rows.scale = scale;
            rows.queries = std::min(block, keys - begin);
            rows.q = q.data() + begin * dim;
            rows.q_stride = dim;
            rows.out = out.data() + begin * dim;
            rows.out_stride = dim;
            rows.limit = keys;
            rows.k = k.data();
            rows.v = v.data();
            rows.kv_stride = dim;
            Run(*isa, rows);
          }
          CAPTURE(isa->name, dim, keys, block);
          if (first.empty()) {
            first = out;
            CHECK(WorstError(out, want) < 2e-5);
          } else {
            CHECK(SameBits(out, first));
          }
          if (keys > 129 && dim > 80) break;
        }
      }
    }
  }
}

// A paged cache of one head, full of NaN but for what is stored.
struct Cache {
  Cache(int64_t tokens, int64_t dim, int64_t block_tokens, uint32_t seed)
      : dim(dim), block_tokens(block_tokens) {
    const int64_t count = (tokens + block_tokens - 1) / block_tokens + 1;
    blocks.resize(static_cast<size_t>(count));
    std::iota(blocks.begin(), blocks.end(), 0);
    std::mt19937 random(seed);
    std::shuffle(blocks.begin(), blocks.end(), random);
    stride = 2 * dim * block_tokens;
    data = NanFloats(count * stride);
  }
  void Put(int64_t token, const float* k, const float* v) {
    float* block = data.data() + blocks[static_cast<size_t>(token / block_tokens)] * stride;
    kernels::StoreKeyValue(k, v, dim, block_tokens, token % block_tokens, block,
                           block + dim * block_tokens);
  }
  int64_t dim, block_tokens, stride = 0;
  std::vector<int32_t> blocks;
  std::vector<float> data;
};

TEST_CASE("causal attention over pages agrees with f64 and has the same bits for every chunk") {
  for (const KernelTable* isa : AllIsas()) {
    for (int64_t group : {1, 2, 7}) {
      for (int64_t dim : {12, 128}) {
        constexpr int64_t kTokens = 280;
        const std::vector<float> q = RandomFloats(kTokens * group * dim, 4, 2.0f);
        const std::vector<float> k = RandomFloats(kTokens * dim, 5, 2.0f);
        const std::vector<float> v = RandomFloats(kTokens * dim, 6);
        const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
        const std::vector<float> want =
            Reference(q, k, v, kTokens, kTokens, group, dim, scale, true);
        std::vector<float> first;
        struct Way {
          int64_t chunk, block_tokens;
        };
        for (const Way way :
             {Way{kTokens, 16}, Way{1, 16}, Way{3, 5}, Way{100, 1}, Way{129, 300}}) {
          Cache cache(kTokens, dim, way.block_tokens, 7);
          std::vector<float> out = NanFloats(kTokens * group * dim);
          for (int64_t begin = 0; begin < kTokens; begin += way.chunk) {
            const int64_t end = std::min(kTokens, begin + way.chunk);
            for (int64_t t = begin; t < end; ++t) {
              cache.Put(t, k.data() + t * dim, v.data() + t * dim);
            }
            const int64_t block = isa->attention_block_rows / group;
            for (int64_t from = begin; from < end; from += block) {
              AttentionRows rows;
              rows.head_dim = dim;
              rows.scale = scale;
              rows.queries = std::min(block, end - from);
              rows.group = group;
              rows.q = q.data() + from * group * dim;
              rows.q_stride = group * dim;
              rows.out = out.data() + from * group * dim;
              rows.out_stride = group * dim;
              rows.limit = from + 1;
              rows.limit_step = 1;
              rows.k = cache.data.data();
              rows.v = cache.data.data() + dim * way.block_tokens;
              rows.kv_stride = cache.stride;
              rows.blocks = cache.blocks.data();
              rows.block_tokens = way.block_tokens;
              Run(*isa, rows);
            }
          }
          CAPTURE(isa->name, group, dim, way.chunk, way.block_tokens);
          if (first.empty()) {
            first = out;
            CHECK(WorstError(out, want) < 2e-5);
          } else {
            CHECK(SameBits(out, first));
          }
        }
      }
    }
  }
}

TEST_CASE("scores of large magnitude give the largest key's value, not overflow") {
  for (const KernelTable* isa : AllIsas()) {
    constexpr int64_t kDim = 16, kKeys = 140;
    std::vector<float> q(kDim, 1e6f), k(kKeys * kDim, -1e6f), v(kKeys * kDim, 1.0f);
    for (int64_t d = 0; d < kDim; ++d) {
      k[static_cast<size_t>(131 * kDim + d)] = 1e6f;
      v[static_cast<size_t>(131 * kDim + d)] = -5.0f;
    }
    std::vector<float> out = NanFloats(kDim);
    AttentionRows rows;
    rows.head_dim = kDim;
    rows.queries = 1;
    rows.q = q.data();
    rows.out = out.data();
    rows.limit = kKeys;
    rows.k = k.data();
    rows.v = v.data();
    rows.kv_stride = kDim;
    Run(*isa, rows);
    CHECK(SameBits(out, std::vector<float>(kDim, -5.0f)));
  }
}

}  // namespace
}  // namespace rserve::testing
