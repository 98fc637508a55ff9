// A golden checkpoint on the CUDA backend.

#ifndef RSERVE_TESTS_BACKEND_CUDA_CUDA_CASE_H_
#define RSERVE_TESTS_BACKEND_CUDA_CUDA_CASE_H_

#include <memory>
#include <utility>
#include <vector>

#include "src/backend/cuda/cuda_model.h"
#include "tests/backend/golden_case.h"
#include "tests/support/catch.h"

namespace rserve::testing {

inline constexpr cuda::EncoderLimits kEncoderLimits = {1024};
inline constexpr cuda::StageLimits kStageLimits = {384, 8, 2};

inline std::shared_ptr<const cuda::CudaModel> LoadOnDevice(const GoldenCase& golden,
                                                           cuda::Device* device) {
  const auto checkpoint = model::Checkpoint::Open(CaseFolder(golden.name));
  REQUIRE(checkpoint.ok());
  auto model = cuda::CudaModel::Load(golden.config, **checkpoint,
                                     {true, {0, golden.config.text.num_layers}}, device);
  INFO(golden.name << ": " << model.status());
  REQUIRE(model.ok());
  return *std::move(model);
}

inline std::unique_ptr<backend::EncoderBackend> EncoderOf(
    std::shared_ptr<const cuda::CudaModel> model, const cuda::RoleOptions& role = {}) {
  auto encoder = cuda::MakeCudaEncoder(std::move(model), kEncoderLimits, role);
  INFO(encoder.status());
  REQUIRE(encoder.ok());
  return *std::move(encoder);
}

// `cuts`: layers at which a new stage begins.
inline std::vector<std::unique_ptr<backend::StageBackend>> StagesOf(
    const std::shared_ptr<const cuda::CudaModel>& model, std::vector<int32_t> cuts,
    const backend::KvGeometry& kv, const cuda::RoleOptions& role = {}) {
  cuts.push_back(model->config().text.num_layers);
  std::vector<std::unique_ptr<backend::StageBackend>> stages;
  int32_t begin = 0;
  for (int32_t end : cuts) {
    auto stage = cuda::MakeCudaStage(model, {begin, end}, kv, kStageLimits, role);
    INFO(stage.status());
    REQUIRE(stage.ok());
    stages.push_back(*std::move(stage));
    begin = end;
  }
  return stages;
}

}  // namespace rserve::testing

#endif  // RSERVE_TESTS_BACKEND_CUDA_CUDA_CASE_H_
