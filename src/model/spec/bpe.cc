#include "src/model/spec/bpe.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace rserve::model {
namespace {

// Texts of fewer pieces repeat too few of them for a cache of words to pay.
constexpr size_t kCachedPieces = 1000;
// So many pieces before it is encoded a piece's place in the table of words is fetched.
constexpr size_t kPiecesAhead = 8;

// Pieces and ranks up to these are merged by ShortPiece, longer ones with a queue.
constexpr size_t kShortPiece = 256;
constexpr int32_t kShortRank = (1 << 24) - 1;

// A piece of at most kShortPiece symbols on its way to tokens: each at the place of its first part.
// Every place has a key, its rule's rank and itself in one number, so that the least key is the
// leftmost of the lowest rank; and the least key of 16 places is kept, so that finding the least of
// all and changing some costs a few dozen steps, whatever the length.
class ShortPiece {
 public:
  static constexpr uint32_t kNoKey = UINT32_MAX;

  // Symbols are added in their order, at least one, then their rules from left to right.
  void Add(int32_t id) { ids_[size_++] = id; }
  size_t size() const { return size_; }
  int32_t id(size_t place) const { return ids_[place]; }
  void SetRule(size_t place, const Merge& rule) {
    merged_ids_[place] = rule.id;
    keys_[place] = rule.rank == Merge::kNoRule
                       ? kNoKey
                       : static_cast<uint32_t>(rule.rank) << 8 | static_cast<uint32_t>(place);
  }
  void Finish() {
    blocks_ = (size_ + kBlock - 1) / kBlock;
    for (size_t i = size_ - 1; i < blocks_ * kBlock; ++i) keys_[i] = kNoKey;
    for (size_t i = 0; i < size_; ++i) {
      next_[i] = static_cast<uint16_t>(i + 1);
      previous_[i] = static_cast<uint16_t>(i - 1);
    }
    for (size_t block = 0; block < blocks_; ++block) Refresh(block);
  }

  // Applies rules until none is left.
  void MergeAll(const MergeTable& merges) {
    for (uint32_t least = Least(); least != kNoKey; least = Least()) {
      const size_t place = least & (kShortPiece - 1);
      const size_t gone = next_[place];
      const size_t after = next_[gone];
      ids_[place] = merged_ids_[place];
      next_[place] = static_cast<uint16_t>(after);
      keys_[gone] = kNoKey;
      const size_t before = place > 0 ? previous_[place] : place;
      // Both questions before the first answer.
      const MergeTable::Query with_before = merges.Ask(ids_[before], ids_[place]);
      if (after < size_) {
        previous_[after] = static_cast<uint16_t>(place);
        SetRule(place, merges.Find(ids_[place], ids_[after]));
      } else {
        keys_[place] = kNoKey;
      }
      if (place > 0) {
        SetRule(before, merges.Find(with_before));
        if (before / kBlock != place / kBlock) Refresh(before / kBlock);
      }
      Refresh(place / kBlock);
      if (gone / kBlock != place / kBlock) Refresh(gone / kBlock);
    }
  }

  void AppendTo(std::vector<int32_t>* ids) const {
    for (size_t place = 0; place < size_; place = next_[place]) ids->push_back(ids_[place]);
  }

 private:
  static constexpr size_t kBlock = 16;

  void Refresh(size_t block) {
    const uint32_t* keys = &keys_[block * kBlock];
    uint32_t even = keys[0], odd = keys[1];
    for (size_t i = 2; i < kBlock; i += 2) {
      even = std::min(even, keys[i]);
      odd = std::min(odd, keys[i + 1]);
    }
    least_[block] = std::min(even, odd);
  }
  uint32_t Least() const {
    uint32_t least = least_[0];
    for (size_t block = 1; block < blocks_; ++block) least = std::min(least, least_[block]);
    return least;
  }

