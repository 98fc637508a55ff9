#include "src/model/spec/qwen_split.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "src/model/spec/utf8.h"

namespace rserve::model {
namespace {

// Every character of the class: [first, last] pairs as PCRE2 sees them in a text of all characters.
void MarkClass(const char* pattern, const std::string& all, const std::vector<char32_t>& at_byte,
               CharClass value, std::vector<CharClass>* classes) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                                   PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  pcre2_match_data* match =
      code == nullptr ? nullptr : pcre2_match_data_create_from_pattern(code, nullptr);
  size_t from = 0;
  while (match != nullptr && from < all.size() &&
         pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(all.data()), all.size(), from,
                     PCRE2_NO_UTF_CHECK, match, nullptr) > 0) {
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match);
    const char32_t end = span[1] < all.size() ? at_byte[span[1]] : char32_t{0x110000};
    // Surrogates are not in the text and stay kOther.
    for (char32_t c = at_byte[span[0]]; c < end; ++c) (*classes)[c] = value;
    from = span[1];
  }
  pcre2_match_data_free(match);
  pcre2_code_free(code);
}

bool IsUnicodeSpace(char32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// A position in valid UTF-8 text and the class of the character there.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text), classes_(CharClasses()) {}

  // The class of the character at `at`, and where the next one begins.
  CharClass Read(size_t at, size_t* next) const {
    const char* after = nullptr;
    const char32_t c = ReadValidUtf8(text_.data() + at, &after);
    *next = static_cast<size_t>(after - text_.data());
    return classes_[c];
  }

 private:
  const std::string_view text_;
  const CodePointTable<CharClass>& classes_;
};

// 's 't 're 've 'm 'll 'd in either case (and 's with the long s, which folds to it): the length of
// one that begins at `at`, which is an apostrophe; 0 for none.
size_t Contraction(std::string_view text, size_t at) {
  const auto lower = [&](size_t i) -> char {
    if (at + i >= text.size()) return 0;
    const char c = text[at + i];
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  };
  const char first = lower(1);
  switch (first) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return lower(2) == 'e' ? 3 : 0;
    case 'l':
      return lower(2) == 'l' ? 3 : 0;
    default:
      return text.substr(at + 1, 2) == "\xC5\xBF" ? 3 : 0;
  }
}

}  // namespace

const char kQwen2Pattern[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const char kQwen35Pattern[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
    "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

const CodePointTable<CharClass>& CharClasses() {
  static const CodePointTable<CharClass>* const table = [] {
    std::string all;
    std::vector<char32_t> at_byte;
    for (char32_t c = 0; c < 0x110000; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      AppendUtf8(c, &all);
      at_byte.resize(all.size(), c);
    }
    std::vector<CharClass> classes(0x110000, CharClass::kOther);
    MarkClass("\\p{L}+", all, at_byte, CharClass::kLetter, &classes);
    MarkClass("\\p{M}+", all, at_byte, CharClass::kMark, &classes);
    MarkClass("\\p{N}+", all, at_byte, CharClass::kNumber, &classes);
    for (char32_t c = 0; c <= 0x3000; ++c) {
      if (IsUnicodeSpace(c)) classes[c] = CharClass::kSpace;
    }
    classes['\r'] = classes['\n'] = CharClass::kNewline;
    return new CodePointTable<CharClass>(classes);
  }();
  return *table;
}

std::optional<bool> IsQwenPattern(std::string_view pattern) {
  if (pattern == kQwen2Pattern) return false;
  if (pattern == kQwen35Pattern) return true;
  return std::nullopt;
}

void SplitQwen(std::string_view text, bool marks_in_words, std::vector<std::string_view>* pieces) {
  const Cursor cursor(text);
  const auto in_word = [marks_in_words](CharClass c) {
    return c == CharClass::kLetter || (marks_in_words && c == CharClass::kMark);
  };
  const auto is_space = [](CharClass c) {
    return c == CharClass::kSpace || c == CharClass::kNewline;
  };
  // What ` ?[^\s\p{L}\p{N}]+` repeats; a mark is a symbol where it does not belong to words.
  const auto is_symbol = [&](CharClass c) {
    return c == CharClass::kOther || (c == CharClass::kMark && !marks_in_words);
  };
  // The first position from `at` on whose character is not of the kind.
  const auto run = [&](size_t at, const auto& kind) {
    for (size_t next = 0; at < text.size() && kind(cursor.Read(at, &next)); at = next) {
    }
    return at;
  };
  // The alternatives of the pattern in their order; exactly one matches at every position.
  const auto piece_end = [&](size_t at) -> size_t {
    if (text[at] == '\'') {
      if (const size_t length = Contraction(text, at); length != 0) return at + length;
    }
    size_t next = 0;
    const CharClass first = cursor.Read(at, &next);
    if (first == CharClass::kLetter) return run(next, in_word);
    if (first == CharClass::kNumber) return next;
    size_t after = 0;
    const CharClass second = next < text.size() ? cursor.Read(next, &after) : CharClass::kNewline;
    if (first != CharClass::kNewline && next < text.size() && in_word(second)) {
      return run(after, in_word);
    }
    if (in_word(first)) return next;  // a lone mark
    const bool led = text[at] == ' ' && next < text.size() && is_symbol(second);
    if (led || is_symbol(first)) {
      const size_t end = run(led ? after : next, is_symbol);
      return run(end, [](CharClass c) { return c == CharClass::kNewline; });
    }
    // White space: up to its last line break; else all but its last character, which goes with the
    // word that follows; else what there is.
    size_t end = at, last = at, after_break = 0;
    for (size_t i = at, step = 0; i < text.size(); i = step) {
      const CharClass c = cursor.Read(i, &step);
      if (!is_space(c)) break;
      if (c == CharClass::kNewline) after_break = step;
      last = i;
      end = step;
    }
    if (after_break != 0) return after_break;
    return end == text.size() || last == at ? end : last;
  };
  for (size_t at = 0; at < text.size();) {
    const size_t end = piece_end(at);
    pieces->push_back(text.substr(at, end - at));
    at = end;
  }
}

}  // namespace rserve::model
