#include "src/model/spec/bpe.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "src/model/spec/merge_table.h"
#include "src/model/spec/word_table.h"
#include "tests/support/catch.h"

namespace rserve::model {
namespace {

using Ids = std::vector<int32_t>;

// Byte-pair merging as the words say it: the leftmost of the lowest rank, until none is left.
struct NaiveBpe {
  absl::flat_hash_map<std::pair<int32_t, int32_t>, Merge> rules;

  Ids Encode(std::string_view piece) const {
    Ids ids;
    for (const char byte : piece) ids.push_back(static_cast<uint8_t>(byte));
    while (true) {
      size_t best = 0;
      Merge merge;
      for (size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto it = rules.find({ids[i], ids[i + 1]});
        if (it == rules.end() || it->second.rank >= merge.rank) continue;
        merge = it->second;
        best = i;
      }
      if (merge.rank == Merge::kNoRule) return ids;
      ids[best] = merge.id;
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
  }
};

// Random rules over a few bytes, each of a new token, in the order in which they were found, as
// training gives them, or in any order.
struct RandomVocabulary {
  RandomVocabulary(std::mt19937* random, std::string_view alphabet, size_t rules, bool any_order) {
    std::vector<std::string> tokens;
    for (int32_t byte = 0; byte < 256; ++byte) {
      REQUIRE(bpe.AddToken(std::string(1, static_cast<char>(byte)), byte).ok());
    }
    for (const char byte : alphabet) tokens.emplace_back(1, byte);
    std::set<std::string> known(tokens.begin(), tokens.end());
    std::vector<std::pair<std::string, std::string>> pairs;
    while (pairs.size() < rules) {
      // Mostly of short tokens, or few of them would ever meet.
      const auto draw = [&] { return tokens[std::min((*random)(), (*random)()) % tokens.size()]; };
      const std::string left = draw(), right = draw();
      if (left.size() + right.size() > 40 || !known.insert(left + right).second) continue;
      tokens.push_back(left + right);
      pairs.emplace_back(left, right);
    }
    for (size_t i = 0; i < pairs.size(); ++i) {
      REQUIRE(bpe.AddToken(pairs[i].first + pairs[i].second, 256 + static_cast<int32_t>(i)).ok());
    }
    if (any_order) std::shuffle(pairs.begin(), pairs.end(), *random);
    for (size_t rank = 0; rank < pairs.size(); ++rank) {
      const auto& [left, right] = pairs[rank];
      REQUIRE(bpe.AddMerge(left, right).ok());
      naive.rules[{*bpe.Find(left), *bpe.Find(right)}] = {static_cast<int32_t>(rank),
                                                          *bpe.Find(left + right)};
    }
    REQUIRE(bpe.Finish().ok());
  }

  Bpe bpe;
  NaiveBpe naive;
};

TEST_CASE("merging gives what searching for the lowest rank again and again gives") {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const std::string_view alphabet =
        std::string_view("ab \xd0\xb0\xd1\xe4\xbb").substr(0, 1 + seed % 8);
    const size_t rules = seed % 8 == 0 ? 5 : 4 + random() % 200;
    const RandomVocabulary made(&random, alphabet, rules, seed % 3 == 0);
    std::vector<std::string> texts;
    for (int i = 0; i < 300; ++i) {
      // Around the lengths at which another way of merging begins, too.
      const size_t lengths[] = {1 + random() % 24, 1 + random() % 64, 250 + random() % 12};
      std::string text;
      for (size_t left = lengths[i % 10 == 0 ? 2 : i % 2]; left > 0; --left) {
        text += alphabet[random() % alphabet.size()];
      }
      texts.push_back(text);
    }
    // Pieces that follow one another, some of them empty.
    std::vector<std::string_view> pieces;
    Ids want;
    for (const std::string& text : texts) {
      if (random() % 16 == 0) pieces.emplace_back();
      pieces.push_back(text);
      const Ids ids = made.naive.Encode(text);
      want.insert(want.end(), ids.begin(), ids.end());
    }
    for (const std::string& text : texts) {
      Ids ids;
      made.bpe.Encode({std::string_view(text)}, &ids);
      if (ids != made.naive.Encode(text)) {
        CAPTURE(text);
        CHECK(ids == made.naive.Encode(text));
      }
    }
    Ids ids;
    made.bpe.Encode(pieces, &ids);
    CHECK((ids == want));
    // Enough pieces for the cache of words, which see each twice.
    const std::vector<std::string_view> once = pieces;
    for (int again = 0; again < 4; ++again) {
      pieces.insert(pieces.end(), once.begin(), once.end());
    }
    ids.clear();
    made.bpe.Encode(pieces, &ids);
    REQUIRE(ids.size() == 5 * want.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] != want[i % want.size()]) CHECK(ids[i] == want[i % want.size()]);
    }
  }
}