  size_t size_ = 0;
  size_t blocks_ = 0;
  std::array<uint32_t, kShortPiece> keys_;
  std::array<uint32_t, kShortPiece / kBlock> least_;
  std::array<int32_t, kShortPiece> ids_;
  std::array<int32_t, kShortPiece> merged_ids_;  // what the rule of a place gives
  std::array<uint16_t, kShortPiece> next_;       // size_ behind the last symbol
  std::array<uint16_t, kShortPiece> previous_;
};

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
  rules_[PairKey(*left_id, *right_id)] = {next_rank_++, *merged};
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
  for (const auto& [pair, merge] : rules_) {
    if (!made.insert(merge.id).second || merge.rank > kShortRank) single_rules_ = false;
  }
  merges_.Build(rules_);
  byte_merges_.Build(rules_, byte_ids_, bytes_);
  rules_ = {};
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

void Bpe::Encode(absl::Span<const std::string_view> pieces, std::vector<int32_t>* ids) const {
  std::optional<WordCache> cache;
  if (pieces.size() >= kCachedPieces) cache.emplace();
  std::array<PaddedWord, kPiecesAhead> words;  // of the pieces to come
  const auto prepare = [&](size_t i) {
    if (i >= pieces.size() || pieces[i].empty() || pieces[i].size() > PaddedWord::kMaxBytes) return;
    PaddedWord& word = words[i % kPiecesAhead];
    word = PaddedWord(pieces[i]);
    words_.Prefetch(word);
  };
  for (size_t i = 0; i < kPiecesAhead; ++i) prepare(i);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].size() > PaddedWord::kMaxBytes) {
      EncodeLong(pieces[i], ids);
    } else if (!pieces[i].empty()) {
      EncodeWord(pieces[i], words[i % kPiecesAhead], cache.has_value() ? &*cache : nullptr, ids);
    }
    prepare(i + kPiecesAhead);
  }
}

void Bpe::EncodeWord(std::string_view piece, const PaddedWord& word, WordCache* cache,
                     std::vector<int32_t>* ids) const {
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
  if (piece.size() == 1) {
    ids->push_back(byte_ids_[static_cast<uint8_t>(piece[0])]);
  } else if (single_rules_ && piece.size() <= kShortPiece) {
    EncodeShort(piece, ids);
  } else {
    EncodeWithQueue(piece, ids);
  }
}

void Bpe::EncodeShort(std::string_view piece, std::vector<int32_t>* ids) const {
  ShortPiece symbols;
  std::array<uint8_t, kShortPiece> widths;
  const auto byte = [piece](size_t i) -> size_t {
    return i < piece.size() ? static_cast<uint8_t>(piece[i]) : ByteMerges::kNone;
  };
  for (size_t i = 0, before = ByteMerges::kNone; i < piece.size();) {
    const size_t left = byte(i), right = byte(i + 1);
    const bool pair =
        i + 1 < piece.size() && byte_merges_.MergeFirst(before, left, right, byte(i + 2));
    widths[symbols.size()] = pair ? 2 : 1;
    symbols.Add(pair ? byte_merges_.Find(left, right).id : byte_ids_[left]);
    before = pair ? right : left;
    i += pair ? 2 : 1;
  }
  for (size_t place = 0, at = 0; place + 1 < symbols.size(); at += widths[place++]) {
    const bool bytes = widths[place] == 1 && widths[place + 1] == 1;
    symbols.SetRule(place, bytes ? byte_merges_.Find(byte(at), byte(at + 1))
                                 : merges_.Find(symbols.id(place), symbols.id(place + 1)));
  }
  symbols.Finish();
  symbols.MergeAll(merges_);
  symbols.AppendTo(ids);
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
    const Merge rule = merges_.Find(symbols[left].id, symbols[symbols[left].next].id);
    if (rule.rank != Merge::kNoRule) queue.push({rule.rank, left, rule.id});
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
    const Merge rule = merges_.Find(left.id, right.id);
    if (rule.rank == Merge::kNoRule || rule.id != top.merged_id) continue;
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
