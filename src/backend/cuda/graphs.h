// Graphs: work that comes again with equal arguments is recorded once and then queued by one call,
// which is what counts where kernels are shorter than their launches.
//
// A recording holds the arguments of its launches as they were. So a body may depend on two things
// only: on what stays the same as long as the role lives, and on its Key, which holds every size
// and every pointer that changes. Pieces with equal keys get the same recording. What the pointers
// lead to may differ.

#ifndef RSERVE_SRC_BACKEND_CUDA_GRAPHS_H_
#define RSERVE_SRC_BACKEND_CUDA_GRAPHS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/backend/cuda/device.h"
#include "src/backend/cuda/queue.h"

namespace rserve::cuda {

// Keys that are remembered, with their recordings: more than the shapes of a steady load (the last
// chunks of prompts aside), and a few MB at 28 layers.
inline constexpr size_t kMaxGraphs = 32;

// Of one role's timeline, which outlives it and is through when it goes. Used by the role's thread.
template <typename Key>
class Graphs {
 public:
  Graphs() = default;
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;
  ~Graphs() {
    for (const Entry& entry : entries_) Destroy(entry);
  }

  // `max_rows`: pieces with more are never recorded; 0: none is. `depth`: pieces in flight, at
  // most.
  void Init(Timeline* timeline, int64_t max_rows, int32_t depth) {
    timeline_ = timeline;
    max_rows_ = max_rows;
    depth_ = static_cast<uint64_t>(depth);
  }

  // A piece's body, once for every piece: queued as it is, or from a recording. A key is recorded
  // when it is seen for the second time. A device that cannot record is not asked again.
  template <typename Body>
  void Run(const Key& key, int64_t rows, Queue* queue, const Body& body) {
    ++piece_;
    if (rows > max_rows_) return body(queue);
    auto found = std::find_if(entries_.begin(), entries_.end(),
                              [&](const Entry& entry) { return entry.key == key; });
    if (found == entries_.end()) {
      Remember(key);
      return body(queue);
    }
    found->used = piece_;
    if (found->graph.handle == nullptr) {
      absl::StatusOr<GraphRef> graph = Record(body);
      if (!graph.ok()) {
        max_rows_ = 0;
        return body(queue);
      }
      found->graph = *graph;
    }
    queue->Replay(found->graph);
  }

 private:
  struct Entry {
    Key key;
    GraphRef graph;     // null until the key comes again
    uint64_t used = 0;  // the last piece with it
  };

  template <typename Body>
  absl::StatusOr<GraphRef> Record(const Body& body) {
    Device* device = timeline_->device();
    if (absl::Status s = device->BeginRecording(timeline_->stream()); !s.ok()) return s;
    Queue recorded(timeline_);
    body(&recorded);
    absl::StatusOr<GraphRef> graph = device->EndRecording(timeline_->stream());
    if (graph.ok() && !recorded.status().ok()) {
      device->DestroyGraph(*graph);
      return recorded.status();
    }
    return graph;
  }

  // In the place of the key that was not used for longest, where there are many. One that a piece
  // in flight may use stays, and the new key is not remembered.
  void Remember(const Key& key) {
    if (entries_.size() < kMaxGraphs) {
      entries_.push_back({key, {}, piece_});
      return;
    }
    const auto oldest =
        std::min_element(entries_.begin(), entries_.end(),
                         [](const Entry& a, const Entry& b) { return a.used < b.used; });
    if (oldest->used + depth_ > piece_) return;
    Destroy(*oldest);
    *oldest = {key, {}, piece_};
  }

  void Destroy(const Entry& entry) {
    if (entry.graph.handle != nullptr) timeline_->device()->DestroyGraph(entry.graph);
  }

  Timeline* timeline_ = nullptr;
  int64_t max_rows_ = 0;
  uint64_t depth_ = 1;
  uint64_t piece_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_GRAPHS_H_
