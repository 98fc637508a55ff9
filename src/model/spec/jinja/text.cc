#include "src/model/spec/jinja/text.h"

#include <algorithm>
#include <utility>

#include "src/model/spec/utf8.h"

namespace rserve::model::jinja {

Text::Text(std::string bytes, bool trusted) {
  if (bytes.empty()) return;
  auto rep = std::make_shared<Rep>();
  rep->runs.push_back({bytes.size(), trusted});
  rep->bytes = std::move(bytes);
  rep_ = std::move(rep);
}

const std::vector<Text::Run>& Text::runs() const {
  static const auto* const none = new std::vector<Run>();
  return rep_ == nullptr ? *none : rep_->runs;
}

bool Text::trusted() const {
  return std::all_of(runs().begin(), runs().end(), [](const Run& run) { return run.trusted; });
}

Text Text::Slice(size_t begin, size_t count) const {
  begin = std::min(begin, size());
  const size_t end = begin + std::min(count, size() - begin);
  if (begin == 0 && end == size()) return *this;
  TextBuilder out;
  auto run = std::upper_bound(runs().begin(), runs().end(), begin,
                              [](size_t at, const Run& one) { return at < one.end; });
  for (size_t at = begin; at < end; at = run++->end) {
    out.Add(bytes().substr(at, std::min(run->end, end) - at), run->trusted);
  }
  return std::move(out).Take();
}

Text Text::WithBytes(std::string bytes) const {
  if (rep_ == nullptr) return *this;
  auto rep = std::make_shared<Rep>();
  rep->bytes = std::move(bytes);
  rep->runs = rep_->runs;
  Text text;
  text.rep_ = std::move(rep);
  return text;
}

void TextBuilder::Add(const Text& text) {
  size_t at = 0;
  for (const Text::Run& run : text.runs()) {
    Add(text.bytes().substr(at, run.end - at), run.trusted);
    at = run.end;
  }
}

void TextBuilder::Add(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  rep_.bytes += bytes;
  if (rep_.runs.empty() || rep_.runs.back().trusted != trusted) rep_.runs.push_back({0, trusted});
  rep_.runs.back().end = rep_.bytes.size();
}

Text TextBuilder::Take() && {
  Text text;
  if (!rep_.bytes.empty()) text.rep_ = std::make_shared<const Text::Rep>(std::move(rep_));
  return text;
}

size_t CharBytes(std::string_view text, size_t at) {
  size_t next = at;
  NextCodePoint(text, &next);
  return std::max<size_t>(next - at, 1);
}

size_t CountChars(std::string_view text) {
  // Every byte that continues none.
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

bool IsSpace(std::string_view text, size_t at, size_t length) {
  size_t next = at;
  if (at + length > text.size()) return false;
  const auto c = static_cast<uint32_t>(NextCodePoint(text, &next));
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
         c == 0x205f || c == 0x3000;
}

Range Strip(std::string_view text, const std::string_view* chars, bool left, bool right) {
  const auto drop = [&](size_t at, size_t length) {
    if (chars == nullptr) return IsSpace(text, at, length);
    const std::string_view one = text.substr(at, length);
    for (size_t i = 0; i < chars->size();) {
      const size_t bytes = CharBytes(*chars, i);
      if (chars->substr(i, bytes) == one) return true;
      i += bytes;
    }
    return false;
  };
  Range range{0, text.size()};
  while (left && range.begin < range.end) {
    const size_t length = CharBytes(text, range.begin);
    if (!drop(range.begin, length)) break;
    range.begin += length;
  }
  while (right && range.begin < range.end) {
    size_t at = range.end - 1;
    while (at > range.begin && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
    if (!drop(at, range.end - at)) break;
    range.end = at;
  }
  return range;
}

}  // namespace rserve::model::jinja
