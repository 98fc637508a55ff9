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
// Backtracking steps allowed to one match: a floor, and so many for each byte of the text. Patterns
// like Qwen2's need about two a byte in the worst text (a run of spaces).
constexpr uint64_t kMinSteps = 1'000'000;
constexpr uint64_t kStepsPerByte = 16;
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
  impl->jit = pcre2_jit_compile(impl->code.get(), PCRE2_JIT_COMPLETE) == 0;
  return std::unique_ptr<PreTokenizer>(new PreTokenizer(std::move(impl)));
}

absl::Status PreTokenizer::Split(std::string_view text,
                                 std::vector<std::string_view>* pieces) const {
  if (impl_->qwen.has_value()) {
    SplitQwen(text, *impl_->qwen, pieces);
    return absl::OkStatus();
  }
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(
      pcre2_match_data_create_from_pattern(impl_->code.get(), nullptr));
  const std::unique_ptr<pcre2_match_context, FreeContext> context(
      pcre2_match_context_create(nullptr));
  std::unique_ptr<pcre2_jit_stack, FreeStack> stack;
  if (match == nullptr || context == nullptr) {
    return absl::ResourceExhaustedError("no memory to match the pre_tokenizer pattern");
  }
  const uint64_t steps = std::max(kMinSteps, kStepsPerByte * text.size());
  pcre2_set_match_limit(context.get(),
                        static_cast<uint32_t>(std::min<uint64_t>(steps, UINT32_MAX)));
  pcre2_set_heap_limit(context.get(), kHeapLimitKiB);
  if (impl_->jit) {
    stack.reset(pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr));
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }

  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t cut = 0;   // everything before it is in a piece
  size_t from = 0;  // where the next match may begin
  while (from < text.size()) {
    // The caller vouches for UTF-8; a check here would read the whole text for each piece.
    uint32_t options = PCRE2_NO_UTF_CHECK;
    int rc = pcre2_match(impl_->code.get(), subject, text.size(), from, options, match.get(),
                         context.get());
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
      options |= PCRE2_NO_JIT;
      rc = pcre2_match(impl_->code.get(), subject, text.size(), from, options, match.get(),
                       context.get());
    }
    if (rc == PCRE2_ERROR_NOMATCH) break;
    if (rc < 0) {
      return absl::ResourceExhaustedError(absl::StrCat("the pre_tokenizer pattern gave up at byte ",
                                                       from, " of ", text.size(), " (PCRE2 error ",
                                                       rc, ")"));
    }
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match.get());
    const size_t begin = span[0];
    const size_t end = span[1];
    if (end <= begin) {  // an empty match cuts nothing; step over one character
      size_t next = from;
      NextCodePoint(text, &next);
      from = std::max(next, from + 1);
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
