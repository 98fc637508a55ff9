#include "src/runtime/model/embedding_cache.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <utility>

namespace rserve::runtime {

namespace {

// Changed whenever the same bytes would give another embedding.
constexpr uint64_t kKeyVersion = 2;

void AddFloat(Sha256& hash, double value) { hash.AddInt(std::bit_cast<uint64_t>(value)); }

}  // namespace

Digest EmbeddingKey(const UnitSource& source, const model::ImagePlan& plan,
                    const model::ImageProcessorConfig& processor, const model::ModelConfig& model,
                    const std::string& salt) {
  Sha256 hash;
  hash.AddInt(kKeyVersion);
  hash.AddText(salt);
  hash.AddText(model.model_type);
  for (const int64_t value :
       {int64_t{model.text.hidden_size}, int64_t{model.vision.depth},
        int64_t{model.vision.hidden_size}, int64_t{model.vision.num_heads},
        int64_t{processor.patch_size}, int64_t{processor.temporal_patch_size},
        int64_t{processor.merge_size}, int64_t{processor.do_resize}, int64_t{processor.do_rescale},
        int64_t{processor.do_normalize}, int64_t{plan.resized_height}, int64_t{plan.resized_width},
        static_cast<int64_t>(source.kind), static_cast<int64_t>(source.layout),
        int64_t{source.width}, int64_t{source.height}, int64_t{source.frames}}) {
    hash.AddInt(static_cast<uint64_t>(value));
  }
  AddFloat(hash, processor.rescale_factor);
  for (const float value : processor.image_mean) AddFloat(hash, value);
  for (const float value : processor.image_std) AddFloat(hash, value);
  switch (source.kind) {
    case SourceKind::kRows:
      hash.AddInt(static_cast<uint64_t>(source.type));
      hash.Add(source.bytes);
      return hash.Finish();
    case SourceKind::kFile:
      hash.Add(source.bytes);
      return hash.Finish();
    case SourceKind::kVideoFile:
      for (const int64_t frame : source.frame_numbers) hash.AddInt(static_cast<uint64_t>(frame));
      hash.Add(source.content->Of(source.bytes));
      return hash.Finish();
    case SourceKind::kPixels:
      break;
  }
  // Pixels without the padding of their rows and frames.
  const auto row = static_cast<size_t>(int64_t{source.width} * media::RawPixelBytes(source.layout));
  for (int32_t frame = 0; frame < source.frames; ++frame) {
    for (int32_t y = 0; y < source.height; ++y) {
      const int64_t at = frame * source.frame_stride_bytes + y * source.row_stride_bytes;
      hash.Add(source.bytes.subspan(static_cast<size_t>(at), row));
    }
  }
  return hash.Finish();
}

size_t EmbeddingCache::DigestHash::operator()(const Digest& digest) const {
  size_t value = 0;
  std::memcpy(&value, digest.data(), sizeof(value));
  return value;
}

EmbeddingCache::EmbeddingCache(int64_t capacity_bytes, int64_t width)
    : capacity_bytes_(capacity_bytes), width_(width) {
  stats_.capacity_bytes = capacity_bytes;
}

EmbeddingCache::Found EmbeddingCache::Join(const Digest& key, int64_t rows, Handle* entry,
                                           std::shared_ptr<PooledBuffer>* patches) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto it = slots_.find(key);
  const Handle found = it == slots_.end() ? nullptr : it->second.entry.lock();
  if (found != nullptr && found->rows == rows) {
    while (found->state == Entry::State::kPreparing) changed_.wait(lock);
    if (found->state != Entry::State::kFailed) {
      const bool ready = found->state == Entry::State::kReady;
      ++(ready ? stats_.hits : stats_.shared);
      found->priority = clock_ + static_cast<double>(++found->uses);
      *entry = found;
      *patches = found->patches;
      return ready ? Found::kHit : Found::kShared;
    }
  }
  ++stats_.misses;
  *entry = std::make_shared<Entry>();
  (*entry)->key = key;
  (*entry)->rows = rows;
  if (slots_.size() >= sweep_at_) {
    absl::erase_if(slots_, [](const auto& slot) { return slot.second.entry.expired(); });
    sweep_at_ = std::max<size_t>(1024, 2 * slots_.size());
  }
  Slot& slot = slots_[key];
  if (slot.entry.expired()) slot.entry = *entry;  // one of other rows stays where it is
  return Found::kFirst;
}

bool EmbeddingCache::IsMapped(const Entry& entry) const {
  const auto it = slots_.find(entry.key);
  return it != slots_.end() && it->second.entry.lock().get() == &entry;
}

void EmbeddingCache::SetPatches(const Handle& entry, std::shared_ptr<PooledBuffer> patches) {
  std::lock_guard<std::mutex> lock(mutex_);
  entry->patches = std::move(patches);
  entry->state = Entry::State::kPrepared;
  changed_.notify_all();
}

EmbeddingCache::Work EmbeddingCache::Begin(const Handle& entry) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (entry->state == Entry::State::kReady) return Work::kReady;
  if (entry->state == Entry::State::kEncoding) return Work::kBusy;
  // Prepared; or failed by another request, whose patches this one shares.
  entry->state = Entry::State::kEncoding;
  return Work::kEncode;
}

void EmbeddingCache::SetRows(const Handle& entry, absl::Span<const float> values) {
  std::vector<float> copy(values.begin(), values.end());
  std::lock_guard<std::mutex> lock(mutex_);
  entry->values = std::move(copy);
  entry->state = Entry::State::kReady;
  entry->patches.reset();
  if (IsMapped(*entry) && MakeRoom(BytesOf(*entry))) {
    slots_[entry->key].kept = entry;
    entry->priority = clock_ + static_cast<double>(++entry->uses);
    stats_.bytes += BytesOf(*entry);
    stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.bytes);
  }
  changed_.notify_all();
}

void EmbeddingCache::Wait(const Handle& entry) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (entry->state == Entry::State::kEncoding) changed_.wait(lock);
}

void EmbeddingCache::Copy(const Handle& entry, absl::Span<float> values) const {
  // Rows do not change once they are ready, and the handle keeps them.
  std::copy_n(entry->values.begin(), values.size(), values.begin());
}

void EmbeddingCache::Fail(const Handle& entry) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (entry->state == Entry::State::kReady) return;
  entry->state = Entry::State::kFailed;
  if (IsMapped(*entry)) slots_.erase(entry->key);
  changed_.notify_all();
}

bool EmbeddingCache::MakeRoom(int64_t bytes) {
  if (bytes > capacity_bytes_) return false;
  while (stats_.bytes + bytes > capacity_bytes_) {
    auto worst = slots_.end();
    for (auto it = slots_.begin(); it != slots_.end(); ++it) {
      // One reference is the map's: nobody is about to copy from it.
      const Handle& kept = it->second.kept;
      if (kept == nullptr || kept.use_count() > 1) continue;
      if (worst == slots_.end() || kept->priority < worst->second.kept->priority) worst = it;
    }
    if (worst == slots_.end()) return false;
    clock_ = worst->second.kept->priority;
    stats_.bytes -= BytesOf(*worst->second.kept);
    ++stats_.evictions;
    slots_.erase(worst);
  }
  return true;
}

EmbeddingCacheStats EmbeddingCache::stats() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

}  // namespace rserve::runtime
