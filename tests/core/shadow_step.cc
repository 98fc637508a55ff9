// What must hold when a step is over and everything that is possible has been issued.

#include <algorithm>

#include "tests/core/shadow_model.h"

namespace rserve::test {

void ShadowModel::CheckStep(const Orchestrator& orchestrator) {
  if (!submits_.empty()) {
    return Fail("6", "the submit of r", submits_[0].id, " has no answer");
  }
  for (auto& request : requests_) {
    if (request->open() && DeadlinePassed(*request)) request->must_end = true;
  }
  CheckRequests();
  const OrchestratorStats stats = orchestrator.stats();
  if (violation_.empty()) CheckBudgets(stats);
  if (violation_.empty()) CheckStats(stats, orchestrator.idle());
  if (violation_.empty()) CheckWork();
  if (violation_.empty()) CheckEncoders();
  if (violation_.empty()) CheckStages();
  if (!violation_.empty()) return;
  if (out_.empty() && (open_ > 0 || !batches_.empty())) {
    return Fail("6", "stall: no token is out, ", open_, " requests are open and ", batches_.size(),
                " micro-batches on their way");
  }
  const TimeNs wake = orchestrator.next_wake_ns();
  if (wake <= now_ns_) {
    return Fail("6", "the next wake at ", wake, " is not after now, ", now_ns_);
  }
  for (const auto& request : requests_) {
    if (MustKeep(*request) && request->shape.plan().deadline_ns < wake) {
      return Fail("6", "the next wake at ", wake, " is after the deadline of r", request->id());
    }
  }
  if (coverage_ != nullptr) NoteBlocked();
}

void ShadowModel::CheckRequests() {
  for (const auto& request : requests_) {
    const RequestPlan& plan = request->shape.plan();
    if (request->open()) {
      if (request->must_end) {
        if (InputReaders(*request) > 0) continue;
        return Fail("6", "r", request->id(), " must have ended in this step, deadline ",
                    plan.deadline_ns);
      }
      if (!MustKeep(*request)) continue;
      if (request->prefilled == plan.prompt_tokens) {
        return Fail("6", "r", request->id(), " is through the last stage, but open");
      }
      for (int32_t u = 0; u < request->shape.num_units(); ++u) {
        const ShadowUnit& unit = request->units[u];
        if (unit.state != ShadowUnit::State::kEncoded) continue;
        if (unit.pixels_held) {
          return Fail("4", "pixels of r", request->id(), " unit ", u, " outlive its encode");
        }
        if (unit.embedding_held && request->shape.end_read(u) <= request->committed) {
          return Fail("4", "embedding of r", request->id(), " unit ", u,
                      " outlives the commit of its last reader");
        }
      }
      for (int32_t item = 0; item < plan.num_items; ++item) {
        if (request->item_encoded[item]) continue;
        bool all = true;
        for (size_t u = 0; u < plan.units.size(); ++u) {
          all &= plan.units[u].item != item || request->encoded[u];
        }
        if (all) return Fail("6", "r", request->id(), " item ", item, " is encoded, but not told");
      }
    } else if (request->tokens_out == 0) {
      const bool on_its_way =
          std::any_of(batches_.begin(), batches_.end(), [&](const ShadowMicroBatch& batch) {
            return std::any_of(batch.entries.begin(), batch.entries.end(),
                               [&](const auto& entry) { return entry.request == request.get(); });
          });
      if (!on_its_way) {
        return Fail("6", "r", request->id(), " has ended and no token names it, but it lingers");
      }
    }
  }
}

void ShadowModel::CheckBudgets(const OrchestratorStats& stats) {
  const Budgets& limit = config_.budgets;
  const auto within = [&](const char* what, int64_t told, int64_t low, int64_t high,
                          int64_t budget) {
    if (told < low || told > high) {
      Fail("4", "stats say ", what, " ", told, ", the books say ", low,
           low == high ? "" : absl::StrCat(" to ", high));
    } else if (told > budget) {
      Fail("4", what, " ", told, " > ", budget);
    }
  };
  const int64_t kv_low = KvTaken(/*surely=*/true);
  int64_t kv_high = KvTaken(/*surely=*/false) + KvHeld();
  int64_t reserve_embedding = 0, reserve_pixels = 0, reserve_units = 0;
  // A whole-request gate reserves ahead of what can be seen.
  const bool ahead = config_.policy.gate == Gate::kWholeRequest ||
                     config_.policy.trigger != EncodeTrigger::kOnArrival;
  for (const auto& request : requests_) {
    if (!request->entered && config_.policy.trigger != EncodeTrigger::kOnArrival) {
      kv_high += KvNeed(*request);  // entered, and its micro-batch waits for an encode
    }
    if (!ahead) continue;
    for (int32_t u = 0; u < request->shape.num_units(); ++u) {
      const ShadowUnit& unit = request->units[u];
      const UnitPlan& plan = request->shape.plan().units[u];
      if (!unit.embedding_held && !unit.embedding_released) {
        reserve_embedding += plan.embedding_bytes;
        reserve_units += 1;
      }
      if (!unit.pixels_held && !unit.pixels_released) reserve_pixels += plan.pixel_bytes;
    }
  }
  within("embedding bytes", stats.embedding_bytes, embedding_bytes_,
         embedding_bytes_ + reserve_embedding, limit.embedding_bytes);
  within("pixel bytes", stats.pixel_bytes, pixel_bytes_, pixel_bytes_ + reserve_pixels,
         limit.pixel_bytes);
  within("units in flight", stats.units_in_flight, units_held_, units_held_ + reserve_units,
         limit.units_in_flight);
  within("KV blocks", stats.kv_blocks_used, kv_low, kv_high, limit.kv_blocks);
  within("KV blocks, used and kept", stats.kv_blocks_used + stats.kv_blocks_cached,
         stats.kv_blocks_used, limit.kv_blocks, limit.kv_blocks);
  within("peak embedding bytes", stats.peak_embedding_bytes, stats.embedding_bytes,
         limit.embedding_bytes, limit.embedding_bytes);
  within("peak pixel bytes", stats.peak_pixel_bytes, stats.pixel_bytes, limit.pixel_bytes,
         limit.pixel_bytes);
  within("peak KV blocks", stats.peak_kv_blocks_used, stats.kv_blocks_used, limit.kv_blocks,
         limit.kv_blocks);
}

void ShadowModel::CheckStats(const OrchestratorStats& stats, bool idle) {
  const auto same = [&](const char* what, int64_t told, int64_t own) {
    if (told != own) Fail("6", "stats say ", what, " ", told, ", the books say ", own);
  };
  same("open requests", stats.open_requests, open_);
  same("lingering requests", stats.lingering_requests, known_requests() - open_);
  same("accepted", stats.accepted, accepted_);
  same("finished", stats.finished, finished_);
  same("failed", stats.failed, failed_);
  same("cancelled", stats.cancelled, cancelled_);
  same("refused", stats.refused, refused_);
  same("encode batches", stats.encode_batches, encode_batches_);
  same("micro-batches", stats.micro_batches, micro_batches_);
  same("idle", idle, requests_.empty());
  // Of one that waits for an encode after it has entered nothing is seen yet.
  if (config_.policy.trigger == EncodeTrigger::kOnArrival) {
    same("reused tokens", stats.reused_tokens, reused_tokens_);
  }
  if (stats.kv_evictions > 0) Hit(Reached::kKvEvicted);
  if (stats.stale_tokens < stale_low_ || stats.stale_tokens > stale_high_) {
    Fail("6", "stats say stale tokens ", stats.stale_tokens, ", the books say ", stale_low_);
  }
  // Input bytes are counted for open requests; those that linger may still be read.
  int64_t input_high = 0;
  for (const auto& request : requests_) input_high += request->shape.plan().input_bytes;
  if (stats.input_bytes < input_bytes_ || stats.input_bytes > input_high) {
    Fail("4", "stats say input bytes ", stats.input_bytes, ", the books say ", input_bytes_);
  }
}

// The oldest request that has not entered is held up by nothing but KV blocks, unless requests that
// have ended still hold places.
bool ShadowModel::OldestFirst(const ShadowRequest& request) const {
  for (const auto& other : requests_) {
    if (Running(*other)) continue;
    for (const ShadowUnit& unit : other->units) {
      if (unit.embedding_held || unit.pixels_held) return false;
    }
  }
  for (const auto& other : requests_) {
    if (other.get() == &request) return true;
    if (Running(*other) && !other->entered) return false;
  }
  return true;
}

void ShadowModel::CheckWork() {
  if (any_stage_lost_) return;
  const int32_t worker = stage_worker_[0];
  if (OutOn(worker) >= config_.workers[worker].depth) return;
  if (static_cast<int32_t>(batches_.size()) >= max_micro_batches_) return;
  const int64_t kv_free = config_.budgets.kv_blocks - KvTaken(/*surely=*/false) - KvHeld();
  bool all_encoded = true;
  for (const auto& request : requests_) {
    all_encoded &= !Running(*request) || request->units_encoded == request->shape.num_units();
  }
  // The stage may have to wait for an encode of its own worker.
  if (config_.policy.trigger != EncodeTrigger::kOnArrival && !all_encoded) return;
  // Or, alone on everything, for pictures that are being prepared.
  if (config_.workers.size() == 1 && config_.policy.adaptive_encode_batch && Preparing() > 0)
    return;
  const Budgets& limit = config_.budgets;
  const bool any_room = limit.embedding_bytes == INT64_MAX && limit.pixel_bytes == INT64_MAX &&
                        limit.units_in_flight == INT64_MAX;
  const bool any_open = std::any_of(requests_.begin(), requests_.end(), [](const auto& request) {
    return request->open() && request->reuse_open;
  });
  // In an order other than by arrival any of those that have not entered may be the first.
  const bool by_arrival = config_.policy.order == Order::kArrival;
  const bool all_can_enter =
      any_room && !any_open &&
      std::all_of(requests_.begin(), requests_.end(), [&](const auto& request) {
        return !MayTake(*request) || request->entered || KvNeed(*request) <= kv_free;
      });
  for (const auto& request : requests_) {
    if (request->open() && request->reuse_open && by_arrival) return;  // it may have tokens or none
    if (!MayTake(*request)) continue;
    const bool entered = request->entered;
    if (!by_arrival && !entered && !all_can_enter) continue;
    if (entered || ((any_room || OldestFirst(*request)) && KvNeed(*request) <= kv_free)) {
      return Fail("2", "stage 0 is left without a micro-batch, but r", request->id(),
                  " could give ", request->frontier - request->scheduled, " tokens");
    }
    if (!entered && by_arrival)
      return;  // it closes the entry for all behind it; the entered ones came before
  }
}

// C never waits for what cannot come (encoder_scheduler.h): where no budget is in the way, lanes
// and encoders of their own are idle only if there is nothing to prepare, to encode or to wait for.
void ShadowModel::CheckEncoders() {
  const Budgets& limit = config_.budgets;
  if (config_.policy.trigger != EncodeTrigger::kOnArrival || limit.embedding_bytes != INT64_MAX ||
      limit.pixel_bytes != INT64_MAX || limit.units_in_flight != INT64_MAX) {
    return;
  }
  bool free_encoder = false;
  for (size_t w = 0; w < config_.workers.size(); ++w) {
    const WorkerSpec& worker = config_.workers[w];
    free_encoder |= worker.encoder && worker.stage < 0 && !lost_[w] &&
                    OutOn(static_cast<int32_t>(w)) < worker.depth;
  }
  const bool lanes = config_.prepare_lanes > 0;
  const bool free_lane = lanes && Preparing() < config_.prepare_lanes;
  if (!free_encoder && !free_lane) return;
  for (const auto& request : requests_) {
    if (!MustKeep(*request)) continue;
    int32_t waiting = 0, prepared = 0, preparing = 0;
    for (const ShadowUnit& unit : request->units) {
      waiting += unit.state == ShadowUnit::State::kWaiting;
      prepared += unit.state == ShadowUnit::State::kPrepared;
      preparing += unit.state == ShadowUnit::State::kPreparing;
    }
    if (free_lane && waiting > 0) {
      return Fail("E", "a lane is idle, but r", request->id(), " has units to prepare");
    }
    const bool at_hand = lanes ? prepared > 0 && waiting + preparing == 0 : waiting > 0;
    if (free_encoder && at_hand && (Preparing() == 0 || !config_.policy.encode_across_requests)) {
      return Fail("E", "an encoder is idle, but r", request->id(), " has units to encode");
    }
  }
}

void ShadowModel::CheckStages() {
  for (const ShadowMicroBatch& batch : batches_) {
    if (batch.out) continue;
    if (batch.failed) return Fail("6", "mb", batch.number, " has failed, but was not dropped");
    if (any_stage_lost_) continue;
    const int32_t worker = stage_worker_[batch.stage + 1];
    if (OutOn(worker) < config_.workers[worker].depth) {
      return Fail("2", "mb", batch.number, " waits for stage ", batch.stage + 1,
                  ", which has a free slot");
    }
  }
}

// Which limit, alone, keeps work from being issued.
void ShadowModel::NoteBlocked() {
  const Budgets& limit = config_.budgets;
  for (const auto& request : requests_) {
    if (!Running(*request)) continue;
    for (const int32_t u : request->shape.prompt_order()) {
      const ShadowUnit& unit = request->units[u];
      if (unit.state != ShadowUnit::State::kWaiting || unit.attempts > 0) continue;
      const UnitPlan& plan = request->shape.plan().units[u];
      const bool lanes = config_.prepare_lanes > 0;
      const bool embedding = embedding_bytes_ + plan.embedding_bytes > limit.embedding_bytes;
      const bool pixels = pixel_bytes_ + plan.pixel_bytes > limit.pixel_bytes;
      const bool units = units_held_ + 1 > limit.units_in_flight;
      const bool no_lane = lanes && Preparing() >= config_.prepare_lanes;
      if (embedding + pixels + units + no_lane != 1) break;
      Hit(embedding ? Reached::kBlockedByEmbeddingBytes
          : pixels  ? Reached::kBlockedByPixelBytes
          : units   ? Reached::kBlockedByUnits
                    : Reached::kBlockedByLanes);
      break;
    }
    break;
  }
  const int32_t worker = stage_worker_[0];
  if (lost_[worker] || OutOn(worker) >= config_.workers[worker].depth) return;
  const int64_t kv_used = KvTaken(/*surely=*/false);
  for (const auto& request : requests_) {
    if (!MayTake(*request)) continue;
    if (static_cast<int32_t>(batches_.size()) >= max_micro_batches_) {
      return Hit(Reached::kBlockedByInFlightLimit);
    }
    if (!request->entered && kv_used + KvNeed(*request) > limit.kv_blocks) {
      return Hit(Reached::kBlockedByKvBlocks);
    }
  }
}

}  // namespace rserve::test
