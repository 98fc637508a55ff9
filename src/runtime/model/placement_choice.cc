#include "src/runtime/model/placement_choice.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <latch>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_format.h"
#include "src/backend/cpu/cpu_model.h"
#include "src/backend/cpu/thread_pool.h"
#include "src/runtime/clock.h"
#include "src/runtime/exception_guard.h"
#include "src/runtime/model/placement.h"
#include "src/runtime/thread.h"

namespace rserve::runtime {

namespace {

constexpr int32_t kGridPatches = 16;  // a side: a picture of 224 x 224
constexpr int32_t kChunkTokens = 128;
constexpr int32_t kBlockTokens = 16;
// Rounds, of which each times all four, so that what disturbs the machine for a while does not have
// its way with all samples of one of them.
constexpr int32_t kLeastRounds = 2;
constexpr int32_t kMostRounds = 40;
constexpr TimeNs kLeastNs = 200'000'000;
constexpr TimeNs kMostNs = 1'500'000'000;

// What a worker would compute with.
class Probe {
 public:
  Probe(const std::shared_ptr<const cpu::CpuModel>& model, const WorkerInfo& worker)
      : config_(model->config()),
        cores_(worker.cores),
        pool_(worker.threads, worker.cores),
        encoder_(cpu::MakeCpuEncoder(model, &pool_)),
        stage_(cpu::MakeCpuStage(model, cpu::LayerRange{0, 1},
                                 cpu::KvGeometry{kChunkTokens / kBlockTokens, kBlockTokens},
                                 &pool_)) {}

  absl::Status Encode() {
    const model::Grid grid{1, kGridPatches, kGridPatches};
    patches_.resize(static_cast<size_t>(grid.patches() * config_.vision.patch_dim()));
    rows_.resize(static_cast<size_t>(grid.patches() / config_.vision.merge_unit() *
                                     config_.text.hidden_size));
    const backend::EncodeUnit unit{grid, patches_.data(), rows_.data()};
    return encoder_->Encode({&unit, 1});
  }

  absl::Status Prefill() {
    ids_.assign(kChunkTokens, 0);
    positions_.resize(kChunkTokens);
    blocks_.resize(kChunkTokens / kBlockTokens);
    for (int32_t i = 0; i < kChunkTokens; ++i) positions_[static_cast<size_t>(i)] = i;
    for (size_t i = 0; i < blocks_.size(); ++i) blocks_[i] = static_cast<int32_t>(i);
    backend::StageEntry entry;
    entry.count = kChunkTokens;
    entry.token_ids = ids_.data();
    for (const int32_t*& axis : entry.positions) axis = positions_.data();
    entry.kv_blocks = blocks_;
    backend::StageWork work;
    work.entries = {&entry, 1};
    work.total_tokens = kChunkTokens;
    hidden_.resize(static_cast<size_t>(kChunkTokens) *
                   static_cast<size_t>(config_.text.hidden_size));
    // The only layer is also the last one, which leaves no hidden states.
    work.hidden_out = config_.text.num_layers > 1 ? hidden_.data() : nullptr;
    return stage_->Forward(work);
  }

  const std::vector<int>& cores() const { return cores_; }

