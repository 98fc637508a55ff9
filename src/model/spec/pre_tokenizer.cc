#include "src/model/spec/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/model/spec/qwen_split.h"
#include "src/model/spec/utf8.h"

namespace rserve::model {
namespace {

constexpr size_t kMaxPatternBytes = 4096;
// A match sees so many bytes at first, and twice as many whenever it wants to look behind their
// end. All that it is shown is counted, so that a pattern which looks far ahead for every short
// piece ends with an error, not after the square of the text's length. Patterns like GPT-2's, which
// cut off what they look at, need 32 a byte in the worst text (pieces of one byte).
constexpr size_t kFirstWindow = 32;
constexpr uint64_t kMinBudget = uint64_t{1} << 20;
constexpr uint64_t kBudgetPerByte = 64;
// Backtracking steps allowed to one match: a floor, and so many for each byte that it sees. The
// patterns above need about two a byte in the worst text (a run of spaces).
constexpr uint64_t kMinSteps = 1024;
constexpr uint64_t kStepsPerByte = 64;
constexpr uint32_t kHeapLimitKiB = 64 * 1024;
constexpr size_t kJitStackStart = 32 * 1024;
constexpr size_t kJitStackMax = 1024 * 1024;

// The members of Unicode's White_Space, which is what Oniguruma's \s means.
constexpr char kWhiteSpace[] =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}"
    "\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";

struct FreeCode {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
};
struct FreeContext {
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
};
struct FreeStack {
  void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
};

// Rewrites an Oniguruma pattern for PCRE2 (see the class comment).
absl::StatusOr<std::string> Translate(std::string_view pattern) {
  std::string out;
  int in_class = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escape = pattern[++i];
      if (escape == 's') {
        absl::StrAppend(&out, in_class > 0 ? "" : "[", kWhiteSpace, in_class > 0 ? "" : "]");
      } else if (escape == 'S' && in_class == 0) {
        absl::StrAppend(&out, "[^", kWhiteSpace, "]");
      } else if (std::string_view("SwWbBdDhH").find(escape) != std::string_view::npos) {
        return absl::UnimplementedError(
            absl::StrCat("pre_tokenizer pattern: \\", std::string(1, escape), " is not supported"));
      } else {
        out.push_back(c);
        out.push_back(escape);
      }
      continue;
    }
    if (c == '[') ++in_class;
    if (c == ']') --in_class;
    if (in_class > 1) {
      return absl::UnimplementedError("pre_tokenizer pattern: nested classes are not supported");
    }
    out.push_back(c);
  }
  return out;
}

}  // namespace

const char kGpt2Pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

struct PreTokenizer::Impl {
  std::unique_ptr<pcre2_code, FreeCode> code;
  bool jit = false;
  std::optional<bool> qwen;  // the pattern is one of qwen_split.h
};

PreTokenizer::PreTokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PreTokenizer::~PreTokenizer() = default;

absl::StatusOr<std::unique_ptr<PreTokenizer>> PreTokenizer::Compile(std::string_view pattern) {
  if (pattern.empty() || pattern.size() > kMaxPatternBytes ||
      FirstInvalidUtf8(pattern) != pattern.size()) {
    return absl::InvalidArgumentError(absl::StrCat("pre_tokenizer pattern of ", pattern.size(),
                                                   " bytes: want UTF-8 of 1 to ", kMaxPatternBytes,
                                                   " bytes"));
  }
  absl::StatusOr<std::string> translated = Translate(pattern);
  if (!translated.ok()) return translated.status();
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto impl = std::make_unique<Impl>();
  impl->qwen = IsQwenPattern(pattern);
  impl->code.reset(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr));
  if (impl->code == nullptr) {
    PCRE2_UCHAR message[120] = {};
    pcre2_get_error_message(error, message, sizeof(message));
    return absl::InvalidArgumentError(
        absl::StrCat("pre_tokenizer pattern: ", reinterpret_cast<const char*>(message)));
  }
  // Where no JIT is built in, matching interprets the pattern.
  impl->jit = pcre2_jit_compile(impl->code.get(), PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) == 0;
  return std::unique_ptr<PreTokenizer>(new PreTokenizer(std::move(impl)));
}

