// Books and checks of single actions and events. Stages: shadow_stage.cc; inputs: shadow_inputs.cc;
// what holds between steps: shadow_step.cc.

#include "tests/core/shadow_model.h"

#include <algorithm>

namespace rserve::test {

ShadowModel::ShadowModel(const OrchestratorConfig& config, Coverage* coverage)
    : config_(config), coverage_(coverage), lost_(config.workers.size(), false) {
  int32_t depths = 0;
  for (const WorkerSpec& worker : config_.workers) {
    if (worker.stage < 0) continue;
    num_stages_ = std::max(num_stages_, worker.stage + 1);
    depths += worker.depth;
  }
  stage_worker_.assign(num_stages_, -1);
  for (size_t w = 0; w < config_.workers.size(); ++w) {
    if (config_.workers[w].stage >= 0) {
      stage_worker_[config_.workers[w].stage] = static_cast<int32_t>(w);
    }
  }
  max_micro_batches_ = config_.max_micro_batches > 0 ? config_.max_micro_batches : depths;
  blocks_.resize(config_.budgets.kv_blocks);
}

bool ShadowModel::Step(Orchestrator& orchestrator, TimeNs now_ns, std::vector<Input>& inputs) {
  now_ns_ = now_ns;
  submits_.clear();
  lost_now_ = false;
  for (const Input& input : inputs) Apply(orchestrator, input);
  for (auto& request : requests_) {
    if (!request->open() || request->must_end || !DeadlinePassed(*request)) continue;
    request->must_end = true;
    Hit(static_cast<Reached>(static_cast<int32_t>(Reached::kDeadlineQueued) + Phase(*request)));
  }
  orchestrator.Step(now_ns, absl::MakeSpan(inputs), *this);
  if (violation_.empty()) CheckStep(orchestrator);
  return violation_.empty();
}

ShadowRequest* ShadowModel::Find(RequestId id) {
  for (auto& request : requests_) {
    if (request->id() == id) return request.get();
  }
  return nullptr;
}

int32_t ShadowModel::Phase(const ShadowRequest& request) const {
  for (const ShadowMicroBatch& batch : batches_) {
    for (const ShadowMicroBatch::Entry& entry : batch.entries) {
      if (entry.request == &request) return 4 + batch.stage;
    }
  }
  bool preparing = false;
  for (const ShadowUnit& unit : request.units) {
    if (unit.state == ShadowUnit::State::kEncoding) return 2;
    preparing |= unit.state == ShadowUnit::State::kPreparing;
  }
  if (preparing) return 1;
  return request.units_encoded > 0 ? 3 : 0;
}

bool ShadowModel::DeadlinePassed(const ShadowRequest& request) const {
  return request.shape.plan().deadline_ns <= now_ns_;
}

bool ShadowModel::Running(const ShadowRequest& request) const {
  return request.open() && !request.must_end && !DeadlinePassed(request);
}

bool ShadowModel::MustKeep(const ShadowRequest& request) const {
  if (!any_lost_) return Running(request);
  const bool stuck =
      any_stage_lost_ || (EncodersLeft() == 0 && request.units_encoded < request.shape.num_units());
  return Running(request) && !lost_now_ && !stuck;
}

int32_t ShadowModel::EncodersLeft() const {
  int32_t count = 0;
  for (size_t w = 0; w < lost_.size(); ++w) count += config_.workers[w].encoder && !lost_[w];
  return count;
}

int32_t ShadowModel::InputReaders(const ShadowRequest& request) const {
  const TokenKind reader = config_.prepare_lanes > 0 ? TokenKind::kPrepare : TokenKind::kEncode;
  int32_t count = 0;
  for (const OutAction& action : out_) {
    if (action.kind != reader) continue;
    for (const UnitRef unit : action.units) count += unit.request == request.id();
  }
  return count;
}

bool ShadowModel::NewToken(ActionToken token) {
  if (token == 0) Fail("6", "an action has token 0");
  if (!tokens_seen_.insert(token).second) Fail("6", "token ", token, " was given out twice");
  return violation_.empty();
}

int32_t ShadowModel::OutOn(int32_t worker) const {
  int32_t count = 0;
  for (const OutAction& action : out_) count += action.worker == worker;
  return count;
}

int32_t ShadowModel::Preparing() const { return OutOn(-1); }

bool ShadowModel::CheckSlot(int32_t worker) {
  if (worker < 0 || worker >= static_cast<int32_t>(config_.workers.size())) {
    Fail("2", "there is no worker ", worker);
  } else if (lost_[worker]) {
    Fail("6", "an action for worker ", worker, ", which is lost");
  } else if (OutOn(worker) >= config_.workers[worker].depth) {
    Fail("2", "worker ", worker, " has ", OutOn(worker), " actions already, its depth");
  }
  return violation_.empty();
}

void ShadowModel::Hold(ShadowRequest* request, int32_t index) {
  ShadowUnit& unit = request->units[index];
  const UnitPlan& plan = request->shape.plan().units[index];
  if (!unit.pixels_held) pixel_bytes_ += plan.pixel_bytes;
  if (!unit.embedding_held) {
    embedding_bytes_ += plan.embedding_bytes;
    units_held_ += 1;
  }
  unit.pixels_held = unit.embedding_held = true;
  if (pixel_bytes_ > config_.budgets.pixel_bytes) {
    Fail("4", "pixel bytes ", pixel_bytes_, " > ", config_.budgets.pixel_bytes);
  }
  if (embedding_bytes_ > config_.budgets.embedding_bytes) {
    Fail("4", "embedding bytes ", embedding_bytes_, " > ", config_.budgets.embedding_bytes);
  }
  if (units_held_ > config_.budgets.units_in_flight) {
    Fail("4", "units in flight ", units_held_, " > ", config_.budgets.units_in_flight);
  }
}

void ShadowModel::OnPrepare(const PrepareAction& action) {
  if (!NewToken(action.token)) return;
  ShadowRequest* request = Find(action.unit.request);
  if (request == nullptr || !Running(*request)) {
    return Fail("3", "prepare of r", action.unit.request, ", which has ended");
  }
  if (action.unit.unit < 0 || action.unit.unit >= request->shape.num_units()) {
    return Fail("3", "prepare of unit ", action.unit.unit, " of r", request->id());
  }
  ShadowUnit& unit = request->units[action.unit.unit];
  if (unit.state != ShadowUnit::State::kWaiting || unit.pixels_held || unit.pixels_released) {
    return Fail("3", "r", request->id(), " unit ", action.unit.unit, " is prepared again");
  }
  if (Preparing() >= config_.prepare_lanes) {
    return Fail("4", Preparing() + 1,
                " units are prepared at once, lanes: ", config_.prepare_lanes);
  }
  // E2: units are placed in prompt order.
  const int32_t rank = request->shape.rank(action.unit.unit);
  for (int32_t u = 0; u < request->shape.num_units(); ++u) {
    if (request->shape.rank(u) < rank && request->units[u].state == ShadowUnit::State::kWaiting) {
      return Fail("3", "r", request->id(), " unit ", action.unit.unit, " is prepared before unit ",
                  u, ", which comes first in the prompt");
    }
  }
  unit.state = ShadowUnit::State::kPreparing;
  if (request->times.first_prepare_ns == 0) request->times.first_prepare_ns = now_ns_;
  Hold(request, action.unit.unit);
  request->tokens_out += 1;
  out_.push_back({.kind = TokenKind::kPrepare, .token = action.token, .units = {action.unit}});
}

void ShadowModel::OnEncode(const EncodeAction& action) {
  if (!NewToken(action.token) || !CheckSlot(action.worker)) return;
  if (!config_.workers[action.worker].encoder) {
    return Fail("3", "worker ", action.worker, " hosts no encoder");
  }
  if (action.units.empty()) return Fail("3", "an encode batch is empty");
  int64_t tokens = 0;
  bool across = false;
  const bool prepare = config_.prepare_lanes > 0;
  for (const UnitRef ref : action.units) {
    ShadowRequest* request = Find(ref.request);
    if (request == nullptr || !Running(*request)) {
      return Fail("3", "r", ref.request, " unit ", ref.unit,
                  " is encoded, but its request has ended");
    }
    if (ref.unit < 0 || ref.unit >= request->shape.num_units()) {
      return Fail("3", "r", ref.request, " has no unit ", ref.unit);
    }
    ShadowUnit& unit = request->units[ref.unit];
    const bool again = unit.attempts > 0;
    const bool at_hand = prepare ? unit.state == ShadowUnit::State::kPrepared && unit.pixels_held
                                 : unit.state == ShadowUnit::State::kWaiting;
    if (!at_hand || (again && !unit.embedding_held)) {
      return Fail("3", "r", ref.request, " unit ", ref.unit, " is encoded in state ",
                  static_cast<int>(unit.state), ", attempts so far ", unit.attempts);
    }
    for (int32_t u = 0; u < request->shape.num_units(); ++u) {
      const auto state = request->units[u].state;
      if (request->shape.rank(u) < request->shape.rank(ref.unit) &&
          state != ShadowUnit::State::kEncoding && state != ShadowUnit::State::kEncoded &&
          state != ShadowUnit::State::kCovered) {
        return Fail("3", "r", ref.request, " unit ", ref.unit, " is encoded before unit ", u,
                    ", which comes first in the prompt");
      }
    }
    if (unit.embedding_released || unit.pixels_released) {
      return Fail("6", "r", ref.request, " unit ", ref.unit, " is encoded, its buffers are freed");
    }
    Hold(request, ref.unit);  // without preparation the encode is the first to hold them
    unit.state = ShadowUnit::State::kEncoding;
    unit.attempts += 1;
    if (again) Hit(Reached::kEncodeRetried);
    if (request->times.first_encode_ns == 0) request->times.first_encode_ns = now_ns_;
    across |= ref.request != action.units[0].request;
    tokens += request->shape.plan().units[ref.unit].tokens;
  }
  ShadowRequest* named = nullptr;
  for (const UnitRef ref : action.units) {
    ShadowRequest* request = Find(ref.request);
    if (request != named) request->tokens_out += 1;
    named = request;
  }
  if (tokens != action.tokens) Fail("3", "encode of ", tokens, " tokens says ", action.tokens);
  if (tokens > config_.budgets.encoder_batch_tokens) {
    Fail("4", "encoder batch tokens ", tokens, " > ", config_.budgets.encoder_batch_tokens);
  }
  if (across) {
    if (!config_.policy.encode_across_requests) Fail("3", "an encode batch holds two requests");
    Hit(Reached::kBatchAcrossRequests);
  }
  if (tokens < config_.policy.encode_batch_tokens) {
    Hit(Reached::kBatchBelowC);
    const ShadowRequest* last = Find(action.units.back().request);
    const int32_t next = last->shape.rank(action.units.back().unit) + 1;
    if (next < last->shape.num_units()) {
      const int32_t u = last->shape.prompt_order()[next];
      if (last->units[u].state == ShadowUnit::State::kPrepared &&
          tokens + last->shape.plan().units[u].tokens > config_.budgets.encoder_batch_tokens) {
        Hit(Reached::kBatchClosedByMaxTokens);
      }
    }
  }
  encode_batches_ += 1;
  out_.push_back({.kind = TokenKind::kEncode,
                  .token = action.token,
                  .worker = action.worker,
                  .units = {action.units.begin(), action.units.end()}});
}

void ShadowModel::OnReleasePixels(UnitRef ref) {
  ShadowRequest* request = Find(ref.request);
  if (request == nullptr || ref.unit < 0 || ref.unit >= request->shape.num_units()) {
    return Fail("6", "pixels of r", ref.request, " unit ", ref.unit, ", which nobody knows");
  }
  ShadowUnit& unit = request->units[ref.unit];
  if (unit.pixels_released) {
    return Fail("6", "pixels of r", ref.request, " unit ", ref.unit, " released twice");
  }
  for (const OutAction& action : out_) {
    if (action.kind == TokenKind::kStage) continue;
    if (std::find(action.units.begin(), action.units.end(), ref) != action.units.end()) {
      return Fail("6", "pixels of r", ref.request, " unit ", ref.unit, " released while token ",
                  action.token, " may touch them");
    }
  }
  // While it waits a request may find that another has written all that reads the unit.
  if (unit.state == ShadowUnit::State::kWaiting && request->open() && NoneBegun(*request)) {
    if (request->shape.end_read(ref.unit) <= MayReuse(*request)) {
      Cover(request, ref.unit);
      Hit(Reached::kUnitCoveredWhileWaiting);
    } else if (MustKeep(*request)) {
      return Fail("8", "r", ref.request, " passes over unit ", ref.unit, ", which is read up to ",
                  request->shape.end_read(ref.unit), "; written are ", MayReuse(*request));
    }
  }
  if (MustKeep(*request) && unit.state != ShadowUnit::State::kEncoded &&
      unit.state != ShadowUnit::State::kCovered) {
    return Fail("6", "pixels of r", ref.request, " unit ", ref.unit, " released before its encode");
  }
  if (unit.pixels_held) pixel_bytes_ -= request->shape.plan().units[ref.unit].pixel_bytes;
  unit.pixels_held = false;
  unit.pixels_released = true;
}

void ShadowModel::OnReleaseEmbedding(UnitRef ref) {
  ShadowRequest* request = Find(ref.request);
  if (request == nullptr || ref.unit < 0 || ref.unit >= request->shape.num_units()) {
    return Fail("6", "embedding of r", ref.request, " unit ", ref.unit, ", which nobody knows");
  }
  ShadowUnit& unit = request->units[ref.unit];
  if (unit.embedding_released) {
    return Fail("6", "embedding of r", ref.request, " unit ", ref.unit, " released twice");
  }
  for (const OutAction& action : out_) {
    if (action.kind == TokenKind::kStage) {
      for (const ShadowMicroBatch& batch : batches_) {
        if (batch.number != action.micro_batch) continue;
        for (const ShadowMicroBatch::Entry& entry : batch.entries) {
          if (entry.request == request && entry.reads &&
              request->shape.Reads(entry.chunk.begin, entry.chunk.tokens, ref.unit)) {
            return Fail("6", "embedding of r", ref.request, " unit ", ref.unit,
                        " released while token ", action.token, " of stage ", batch.stage,
                        " may read it");
          }
        }
      }
    } else if (action.kind == TokenKind::kEncode &&
               std::find(action.units.begin(), action.units.end(), ref) != action.units.end()) {
      return Fail("6", "embedding of r", ref.request, " unit ", ref.unit, " released while token ",
                  action.token, " may write it");
    }
  }
  // Before it enters a request may find that another has written what it was to write.
  const bool reused = !request->entered && request->shape.end_read(ref.unit) <= MayReuse(*request);
  if (MustKeep(*request) && !reused &&
      (unit.state != ShadowUnit::State::kEncoded ||
       request->shape.end_read(ref.unit) > request->committed)) {
    return Fail("6", "embedding of r", ref.request, " unit ", ref.unit, " released when only ",
                request->committed, " tokens are committed; its last reader ends at ",
                request->shape.end_read(ref.unit));
  }
  if (unit.embedding_held) {
    embedding_bytes_ -= request->shape.plan().units[ref.unit].embedding_bytes;
    units_held_ -= 1;
  }
  unit.embedding_held = false;
  unit.embedding_released = true;
}

void ShadowModel::OnMicroBatchDropped(uint64_t micro_batch) {
  for (size_t i = 0; i < batches_.size(); ++i) {
    ShadowMicroBatch& batch = batches_[i];
    if (batch.number != micro_batch) continue;
    if (batch.out) return Fail("6", "mb", micro_batch, " dropped while its token is out");
    for (const ShadowMicroBatch::Entry& entry : batch.entries) {
      if (entry.request != nullptr && !batch.failed && MustKeep(*entry.request)) {
        return Fail("6", "mb", micro_batch, " dropped, but r", entry.request->id(), " is open");
      }
    }
    for (const ShadowMicroBatch::Entry& entry : batch.entries) {
      if (entry.request != nullptr) entry.request->chunks_in_flight -= 1;
    }
    batches_.erase(batches_.begin() + static_cast<std::ptrdiff_t>(i));
    Hit(Reached::kMicroBatchDropped);
    return;
  }
  Fail("6", "mb", micro_batch, " dropped, but it is not on its way");
}

void ShadowModel::OnForget(RequestId id) {
  ShadowRequest* request = Find(id);
  if (request == nullptr || !request->accepted) {
    return Fail("6", "r", id, " forgotten, but nobody knows it");
  }
  if (!request->ended) return Fail("6", "r", id, " forgotten before its terminal event");
  if (request->tokens_out > 0) {
    return Fail("6", "r", id, " forgotten while ", request->tokens_out, " tokens name it");
  }
  for (size_t u = 0; u < request->units.size(); ++u) {
    if (request->units[u].embedding_held || request->units[u].pixels_held) {
      return Fail("6", "r", id, " forgotten, but buffers of unit ", u, " are held");
    }
  }
  for (ShadowMicroBatch& batch : batches_) {
    for (ShadowMicroBatch::Entry& entry : batch.entries) {
      if (entry.request == request) entry.request = nullptr;
    }
  }
  for (const int32_t block : request->kv_table) std::erase(blocks_[block].owners, request);
  requests_.erase(std::find_if(requests_.begin(), requests_.end(),
                               [&](const auto& other) { return other.get() == request; }));
}

}  // namespace rserve::test
