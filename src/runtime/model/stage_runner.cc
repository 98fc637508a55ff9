#include "src/runtime/model/stage_runner.h"

#include <utility>

namespace rserve::runtime {

namespace {

// Prompts that end in one call of the backend, at most: their logits are large (a vocabulary each),
// and results do not depend on how a micro-batch is cut.
constexpr size_t kMaxLogitRows = 64;

}  // namespace

StageRunner::StageRunner(std::unique_ptr<backend::StageBackend> backend, int32_t hidden_size,
                         int32_t vocab_size, Handover* handover)
    : backend_(std::move(backend)),
      hidden_size_(hidden_size),
      vocab_size_(vocab_size),
      handover_(handover) {}

absl::Status StageRunner::Run(const StageJob& job, absl::Span<RequestState* const> states,
                              OnLogits on_logits) {
  PooledBuffer in;
  if (job.stage > 0) {
    absl::StatusOr<PooledBuffer> taken = handover_->Take(job.micro_batch);
    if (!taken.ok()) return taken.status();
    in = *std::move(taken);
  }
  PooledBuffer out;
  if (!job.last_stage) {
    absl::StatusOr<PooledBuffer> made = handover_->NewBuffer(job.tokens);
    if (!made.ok()) return made.status();
    out = *std::move(made);
  }
  int64_t row = 0;
  size_t begin = 0;
  while (begin < job.entries.size()) {
    int64_t tokens = job.entries[begin].chunk.tokens;
    size_t end = begin + 1;
    if (!job.entries[begin].ended) {
      size_t last_chunks = job.entries[begin].last_chunk ? 1 : 0;
      for (; end < job.entries.size() && !job.entries[end].ended && last_chunks < kMaxLogitRows;
           ++end) {
        tokens += job.entries[end].chunk.tokens;
        last_chunks += job.entries[end].last_chunk ? 1 : 0;
      }
      const int64_t offset = row * hidden_size_;
      const absl::Status status =
          RunEntries(job, states, begin, end, in ? in.data() + offset : nullptr,
                     out ? out.data() + offset : nullptr, on_logits);
      if (!status.ok()) return status;
    }
    row += tokens;
    begin = end;
  }
  if (out) handover_->Put(job.micro_batch, std::move(out));
  return absl::OkStatus();
}

absl::Status StageRunner::RunEntries(const StageJob& job, absl::Span<RequestState* const> states,
                                     size_t begin, size_t end, const float* hidden_in,
                                     float* hidden_out, OnLogits on_logits) {
  entries_.clear();
  slices_.clear();
  size_t num_slices = 0;
  size_t num_logits = 0;
  for (size_t i = begin; i < end; ++i) {
    num_slices += job.entries[i].embeddings.size();
    if (job.last_stage && job.entries[i].last_chunk) ++num_logits;
  }
  slices_.reserve(num_slices);  // entries point into it
  logits_.resize(num_logits * static_cast<size_t>(vocab_size_));
  backend::StageWork work;
  float* next_logits = logits_.data();
  for (size_t i = begin; i < end; ++i) {
    backend::StageEntry entry = MakeEntry(job, i, *states[i]);
    if (job.last_stage && job.entries[i].last_chunk) {
      entry.want_logits = true;
      entry.logits = next_logits;
      next_logits += vocab_size_;
    }
    work.total_tokens += entry.count;
    entries_.push_back(entry);
  }
  work.entries = entries_;
  work.hidden_in = hidden_in;
  work.hidden_out = hidden_out;
  if (absl::Status status = backend_->Forward(work); !status.ok()) return status;
  for (size_t i = begin; i < end; ++i) {
    const backend::StageEntry& entry = entries_[i - begin];
    if (!entry.want_logits) continue;
    on_logits(i, absl::MakeConstSpan(entry.logits, static_cast<size_t>(vocab_size_)));
  }
  return absl::OkStatus();
}

backend::StageEntry StageRunner::MakeEntry(const StageJob& job, size_t index,
                                           const RequestState& state) {
  const StageJobEntry& from = job.entries[index];
  backend::StageEntry entry;
  entry.begin = from.chunk.begin;
  entry.count = from.chunk.tokens;
  if (job.stage == 0) entry.token_ids = state.token_ids.data() + from.chunk.begin;
  const auto prompt_tokens = static_cast<int64_t>(state.token_ids.size());
  for (int64_t axis = 0; axis < 3; ++axis) {
    entry.positions[axis] = state.positions.data() + axis * prompt_tokens + from.chunk.begin;
  }
  const size_t first_slice = slices_.size();
  for (const EmbeddingSlice& slice : from.embeddings) {
    const UnitState& unit = state.units[static_cast<size_t>(slice.unit)];
    slices_.push_back(
        {slice.token_begin, slice.tokens, unit.embeddings.data() + slice.row_begin * hidden_size_});
  }
  entry.embeddings = absl::MakeConstSpan(slices_).subspan(first_slice);
  entry.kv_blocks = from.kv_blocks;
  return entry;
}

}  // namespace rserve::runtime
