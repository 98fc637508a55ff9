// Speed of the CPU backend on a checkpoint folder.
//
//   rserve_backend_bench FOLDER [THREADS] [IMAGE_SIDE_PIXELS]
//
// Encodes one square image and prefills prompts in chunks; medians of several runs. The numbers of
// the image and the tokens do not matter for speed.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "src/backend/cpu/cpu_model.h"
#include "src/model/weights/checkpoint.h"

namespace rserve::cpu {
namespace {

constexpr int kRuns = 5;

double Seconds(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double Median(const std::function<void()>& run) {
  run();
  std::vector<double> seconds;
  for (int i = 0; i < kRuns; ++i) seconds.push_back(Seconds(run));
  std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
  return seconds[kRuns / 2];
}

int Fail(const absl::Status& status) {
  std::printf("%s\n", status.ToString().c_str());
  return 1;
}

int Main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // lines come as they are measured, into files too
  if (argc < 2) {
    std::printf("usage: rserve_backend_bench FOLDER [THREADS] [IMAGE_SIDE_PIXELS]\n");
    return 2;
  }
  const std::string folder = argv[1];
  const int threads = argc > 2 ? std::max(1, std::atoi(argv[2])) : 1;
  const int side = argc > 3 ? std::atoi(argv[3]) : 448;
  std::ifstream file(folder + "/config.json");
  std::stringstream text;
  text << file.rdbuf();
  const auto config = model::ParseModelConfig(text.str());
  if (!config.ok()) return Fail(config.status());
  const auto checkpoint = model::Checkpoint::Open(folder);
  if (!checkpoint.ok()) return Fail(checkpoint.status());
  ThreadPool pool(threads, {});
  LoadOptions options;
  options.pool = &pool;
  absl::StatusOr<std::shared_ptr<const CpuModel>> model;
  const double load = Seconds([&] { model = CpuModel::Load(*config, **checkpoint, options); });
  if (!model.ok()) return Fail(model.status());
  std::printf("load %.2f s, %.0f MB packed, %d threads\n", load,
              static_cast<double>((*model)->weight_bytes()) * 1e-6, threads);

  const int32_t patches = side / config->vision.factor() * config->vision.spatial_merge_size;
  const model::Grid grid{1, patches, patches};
  std::vector<float> pixels(static_cast<size_t>(grid.patches() * config->vision.patch_dim()), 0.5f);
  std::vector<float> embeddings(static_cast<size_t>(grid.patches() * config->text.hidden_size));
  const auto encoder = MakeCpuEncoder(*model, &pool);
  absl::Status status;
  const double encode = Median([&] {
    status = encoder->Encode({{grid, pixels.data(), embeddings.data()}});
  });
  if (!status.ok()) return Fail(status);
  std::printf("encode %d x %d pixels, %d blocks: %.1f ms\n", side, side, config->vision.depth,
              encode * 1e3);

  const int64_t tokens = 2048;
  const auto stage = MakeCpuStage(*model, {0, config->text.num_layers},
                                  {static_cast<int32_t>(tokens / 16), 16}, &pool);
  std::vector<int32_t> ids(tokens, 1), positions(tokens), blocks(tokens / 16);
  for (int32_t t = 0; t < tokens; ++t) positions[static_cast<size_t>(t)] = t;
  for (size_t b = 0; b < blocks.size(); ++b) blocks[b] = static_cast<int32_t>(b);
  std::vector<float> logits(static_cast<size_t>(config->text.vocab_size));
  const auto forward = [&](int64_t begin, int64_t count) {
    backend::StageEntry entry;
    entry.begin = begin;
    entry.count = count;
    entry.token_ids = ids.data();
    for (auto& axis : entry.positions) axis = positions.data() + begin;
    entry.kv_blocks = blocks;
    entry.want_logits = begin + count == tokens;
    entry.logits = logits.data();
    backend::StageWork work;
    work.entries = absl::MakeConstSpan(&entry, 1);
    work.total_tokens = count;
    status = stage->Forward(work);
  };
  for (int64_t chunk : {64, 512, 2048}) {
    const double seconds = Median([&] {
      for (int64_t begin = 0; begin < tokens; begin += chunk) forward(begin, chunk);
    });
    if (!status.ok()) return Fail(status);
    std::printf("prefill %ld tokens in chunks of %ld, %d layers: %.1f ms, %.1f tokens/s\n",
                static_cast<long>(tokens), static_cast<long>(chunk), config->text.num_layers,
                seconds * 1e3, static_cast<double>(tokens) / seconds);
  }
  const double decode = Median([&] { forward(tokens - 1, 1); });
  std::printf("one token after %ld: %.2f ms\n", static_cast<long>(tokens - 1), decode * 1e3);
  return 0;
}

}  // namespace
}  // namespace rserve::cpu

int main(int argc, char** argv) { return rserve::cpu::Main(argc, argv); }
