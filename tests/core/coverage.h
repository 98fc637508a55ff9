// Counts which situations the random sequences have reached. A test that never meets a full budget
// proves nothing about it, so random_order_test requires that none of these stays at zero.

#ifndef RSERVE_TESTS_CORE_COVERAGE_H_
#define RSERVE_TESTS_CORE_COVERAGE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace rserve::test {

enum class Reached : int32_t {
  // The one limit that stood in the way.
  kBlockedByEmbeddingBytes,
  kBlockedByPixelBytes,
  kBlockedByUnits,
  kBlockedByKvBlocks,
  kBlockedByLanes,
  kBlockedByInFlightLimit,
  kBatchClosedByMaxTokens,
  kBudgetBCutAChunk,
  kRefusedByQueue,
  kRefusedByInputBytes,
  kRefusedNeverFits,
  kRefusedMalformed,
  kRefusedDuplicateId,
  kRefusedAfterDrain,
  kIdReused,
  // The state of a request when it was cancelled, and when its deadline ended it.
  kCancelQueued,
  kCancelPreparing,
  kCancelEncoding,
  kCancelReady,
  kCancelPrefill0,
  kCancelPrefill1,
  kCancelPrefill2,
  kCancelPrefill3,
  kCancelLingering,
  kCancelUnknown,
  kDeadlineQueued,
  kDeadlinePreparing,
  kDeadlineEncoding,
  kDeadlineReady,
  kDeadlinePrefill0,
  kDeadlinePrefill1,
  kDeadlinePrefill2,
  kDeadlinePrefill3,
  // Failures.
  kPrepareFailed,
  kEncodeBatchFailed,
  kEncodeUnitFailed,
  kEncodeRetried,
  kEncodeRetryHelped,
  kEncodeRetriesUsedUp,
  kStageFailed0,
  kStageFailed1,
  kStageFailed2,
  kStageFailed3,
  kEncoderLost,
  kStageLost,
  kDrained,
  kAborted,
  kStaleToken,
  kDuplicateToken,
  kWrongKindOfToken,
  // Ways to run.
  kFinishedTextOnly,
  kFinishedWithItems,
  kFinishedWholeRequestGate,
  kFinishedOneRequestSharing,
  kFinishedOneChunkInFlight,
  kFinishedEncodeOnFirstChunk,
  kFinishedEncodeOnChunk,
  kFinishedEncodeAllAtOnce,
  kAtomicSpanTaken,
  kRepeatedRowsTaken,
  kLateReader,
  kBatchAcrossRequests,
  kBatchBelowC,
  kManyRequestsInMicroBatch,
  kPassedRequestWithoutTokens,
  kManyChunksInFlight,
  kEndedEntryOnLaterStage,
  kMicroBatchDropped,
  kLargerThanEmbeddingBudget,
  kFinishedShortestFirst,
  kFinishedFeasibleFirst,
  kFinishedSquareRootBudget,
  kFinishedAdaptiveEncodeBatch,
  kOlderRequestPassed,
  // Reuse of KV.
  kPrefixReused,
  kPrefixReusedAtEntry,
  kUnitCovered,
  kUnitCoveredWhileWaiting,
  kUnitPartlyCovered,
  kBlockSharedInUse,
  kKvEvicted,
  kCount,
};

inline constexpr int32_t kReachedCount = static_cast<int32_t>(Reached::kCount);

class Coverage {
 public:
  void Hit(Reached what) { ++counts_[static_cast<int32_t>(what)]; }
  int64_t count(Reached what) const { return counts_[static_cast<int32_t>(what)]; }
  // Names of what was never reached.
  std::vector<std::string> Missing() const;
  std::string Table() const;

 private:
  std::array<int64_t, kReachedCount> counts_ = {};
};

// `base` is the first of four or more values in a row, one for each stage.
inline Reached OfStage(Reached base, int32_t stage) {
  return static_cast<Reached>(static_cast<int32_t>(base) + stage);
}

}  // namespace rserve::test

#endif  // RSERVE_TESTS_CORE_COVERAGE_H_
