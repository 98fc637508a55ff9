#include "src/runtime/model/stage_runner.h"

#include <atomic>
#include <utility>

#include "src/runtime/exception_guard.h"
#include "src/runtime/model/buffer_pool.h"
#include "src/runtime/model/sampler.h"

namespace rserve::runtime {

namespace {

// Prompts that end in one call of the backend, at most: their logits are large (a vocabulary each),
// and results do not depend on how a micro-batch is cut.
constexpr size_t kMaxLogitRows = 64;

}  // namespace

struct StageRunner::Run {
  StageJob job;
  States states;
  PooledBuffer in, out;
  OnPromptEnd on_prompt_end;
  Done done;
  std::mutex mutex;
  absl::Status status ABSL_GUARDED_BY(mutex);  // the first error
  std::atomic<int64_t> left{1};                // groups under way, and their start
};

struct StageRunner::Group {
  std::atomic<bool> over{false};
  size_t first = 0;  // entry of the job
  std::vector<backend::StageEntry> entries;
  std::vector<backend::EmbeddingSlice> slices;  // of all entries
  std::vector<float> logits;                    // [those that want them][vocab_size]
  std::vector<backend::Likeliest> likeliest;    // of prompts that end here
  backend::StageWork work;
};

StageRunner::StageRunner(std::unique_ptr<backend::StageBackend> backend, int32_t hidden_size,
                         int32_t vocab_size, int64_t max_table_blocks, Handover* handover)
    : backend_(std::move(backend)),
      finds_likeliest_(backend_->FindsLikeliest()),
      hidden_size_(hidden_size),
      vocab_size_(vocab_size),
      max_table_blocks_(max_table_blocks),
      handover_(handover) {}

StageRunner::~StageRunner() = default;

void StageRunner::Start(StageJob job, States states, OnPromptEnd on_prompt_end, Done done) {
  const auto run = std::make_shared<Run>();
  run->job = std::move(job);
  run->states = std::move(states);
  run->on_prompt_end = std::move(on_prompt_end);
  run->done = std::move(done);
  if (run->job.stage > 0) {
    absl::StatusOr<PooledBuffer> taken = handover_->Take(run->job.micro_batch);
    if (!taken.ok()) return Leave(*run, taken.status());
    run->in = *std::move(taken);
  }
  if (!run->job.last_stage) {
    absl::StatusOr<PooledBuffer> made = handover_->NewBuffer(run->job.tokens);
    if (!made.ok()) return Leave(*run, made.status());
    run->out = *std::move(made);
  }
  const std::vector<StageJobEntry>& entries = run->job.entries;
  // Also when memory runs out on the way: what is started refers to the run.
  const absl::Status status = RunGuarded("a stage", [&] {
    int64_t row = 0;
    size_t begin = 0;
    while (begin < entries.size()) {
      int64_t tokens = entries[begin].chunk.tokens;
      size_t end = begin + 1;
      if (!entries[begin].ended) {
        size_t last_chunks = entries[begin].last_chunk ? 1 : 0;
        auto blocks = static_cast<int64_t>(entries[begin].kv_blocks.size());
        for (; end < entries.size() && !entries[end].ended && last_chunks < kMaxLogitRows; ++end) {
          blocks += static_cast<int64_t>(entries[end].kv_blocks.size());
          if (blocks > max_table_blocks_) break;
          tokens += entries[end].chunk.tokens;
          last_chunks += entries[end].last_chunk ? 1 : 0;
        }
        StartGroup(run, begin, end, row);
      }
      row += tokens;
      begin = end;
    }
  });
  Leave(*run, status);
}

void StageRunner::StartGroup(const std::shared_ptr<Run>& run, size_t begin, size_t end,
                             int64_t row) {
  {
    std::lock_guard<std::mutex> lock(run->mutex);
    if (!run->status.ok()) return;
  }
  const std::vector<StageJobEntry>& entries = run->job.entries;
  const std::shared_ptr<Group> group = TakeGroup();
  group->over = false;
  group->first = begin;
  group->entries.clear();
  group->slices.clear();
  const auto ends = [&](size_t i) { return run->job.last_stage && entries[i].last_chunk; };
  const auto choose = [&](size_t i) {
    return finds_likeliest_ && TakesLikeliest(run->states[i]->sampling);
  };
  const auto wants_logits = [&](size_t i) { return !choose(i) || run->states[i]->keep_logits; };
  size_t num_slices = 0, num_ends = 0, num_logits = 0;
  for (size_t i = begin; i < end; ++i) {
    num_slices += entries[i].embeddings.size();
    if (!ends(i)) continue;
    ++num_ends;
    if (wants_logits(i)) ++num_logits;
  }
  group->slices.reserve(num_slices);  // entries point into it
  group->logits.resize(num_logits * static_cast<size_t>(vocab_size_));
  group->likeliest.resize(num_ends);
  group->work = {};
  float* next_logits = group->logits.data();
  backend::Likeliest* next_likeliest = group->likeliest.data();
  for (size_t i = begin; i < end; ++i) {
    backend::StageEntry entry = MakeEntry(*run, i, group.get());
    if (ends(i)) {
      entry.want_logits = true;
      if (choose(i)) entry.likeliest = next_likeliest++;
      if (wants_logits(i)) {
        entry.logits = next_logits;
        next_logits += vocab_size_;
      }
    }
    group->work.total_tokens += entry.count;
    group->entries.push_back(entry);
  }
  const int64_t offset = row * hidden_size_;
  group->work.entries = group->entries;
  group->work.hidden_in = run->in ? run->in.data() + offset : nullptr;
  group->work.hidden_out = run->out ? run->out.data() + offset : nullptr;
  group->work.micro_batch = run->job.micro_batch;
  group->work.first_row = row;
  run->left.fetch_add(1);
  const absl::Status guarded = RunGuarded("a stage", [&] {
    backend_->Start(group->work, [this, run, group](absl::Status status) {
      EndGroup(*run, group, std::move(status));
    });
  });
  if (!guarded.ok()) EndGroup(*run, group, guarded);
}

void StageRunner::EndGroup(Run& run, const std::shared_ptr<Group>& group, absl::Status status) {
  if (group->over.exchange(true)) return;
  if (status.ok()) {
    status = RunGuarded("the first token", [&] {
      for (size_t i = 0; i < group->entries.size(); ++i) {
        const backend::StageEntry& entry = group->entries[i];
        if (!entry.want_logits) continue;
        PromptEnd end;
        end.likeliest = entry.likeliest;
        if (entry.logits != nullptr) {
          end.logits = absl::MakeConstSpan(entry.logits, static_cast<size_t>(vocab_size_));
        }
        run.on_prompt_end(group->first + i, end);
      }
    });
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(group);
  }
  Leave(run, std::move(status));
}

void StageRunner::Leave(Run& run, absl::Status status) {
  absl::Status result;
  {
    std::lock_guard<std::mutex> lock(run.mutex);
    run.status.Update(status);
    result = run.status;
  }
  if (run.left.fetch_sub(1) > 1) return;
  if (run.in) backend_->Forget(run.job.micro_batch);
  run.in.Reset();
  if (result.ok() && run.out) {
    result =
        RunGuarded("a stage", [&] { handover_->Put(run.job.micro_batch, std::move(run.out)); });
  }
  run.out.Reset();
  run.states.clear();
  std::move(run.done)(std::move(result));
}

std::shared_ptr<StageRunner::Group> StageRunner::TakeGroup() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (idle_.empty()) {
    idle_.reserve(idle_.capacity() + 1);  // so that nothing is asked for when it comes back
    return std::make_shared<Group>();
  }
  std::shared_ptr<Group> group = std::move(idle_.back());
  idle_.pop_back();
  return group;
}

