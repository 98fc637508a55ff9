// What the CUDA backend refuses, and what it does when its device is lost.

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/backend/cuda/host/host_device.h"
#include "tests/backend/text_chunks.h"
#include "tests/backend_cuda/cuda_case.h"

namespace rserve::testing {
namespace {

bool Says(const absl::Status& status, absl::StatusCode code, const std::string& part) {
  UNSCOPED_INFO(status);
  return status.code() == code && status.message().find(part) != std::string::npos;
}

TEST_CASE("CUDA: work beyond a limit is refused by the limit's name") {
  const GoldenCase golden = LoadCase("gqa2_tied");
  cuda::HostDevice device({});
  const auto model = LoadOnDevice(golden, &device);
  const backend::KvGeometry kv{100, 4};
  const auto stages = StagesOf(model, {}, kv);
  const int64_t vocab = golden.config.text.vocab_size, too_many = kStageLimits.max_tokens + 1;
  TextChunks long_work(vocab, 100, too_many, too_many);
  CHECK(Says(stages[0]->Forward(long_work.works[0]), absl::StatusCode::kResourceExhausted,
             "max_tokens"));
  TextChunks bad_block(vocab, 2, 5, 5);
  bad_block.blocks[1] = 100;
  CHECK(Says(stages[0]->Forward(bad_block.works[0]), absl::StatusCode::kInvalidArgument,
             "num_blocks"));
  const auto encoder = EncoderOf(model);
  const std::vector<float> patches(static_cast<size_t>(34 * 34 * golden.config.vision.patch_dim()));
  std::vector<float> out(34 * 34 * 48);
  CHECK(Says(encoder->Encode({{{1, 34, 34}, patches.data(), out.data()}}),
             absl::StatusCode::kResourceExhausted, "max_patches"));
  CHECK(Says(encoder->Encode({{{1, 3, 4}, patches.data(), out.data()}}),
             absl::StatusCode::kInvalidArgument, "spatial_merge_size"));
  CHECK(Says(cuda::MakeCudaStage(model, {1, 1}, kv, kStageLimits, {}).status(),
             absl::StatusCode::kInvalidArgument, "layers"));
  CHECK(Says(cuda::MakeCudaStage(model, {0, 2}, {0, 4}, kStageLimits, {}).status(),
             absl::StatusCode::kInvalidArgument, "num_blocks"));
  CHECK(
      Says(cuda::MakeCudaStage(model, {0, 2}, {2147483647, 2147483647}, kStageLimits, {}).status(),
           absl::StatusCode::kResourceExhausted, "num_blocks"));
}

TEST_CASE("CUDA: a device without the memory is an error that leaves nothing behind") {
  const GoldenCase golden = LoadCase("gqa2_tied");
  const auto checkpoint = model::Checkpoint::Open(CaseFolder(golden.name));
  REQUIRE(checkpoint.ok());
  for (int64_t bytes : {0, 1000, 60000}) {
    cuda::HostDevice device({1, -1, bytes});
    const auto model = cuda::CudaModel::Load(golden.config, **checkpoint, {true, {0, 2}}, &device);
    CHECK(Says(model.status(), absl::StatusCode::kResourceExhausted, "bytes"));
    CHECK(device.live_allocations() == 0);
  }
}

TEST_CASE("CUDA: a lost device ends every call with its error and can be taken down") {
  const GoldenCase golden = LoadCase("gqa2_tied");
  int64_t operations = 0;
  for (int64_t lost_after : {int64_t{-1}, int64_t{0}, int64_t{3}, int64_t{17}, int64_t{25}}) {
    cuda::HostDevice probe({});
    const auto probe_stages = StagesOf(LoadOnDevice(golden, &probe), {}, {10, 4});
    // So that the loss falls into the forward pass.
    const int64_t begin = probe.operations();
    cuda::HostDevice device({5, lost_after < 0 ? -1 : begin + lost_after});
    {
      const auto model = LoadOnDevice(golden, &device);
      const auto stages = StagesOf(model, {}, {10, 4});
      const int64_t live = device.live_allocations();
      TextChunks text(golden.config.text.vocab_size, 3, 9, 9);
      const absl::Status first = stages[0]->Forward(text.works[0]);
      CHECK(device.live_allocations() == live);  // a call allocates nothing on the device
      if (lost_after < 0) {
        REQUIRE(first.ok());
        operations = device.operations() - begin;
        continue;
      }
      REQUIRE(lost_after < operations);
      CHECK(Says(first, absl::StatusCode::kUnavailable, "lost after"));
      CHECK(stages[0]->Forward(text.works[0]) == first);
      CHECK(cuda::MakeCudaEncoder(model, kEncoderLimits, {}).status() == first);
    }
    CHECK(device.live_allocations() == 0);
  }
}

// Products that treat few rows otherwise than many.
class Inexact final : public cuda::Products {
 public:
  explicit Inexact(std::unique_ptr<cuda::Products> exact) : exact_(std::move(exact)) {}
  absl::Status Run(const cuda::ProductArgs& args) override {
    cuda::ProductArgs changed = args;
    if (args.m == 1) changed.residual = nullptr;
    return exact_->Run(changed);
  }

 private:
  const std::unique_ptr<cuda::Products> exact_;
};
class InexactDevice final : public cuda::HostDevice {
 public:
  InexactDevice() : HostDevice({}) {}
  absl::StatusOr<std::unique_ptr<cuda::Products>> CreateProducts(cuda::StreamRef stream,
                                                                 bool deterministic) override {
    auto exact = HostDevice::CreateProducts(stream, deterministic);
    if (!exact.ok()) return exact.status();
    return std::unique_ptr<cuda::Products>(std::make_unique<Inexact>(*std::move(exact)));
  }
};

TEST_CASE("CUDA: a deterministic role is not made over products that are not row-exact") {
  const GoldenCase golden = LoadCase("gqa2_tied");
  InexactDevice device;
  const auto model = LoadOnDevice(golden, &device);
  const backend::KvGeometry kv{10, 4};
  CHECK(Says(cuda::MakeCudaStage(model, {0, 2}, kv, kStageLimits, {}).status(),
             absl::StatusCode::kFailedPrecondition, "rows 0 .. 0"));
  CHECK(Says(cuda::MakeCudaEncoder(model, kEncoderLimits, {}).status(),
             absl::StatusCode::kFailedPrecondition, "deterministic"));
  cuda::RoleOptions fastest;
  fastest.deterministic = false;
  CHECK(cuda::MakeCudaStage(model, {0, 2}, kv, kStageLimits, fastest).ok());
}

TEST_CASE("CUDA: attention by a library is refused where bits must not depend on the batch") {
  const GoldenCase golden = LoadCase("gqa2_tied");
  cuda::HostDevice device({});
  const auto model = LoadOnDevice(golden, &device);
  cuda::RoleOptions role;
  role.fused_attention = true;
  CHECK(Says(cuda::MakeCudaEncoder(model, kEncoderLimits, role).status(),
             absl::StatusCode::kInvalidArgument, "deterministic"));
  role.deterministic = false;
  CHECK(cuda::MakeCudaEncoder(model, kEncoderLimits, role).ok());
}

}  // namespace
}  // namespace rserve::testing
