#include "src/model/spec/bpe.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace rserve::model {
namespace {

// Up to here a search for the lowest rank is faster than a queue.
constexpr size_t kShortPiece = 48;

// One symbol of a piece, linked to its neighbours. A symbol merged into its left neighbour is dead.
struct Symbol {
  int32_t id;
  int32_t prev;
  int32_t next;
  bool alive;
};

// A pair that may be merged: the pair's left symbol and what the merge gives.
struct Candidate {
  int32_t rank;
  int32_t position;
  int32_t merged_id;
  // The heap gives the lowest rank first, of equal ranks the leftmost.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return std::tie(a.rank, a.position) > std::tie(b.rank, b.position);
  }
};

}  // namespace

absl::Status Bpe::AddToken(std::string bytes, int32_t id, bool mergeable) {
  if (!bytes_.emplace(id, bytes).second) {
    return absl::InvalidArgumentError(absl::StrCat("model.vocab: id ", id, " is given twice"));
  }
  if (mergeable && !ids_.emplace(std::move(bytes), id).second) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.vocab: the token of id ", id, " is given twice"));
  }
  max_id_ = std::max(max_id_, id);
  return absl::OkStatus();
}

absl::Status Bpe::AddMerge(std::string_view left, std::string_view right) {
  const int32_t* left_id = Find(left);
  const int32_t* right_id = Find(right);
  const int32_t* merged = Find(std::string(left).append(right));
  if (left_id == nullptr || right_id == nullptr || merged == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.merges[", next_rank_, "]: \"", absl::CHexEscape(std::string(left)), "\" + \"",
        absl::CHexEscape(std::string(right)), "\" is not in the vocabulary"));
  }
  merges_[Key(*left_id, *right_id)] = {next_rank_++, *merged};
  return absl::OkStatus();
}

absl::Status Bpe::Finish() {
  for (int byte = 0; byte < 256; ++byte) {
    const int32_t* id = Find(std::string(1, static_cast<char>(byte)));
    if (id == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("model.vocab has no token for byte ", byte, "; a byte-level one needs all"));
    }
    byte_ids_[byte] = *id;
  }
  absl::flat_hash_set<int32_t> made;
  for (const auto& [pair, merge] : merges_) {
    if (!made.insert(merge.id).second) single_rules_ = false;
  }
  std::vector<int32_t> merged;
  words_.Reserve(ids_.size());
  for (const auto& [bytes, id] : ids_) {
    if (bytes.empty() || bytes.size() > PaddedWord::kMaxBytes) continue;
    merged.clear();
    if (!ignore_merges_) MergePiece(bytes, &merged);
    if (ignore_merges_ || (merged.size() == 1 && merged[0] == id)) {
      words_.Add(PaddedWord(bytes), id);
    }
  }
  return absl::OkStatus();
}

const std::string* Bpe::Bytes(int32_t id) const {
  const auto it = bytes_.find(id);
  return it == bytes_.end() ? nullptr : &it->second;
}

const int32_t* Bpe::Find(std::string_view bytes) const {
  const auto it = ids_.find(bytes);
  return it == ids_.end() ? nullptr : &it->second;
}

void Bpe::Encode(std::string_view piece, std::vector<int32_t>* ids, WordCache* cache) const {
  if (piece.empty()) return;
  if (piece.size() > PaddedWord::kMaxBytes) {
    EncodeLong(piece, ids);
    return;
  }
  const PaddedWord word(piece);
  if (cache != nullptr && cache->Find(word, ids)) return;
  const size_t before = ids->size();
  if (const int32_t whole = words_.Find(word); whole >= 0) {
    ids->push_back(whole);
  } else {
    EncodeLong(piece, ids);
  }
  if (cache != nullptr) cache->Put(word, absl::MakeConstSpan(*ids).subspan(before));
}

void Bpe::EncodeLong(std::string_view piece, std::vector<int32_t>* ids) const {
  if (ignore_merges_) {
    if (const int32_t* whole = Find(piece)) {
      ids->push_back(*whole);
      return;
    }
  }
  MergePiece(piece, ids);
}

void Bpe::MergePiece(std::string_view piece, std::vector<int32_t>* ids) const {
  if (single_rules_ && piece.size() <= kShortPiece) {
    EncodeShort(piece, ids);
  } else {
    EncodeWithQueue(piece, ids);
  }
}

void Bpe::EncodeShort(std::string_view piece, std::vector<int32_t>* ids) const {
  constexpr int32_t kNoRule = std::numeric_limits<int32_t>::max();
  std::array<int32_t, kShortPiece> symbols;
  std::array<Merge, kShortPiece> rules;  // of a symbol and the one after it
  size_t count = piece.size();
  const auto rule_at = [&](size_t i) -> Merge {
    if (i + 1 >= count) return {kNoRule, 0};
    const auto it = merges_.find(Key(symbols[i], symbols[i + 1]));
    return it == merges_.end() ? Merge{kNoRule, 0} : it->second;
  };
  for (size_t i = 0; i < count; ++i) symbols[i] = byte_ids_[static_cast<uint8_t>(piece[i])];
  for (size_t i = 0; i < count; ++i) rules[i] = rule_at(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (rules[i].rank < rules[best].rank) best = i;
    }
    if (rules[best].rank == kNoRule) break;
    symbols[best] = rules[best].id;
    std::copy(symbols.begin() + best + 2, symbols.begin() + count, symbols.begin() + best + 1);
    std::copy(rules.begin() + best + 2, rules.begin() + count, rules.begin() + best + 1);
    --count;
    rules[best] = rule_at(best);
    if (best > 0) rules[best - 1] = rule_at(best - 1);
  }
  ids->insert(ids->end(), symbols.begin(), symbols.begin() + count);
}

void Bpe::EncodeWithQueue(std::string_view piece, std::vector<int32_t>* ids) const {
  const int32_t count = static_cast<int32_t>(piece.size());
  std::vector<Symbol> symbols(piece.size());
  for (int32_t i = 0; i < count; ++i) {
    symbols[i] = {byte_ids_[static_cast<uint8_t>(piece[i])], i - 1, i + 1 < count ? i + 1 : -1,
                  true};
  }
  std::priority_queue<Candidate> queue;
  const auto offer = [&](int32_t left) {
    if (left < 0 || symbols[left].next < 0) return;
    const auto it = merges_.find(Key(symbols[left].id, symbols[symbols[left].next].id));
    if (it != merges_.end()) queue.push({it->second.rank, left, it->second.id});
  };
  for (int32_t i = 0; i + 1 < count; ++i) offer(i);

  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& left = symbols[top.position];
    if (!left.alive || left.next < 0) continue;
    Symbol& right = symbols[left.next];
    // Older entries of the queue may name a pair that has changed. As in the reference an entry
    // still counts when the pair that stands there now merges into the same token.
    const auto it = merges_.find(Key(left.id, right.id));
    if (it == merges_.end() || it->second.id != top.merged_id) continue;
    left.id = top.merged_id;
    left.next = right.next;
    right.alive = false;
    if (left.next >= 0) symbols[left.next].prev = top.position;
    offer(left.prev);
    offer(top.position);
  }
  for (int32_t i = 0; i >= 0; i = symbols[i].next) ids->push_back(symbols[i].id);
}

}  // namespace rserve::model
