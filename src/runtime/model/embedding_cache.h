// EmbeddingCache: encoded pictures, kept for requests that bring the same ones again, and one
// encode for those that bring the same one at the same time.
//
// The key is a SHA-256 over everything that the embedding follows from: the content's bytes, all of
// them, how they are decoded and preprocessed, the model, and the tenant's salt. So nothing short
// is compared, no address or name stands for content, and tenants with a salt share nothing.

#ifndef RSERVE_SRC_RUNTIME_MODEL_EMBEDDING_CACHE_H_
#define RSERVE_SRC_RUNTIME_MODEL_EMBEDDING_CACHE_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "rserve/cc/model_engine.h"
#include "src/model/spec/image_plan.h"
#include "src/model/spec/model_config.h"
#include "src/runtime/model/buffer_pool.h"
#include "src/runtime/model/sha256.h"
#include "src/runtime/model/unit_source.h"

namespace rserve::runtime {

// The key of a unit's embedding: of what it is made from, or of the rows that were supplied.
Digest EmbeddingKey(const UnitSource& source, const model::ImagePlan& plan,
                    const model::ImageProcessorConfig& processor, const model::ModelConfig& model,
                    const std::string& salt);

// Thread-safe. What a unit goes through:
//
//   Prepare:  Join -> kHit: nothing to prepare. kShared: the patches of another unit, which may
//             have to be waited for. kFirst: prepare, then SetPatches or Fail.
//   Encode:   Begin -> kReady: copy the rows. kEncode: encode, then SetRows or Fail. kBusy: another
//             worker encodes it; Wait, then Begin again.
//
// Who waits, waits for work that another thread is in the middle of and that waits for nothing.
class EmbeddingCache {
 public:
  // An embedding that is there, on its way, or given up.
  class Entry {
   private:
    friend class EmbeddingCache;
    enum class State : int32_t { kPreparing, kPrepared, kEncoding, kReady, kFailed };
    Digest key = {};
    int64_t rows = 0;
    State state = State::kPreparing;
    std::shared_ptr<PooledBuffer> patches;  // until its rows are there
    std::vector<float> values;              // [rows][width]
    double priority = 0;
    int64_t uses = 0;
  };
  using Handle = std::shared_ptr<Entry>;

  // `width`: numbers a row. The rows kept take at most `capacity_bytes`.
  EmbeddingCache(int64_t capacity_bytes, int64_t width);
  EmbeddingCache(const EmbeddingCache&) = delete;
  EmbeddingCache& operator=(const EmbeddingCache&) = delete;

  enum class Found : int32_t { kHit, kShared, kFirst };
  // `patches` is set for kShared. An entry of other rows than the plan's, which a full digest rules
  // out, is a miss all the same.
  Found Join(const Digest& key, int64_t rows, Handle* entry,
             std::shared_ptr<PooledBuffer>* patches);
  void SetPatches(const Handle& entry, std::shared_ptr<PooledBuffer> patches);

  enum class Work : int32_t { kReady, kEncode, kBusy };
  Work Begin(const Handle& entry);
  void SetRows(const Handle& entry, absl::Span<const float> values);
  void Wait(const Handle& entry);
  // Copies rows that are ready.
  void Copy(const Handle& entry, absl::Span<float> values) const;

  // The preparation or the encode failed; those who share the entry do without it.
  void Fail(const Handle& entry);

  EmbeddingCacheStats stats() const;

 private:
  // Makes room for `bytes`, dropping what nobody holds and is worth least. False if it cannot be.
  bool MakeRoom(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsMapped(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t BytesOf(const Entry& entry) const {
    return entry.rows * width_ * static_cast<int64_t>(sizeof(float));
  }

  // While it is on its way an entry lives with the units that hold it, and is given up with the
  // last of them; when its rows are there the map keeps it.
  struct Slot {
    std::weak_ptr<Entry> entry;
    Handle kept;
  };
  struct DigestHash {
    size_t operator()(const Digest& digest) const;
  };

  const int64_t capacity_bytes_;
  const int64_t width_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  absl::flat_hash_map<Digest, Slot, DigestHash> slots_ ABSL_GUARDED_BY(mutex_);
  size_t sweep_at_ ABSL_GUARDED_BY(mutex_) = 1024;  // slots; then those of dead entries go
  // Rises to the priority of what was dropped last: what is not used again grows old against it.
  double clock_ ABSL_GUARDED_BY(mutex_) = 0;
  EmbeddingCacheStats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_EMBEDDING_CACHE_H_