namespace {

// Finds the matches of one text, in order.
class Matcher {
 public:
  Matcher(const pcre2_code* code, bool jit, std::string_view text)
      : code_(code),
        jit_(jit),
        text_(text),
        budget_(kMinBudget + kBudgetPerByte * text.size()),
        match_(pcre2_match_data_create_from_pattern(code, nullptr)),
        context_(pcre2_match_context_create(nullptr)) {
    if (!ok()) return;
    pcre2_set_heap_limit(context_.get(), kHeapLimitKiB);
    if (!jit) return;
    stack_.reset(pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr));
    pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
  }
  bool ok() const { return match_ != nullptr && context_ != nullptr; }

  // The first match at or behind `from`, or an empty span at the text's end.
  absl::Status Find(size_t from, size_t* begin, size_t* end) {
    for (size_t window = kFirstWindow;; window *= 2) {
      size_t seen = window < text_.size() - from ? from + window : text_.size();
      while (seen < text_.size() && (static_cast<uint8_t>(text_[seen]) & 0xc0) == 0x80) ++seen;
      const bool whole = seen == text_.size();
      if (seen - from > budget_) {
        return absl::ResourceExhaustedError(absl::StrCat(
            "the pre_tokenizer pattern looks too far ahead: it gave up at byte ", from, " of ",
            text_.size(), ", having looked at ", kBudgetPerByte, " times as many"));
      }
      budget_ -= seen - from;
      const int rc = Match(from, seen, whole ? 0 : PCRE2_PARTIAL_HARD);
      if (!whole && (rc == PCRE2_ERROR_PARTIAL || rc == PCRE2_ERROR_NOMATCH)) continue;
      if (rc == PCRE2_ERROR_NOMATCH) {
        *begin = *end = text_.size();
        return absl::OkStatus();
      }
      if (rc < 0) {
        return absl::ResourceExhaustedError(
            absl::StrCat("the pre_tokenizer pattern gave up at byte ", from, " of ", text_.size(),
                         " (PCRE2 error ", rc, ")"));
      }
      const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match_.get());
      *begin = span[0];
      *end = span[1];
      return absl::OkStatus();
    }
  }

 private:
  int Match(size_t from, size_t end, uint32_t options) {
    const uint64_t steps = kMinSteps + kStepsPerByte * (end - from);
    pcre2_set_match_limit(context_.get(),
                          static_cast<uint32_t>(std::min<uint64_t>(steps, UINT32_MAX)));
    // The caller vouches for UTF-8; a check here would read the whole text for each piece.
    options |= PCRE2_NO_UTF_CHECK;
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text_.data());
    int rc = pcre2_match(code_, subject, end, from, options, match_.get(), context_.get());
    if (jit_ && rc == PCRE2_ERROR_JIT_STACKLIMIT) {
      rc = pcre2_match(code_, subject, end, from, options | PCRE2_NO_JIT, match_.get(),
                       context_.get());
    }
    return rc;
  }

  const pcre2_code* const code_;
  const bool jit_;
  const std::string_view text_;
  uint64_t budget_;  // bytes that matches may still be shown
  const std::unique_ptr<pcre2_match_data, FreeMatch> match_;
  const std::unique_ptr<pcre2_match_context, FreeContext> context_;
  std::unique_ptr<pcre2_jit_stack, FreeStack> stack_;
};

}  // namespace

absl::Status PreTokenizer::Split(std::string_view text,
                                 std::vector<std::string_view>* pieces) const {
  if (impl_->qwen.has_value()) {
    SplitQwen(text, *impl_->qwen, pieces);
    return absl::OkStatus();
  }
  Matcher matcher(impl_->code.get(), impl_->jit, text);
  if (!matcher.ok()) {
    return absl::ResourceExhaustedError("no memory to match the pre_tokenizer pattern");
  }
  size_t cut = 0;   // everything before it is in a piece
  size_t from = 0;  // where the next match may begin
  while (from < text.size()) {
    size_t begin = 0, end = 0;
    if (absl::Status status = matcher.Find(from, &begin, &end); !status.ok()) return status;
    if (begin == text.size()) break;
    if (end <= begin) {  // an empty match cuts nothing; step over one character
      size_t next = begin;
      NextCodePoint(text, &next);
      from = std::max(next, begin + 1);
      continue;
    }
    if (begin > cut) pieces->push_back(text.substr(cut, begin - cut));
    pieces->push_back(text.substr(begin, end - begin));
    cut = from = end;
  }
  if (cut < text.size()) pieces->push_back(text.substr(cut));
  return absl::OkStatus();
}

}  // namespace rserve::model
