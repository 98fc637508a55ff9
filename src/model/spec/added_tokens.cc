#include "src/model/spec/added_tokens.h"

namespace rserve::model {

AddedTokenSet::AddedTokenSet() : nodes_(1) {}

void AddedTokenSet::Add(const AddedToken& token) {
  if (!token.content.empty()) starts_[static_cast<uint8_t>(token.content[0])] = true;
  int32_t node = 0;
  for (const char c : token.content) {
    const auto [it, inserted] = nodes_[node].next.emplace(c, static_cast<int32_t>(nodes_.size()));
    const int32_t child = it->second;
    if (inserted) nodes_.emplace_back();
    node = child;
  }
  nodes_[node].token = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
}

std::vector<AddedTokenSet::Segment> AddedTokenSet::Split(std::string_view text,
                                                         bool specials) const {
  std::vector<Segment> segments;
  size_t cut = 0;
  size_t pos = 0;
  while (pos < text.size()) {
    if (!starts_[static_cast<uint8_t>(text[pos])]) {
      ++pos;
      continue;
    }
    int32_t node = 0;
    int32_t best = -1;
    size_t best_end = pos;
    for (size_t i = pos; i < text.size(); ++i) {
      const auto it = nodes_[node].next.find(text[i]);
      if (it == nodes_[node].next.end()) break;
      node = it->second;
      if (nodes_[node].token >= 0) {
        best = nodes_[node].token;
        best_end = i + 1;
      }
    }
    if (best < 0) {
      ++pos;
      continue;
    }
    const AddedToken& token = tokens_[best];
    if (specials || !token.special) {
      if (pos > cut) segments.push_back({text.substr(cut, pos - cut), nullptr});
      segments.push_back({text.substr(pos, best_end - pos), &token});
      cut = best_end;
    }
    pos = best_end;
  }
  if (cut < text.size()) segments.push_back({text.substr(cut), nullptr});
  return segments;
}

}  // namespace rserve::model