backend::StageEntry StageRunner::MakeEntry(const Run& run, size_t index, Group* group) const {
  const StageJobEntry& from = run.job.entries[index];
  const RequestState& state = *run.states[index];
  backend::StageEntry entry;
  entry.begin = from.chunk.begin;
  entry.count = from.chunk.tokens;
  if (run.job.stage == 0) entry.token_ids = state.token_ids.data() + from.chunk.begin;
  const auto prompt_tokens = static_cast<int64_t>(state.token_ids.size());
  for (int64_t axis = 0; axis < 3; ++axis) {
    entry.positions[axis] = state.positions.data() + axis * prompt_tokens + from.chunk.begin;
  }
  const size_t first_slice = group->slices.size();
  for (const EmbeddingSlice& slice : from.embeddings) {
    const UnitState& unit = state.units[static_cast<size_t>(slice.unit)];
    backend::EmbeddingSlice& to = group->slices.emplace_back();
    to.token_begin = slice.token_begin;
    to.rows = slice.tokens;
    if (unit.stored) {
      to.stored = &unit.stored;
      to.first_row = slice.row_begin;
    } else {
      to.data = unit.embeddings.data() + slice.row_begin * hidden_size_;
    }
  }
  entry.embeddings = absl::MakeConstSpan(group->slices).subspan(first_slice);
  entry.kv_blocks = from.kv_blocks;
  return entry;
}

}  // namespace rserve::runtime