TEST_CASE("a rule of an empty token never applies") {
  Bpe bpe;
  for (int32_t byte = 0; byte < 256; ++byte) {
    REQUIRE(bpe.AddToken(std::string(1, static_cast<char>(byte)), byte).ok());
  }
  REQUIRE(bpe.AddToken("", 256).ok());
  REQUIRE(bpe.AddMerge("", "a").ok());
  REQUIRE(bpe.AddMerge("a", "").ok());
  REQUIRE(bpe.Finish().ok());
  Ids ids;
  bpe.Encode({"aa"}, &ids);
  CHECK(ids == Ids{'a', 'a'});
}

TEST_CASE("every rule is found, however many want the same place, and no other") {
  std::mt19937_64 random(5);
  absl::flat_hash_map<uint64_t, Merge> rules;
  const auto next_merge = [&] {
    return Merge{static_cast<int32_t>(rules.size()), static_cast<int32_t>(rules.size() * 3)};
  };
  while (rules.size() < 2000) rules.emplace(random() >> 16 & 0x00ffffff00ffffff, next_merge());
  // Keys of one place, many more than are looked at there.
  for (int32_t left = 1, found = 0; found < 100; ++left) {
    const uint64_t key = PairKey(left, 77);
    if (MergeTable::Hash(key) >> 52 != 1234) continue;
    rules.emplace(key, next_merge());
    ++found;
  }
  MergeTable table;
  table.Build(rules);
  for (const auto& [key, merge] : rules) {
    const Merge found = table.Find(static_cast<int32_t>(key >> 32), static_cast<int32_t>(key));
    CHECK((found.rank == merge.rank && found.id == merge.id));
  }
  for (int32_t left = 1; left < 400000; ++left) {
    if (rules.contains(PairKey(left, 77))) continue;
    if (table.Find(left, 77).rank != Merge::kNoRule) CHECK(table.Find(left, 77).rank == -1);
  }
  table.Build({});
  CHECK(table.Find(1, 2).rank == Merge::kNoRule);
}

TEST_CASE("words of all lengths are told apart and read no byte beyond them") {
  std::mt19937 random(9);
  std::vector<std::string> words;
  for (size_t size = 1; size <= PaddedWord::kMaxBytes; ++size) {
    words.emplace_back(size, '\0');
    for (size_t i = 0; i < size; ++i) {
      words.emplace_back(size, '\0');
      words.back()[i] = static_cast<char>(1 + random() % 255);
    }
  }
  WordTable table;
  table.Reserve(words.size());
  std::vector<std::unique_ptr<char[]>> exact;  // where a sanitizer sees what lies behind
  std::vector<PaddedWord> padded;
  for (const std::string& word : words) {
    exact.push_back(std::make_unique<char[]>(word.size()));
    std::copy(word.begin(), word.end(), exact.back().get());
    padded.emplace_back(std::string_view(exact.back().get(), word.size()));
    CHECK(table.Find(padded.back()) == -1);
    table.Add(padded.back(), static_cast<int32_t>(padded.size()));
  }
  size_t found = 0;
  for (size_t i = 0; i < padded.size(); ++i) {
    const int32_t id = table.Find(padded[i]);
    if (id < 0) continue;  // of many a few find no place
    CHECK(id == static_cast<int32_t>(i + 1));
    ++found;
  }
  CHECK(found >= padded.size() - 3);
}

}  // namespace
}  // namespace rserve::model