 private:
  const model::ModelConfig& config_;
  const std::vector<int> cores_;
  cpu::ThreadPool pool_;
  const std::unique_ptr<backend::EncoderBackend> encoder_;
  const std::unique_ptr<backend::StageBackend> stage_;
  std::vector<float> patches_, rows_, hidden_;
  std::vector<int32_t> ids_, positions_, blocks_;
};

// Times `work` on the worker's first core, as the worker's own thread does; again until whoever
// shares `left` has timed it once too, so that all of them are busy all the time.
absl::Status Time(const Probe& probe, std::atomic<int32_t>& left,
                  absl::FunctionRef<absl::Status()> work, TimeNs* least_ns) {
  // A pin that fails costs accuracy only.
  if (!probe.cores().empty()) PinThisThread({probe.cores().front()}).IgnoreError();
  for (bool first = true;; first = false) {
    const TimeNs begin_ns = MonotonicNow();
    const absl::Status status = work();
    const TimeNs end_ns = MonotonicNow();
    if (!status.ok()) left = 0;
    if (left <= 0) return status;
    *least_ns = std::min(*least_ns, std::max<TimeNs>(end_ns - begin_ns, 1));
    if (first && --left <= 0) return absl::OkStatus();
  }
}

// An encoder and a stage of their own, both busy.
absl::Status TimeParts(Probe& encoder, Probe& stage, TimeNs* encode_ns, TimeNs* prefill_ns) {
  std::atomic<int32_t> left{2};
  std::latch start(2);
  // What fails must not leave the other one waiting for it.
  const auto part = [&](absl::FunctionRef<absl::Status()> timed) {
    absl::Status status;
    start.arrive_and_wait();
    const absl::Status guarded = RunGuarded("measuring the placement", [&] { status = timed(); });
    if (!guarded.ok()) left = 0;
    return guarded.ok() ? status : guarded;
  };
  absl::Status encoded, prefilled;
  {
    const Thread thread("rserve-probe-e", [&] {
      encoded = part([&] {
        return Time(
            encoder, left, [&] { return encoder.Encode(); }, encode_ns);
      });
    });
    prefilled = part([&] {
      return Time(
          stage, left, [&] { return stage.Prefill(); }, prefill_ns);
    });
  }
  encoded.Update(prefilled);
  return encoded;
}

absl::StatusOr<CoreScaling> Measure(Probe& all, Probe& encoder, Probe& stage) {
  LeastTime encode_all, encode_part, prefill_all, prefill_part;
  const TimeNs begin_ns = MonotonicNow();
  for (int32_t round = 1; round <= kMostRounds; ++round) {
    TimeNs alone_ns[2] = {kNever, kNever}, beside_ns[2] = {kNever, kNever};
    std::atomic<int32_t> left{1};
    absl::Status status = Time(
        all, left, [&] { return all.Encode(); }, &alone_ns[0]);
    left = 1;
    if (status.ok())
      status = Time(
          all, left, [&] { return all.Prefill(); }, &alone_ns[1]);
    if (status.ok()) status = TimeParts(encoder, stage, &beside_ns[0], &beside_ns[1]);
    if (!status.ok()) return status;
    encode_all.Add(alone_ns[0]);
    prefill_all.Add(alone_ns[1]);
    encode_part.Add(beside_ns[0]);
    prefill_part.Add(beside_ns[1]);
    const bool sure = encode_all.confirmed() && prefill_all.confirmed() &&
                      encode_part.confirmed() && prefill_part.confirmed();
    const TimeNs enough_ns = sure ? kLeastNs : kMostNs;
    if (round >= kLeastRounds && MonotonicNow() - begin_ns > enough_ns) break;
  }
  const auto over = [](const LeastTime& whole, const LeastTime& part) {
    return static_cast<double>(whole.ns()) / static_cast<double>(part.ns());
  };
  return CoreScaling{over(encode_all, encode_part), over(prefill_all, prefill_part)};
}

}  // namespace

void LeastTime::Add(TimeNs ns) {
  second_ns_ = std::min(second_ns_, std::max(least_ns_, ns));
  least_ns_ = std::min(least_ns_, ns);
}

bool LeastTime::confirmed() const {
  return second_ns_ != kNever && second_ns_ - least_ns_ <= least_ns_ / 32;
}

bool SharingLosesLess(const CoreScaling& scaling) {
  return scaling.encode + scaling.prefill <= 1 / std::min(scaling.encode, scaling.prefill);
}

absl::StatusOr<CoreScaling> MeasureScaling(const ModelEngineOptions& options,
                                           const std::shared_ptr<const cpu::CpuModel>& model,
                                           absl::Span<const int> usable) {
  ModelEngineOptions placed = options;
  placed.worker_cores.clear();
  placed.worker_threads.clear();
  const StageLayers layers{0, model->config().text.num_layers};
  placed.encoders = kSharedEncoder;
  const auto shared = PlaceWorkers(placed, {&layers, 1}, usable);
  if (!shared.ok()) return shared.status();
  placed.encoders = 1;
  const auto split = PlaceWorkers(placed, {&layers, 1}, usable);
  if (!split.ok()) return split.status();
  absl::StatusOr<CoreScaling> result = absl::InternalError("the placement was not measured");
  absl::Status guarded;
  {
    // A thread of its own: the caller's keeps the cores that it had.
    const Thread thread("rserve-probe", [&] {
      guarded = RunGuarded("measuring the placement", [&] {
        Probe all(model, shared->front());
        Probe stage(model, split->front()), encoder(model, split->back());
        result = Measure(all, encoder, stage);
      });
    });
  }
  if (!guarded.ok()) return guarded;
  return result;
}

std::optional<int32_t> EncodersWithoutMeasuring(const ModelEngineOptions& options,
                                                absl::Span<const int> usable) {
  if (options.scheme != Scheme::kAdaptive || options.encoders != 0) return options.encoders;
  if (options.backend != Backend::kCpu || options.tensor_parallel > 1) return 1;
  if (options.stages > 1) return 1;
  const size_t listed = std::max(options.worker_cores.size(), options.worker_threads.size());
  if (listed > 0) return listed == 1 ? kSharedEncoder : 1;
  const size_t threads = options.threads > 0 ? static_cast<size_t>(options.threads) : usable.size();
  if (threads < 2) return kSharedEncoder;
  return std::nullopt;
}

absl::StatusOr<int32_t> MeasureEncoders(const ModelEngineOptions& options,
                                        const std::shared_ptr<const cpu::CpuModel>& model,
                                        absl::Span<const int> usable, std::string* reason) {
  const absl::StatusOr<CoreScaling> scaling = MeasureScaling(options, model, usable);
  if (!scaling.ok()) return scaling.status();
  const bool shared = SharingLosesLess(*scaling);
  *reason = absl::StrFormat(
      "%s: with all cores encoding takes %.2f and prefill %.2f of the time on half of them",
      shared ? "encoder and stage share all cores" : "cores split between encoder and stage",
      scaling->encode, scaling->prefill);
  return shared ? kSharedEncoder : 1;
}

}  // namespace rserve::runtime
