#include "src/model/spec/jinja/builtins.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace rserve::model::jinja {
namespace {

absl::Status Misfit(std::string_view what, const Value& value) {
  return absl::InvalidArgumentError(
      absl::StrCat(absl::string_view(what.data(), what.size()), " of ", value.TypeName()));
}

// The arguments of a call by position or by name; every one must be taken.
class Taker {
 public:
  Taker(std::string_view call, const Arguments& arguments) : call_(call), arguments_(arguments) {}

  // The next argument, or null.
  const Value* Take(std::string_view name) {
    ++taken_;
    if (next_ < arguments_.positional.size()) return &arguments_.positional[next_++];
    for (const auto& [key, value] : arguments_.named) {
      if (key != name) continue;
      ++named_;
      return &value;
    }
    return nullptr;
  }
  // A string that may be absent; null. A fault sticks.
  const Text* TakeText(std::string_view name, bool required) {
    const Value* value = Take(name);
    if (value == nullptr || (!required && value->As<None>() != nullptr)) {
      if (required) Fail(absl::StrCat("without its argument ", View(name)));
      return nullptr;
    }
    const Text* text = value->As<Text>();
    if (text == nullptr) Fail(absl::StrCat("with ", value->TypeName(), " as ", View(name)));
    return text;
  }
  std::optional<int64_t> TakeInteger(std::string_view name, int64_t otherwise) {
    const Value* value = Take(name);
    int64_t number = otherwise;
    if (value != nullptr && !value->Integer(&number)) {
      Fail(absl::StrCat("with ", value->TypeName(), " as ", View(name)));
    }
    return number;
  }
  // After the last Take.
  absl::Status status() {
    if (next_ < arguments_.positional.size() || named_ < arguments_.named.size()) {
      Fail("with an argument that it does not know");
    }
    return status_;
  }

 private:
  static absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }
  void Fail(const std::string& what) {
    if (status_.ok()) {
      status_ = absl::InvalidArgumentError(absl::StrCat(View(call_), " ", what));
    }
  }

  const std::string_view call_;
  const Arguments& arguments_;
  size_t next_ = 0, named_ = 0;
  int taken_ = 0;
  absl::Status status_;
};

bool Contains(const std::vector<std::string_view>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Text StripText(const Text& text, const Text* chars, bool left, bool right) {
  const std::string_view set = chars == nullptr ? std::string_view() : chars->bytes();
  const Range range = Strip(text.bytes(), chars == nullptr ? nullptr : &set, left, right);
  return text.Slice(range.begin, range.end - range.begin);
}

// ASCII only: other alphabets have cases too, and a wrong one would be no error.
absl::StatusOr<Value> ChangeCase(const Text& text, bool upper) {
  std::string bytes(text.bytes());
  for (char& c : bytes) {
    if (static_cast<unsigned char>(c) >= 0x80) {
      return absl::UnimplementedError("upper and lower case beyond ASCII is not supported");
    }
    if (upper ? (c >= 'a' && c <= 'z') : (c >= 'A' && c <= 'Z')) c = static_cast<char>(c ^ 0x20);
  }
  return Value(text.WithBytes(std::move(bytes)));
}

constexpr size_t kMaxReplacedBytes = size_t{64} << 20;

absl::StatusOr<Value> Replace(const Text& text, const Text& from, const Text& to, int64_t limit) {
  if (from.empty()) return absl::UnimplementedError("replacing the empty string is not supported");
  TextBuilder out;
  size_t at = 0;
  while (limit != 0) {
    const size_t found = text.bytes().find(from.bytes(), at);
    if (found == std::string_view::npos) break;
    // The renderer counts what it gets, too late for a long text in many places.
    if (out.size() > kMaxReplacedBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("replace makes more than ", kMaxReplacedBytes, " bytes"));
    }
    out.Add(text.Slice(at, found - at));
    out.Add(to);
    at = found + from.size();
    --limit;
  }
  out.Add(text.Slice(at));
  return Value(std::move(out).Take());
}

// A part takes a hundred bytes, however short it is; Split stops behind so many and its caller
// fails.
constexpr size_t kMaxParts = size_t{1} << 16;

Value Split(const Text& text, const Text* separator, int64_t limit, bool from_right) {
  std::vector<Value> parts;
  const std::string_view bytes = text.bytes();
  if (separator == nullptr) {  // at runs of white space
    size_t at = 0;
    while (parts.size() <= kMaxParts) {
      at += Strip(bytes.substr(at), nullptr, true, false).begin;
      if (at == bytes.size()) break;
      size_t end = at;
      while (end < bytes.size() && !IsSpace(bytes, end, CharBytes(bytes, end))) {
        end += CharBytes(bytes, end);
      }
      parts.emplace_back(text.Slice(at, end - at));
      at = end;
    }
    return Value::OfList(std::move(parts));
  }
  const std::string_view cut = separator->bytes();
  if (from_right) {
    size_t end = bytes.size();
    for (; limit != 0 && parts.size() <= kMaxParts; --limit) {
      const size_t found =
          end < cut.size() ? std::string_view::npos : bytes.rfind(cut, end - cut.size());
      if (found == std::string_view::npos) break;
      parts.emplace_back(text.Slice(found + cut.size(), end - found - cut.size()));
      end = found;
    }
    parts.emplace_back(text.Slice(0, end));
    std::reverse(parts.begin(), parts.end());
    return Value::OfList(std::move(parts));
  }
  size_t at = 0;
  for (; limit != 0 && parts.size() <= kMaxParts; --limit) {
    const size_t found = bytes.find(cut, at);
    if (found == std::string_view::npos) break;
    parts.emplace_back(text.Slice(at, found - at));
    at = found + cut.size();
  }
  parts.emplace_back(text.Slice(at));
  return Value::OfList(std::move(parts));
}

absl::StatusOr<int64_t> Length(const Value& value) {
  if (const auto* text = value.As<Text>()) return static_cast<int64_t>(CountChars(text->bytes()));
  if (const auto* list = value.As<List>()) return static_cast<int64_t>((*list)->items.size());
  if (const auto* dict = value.As<Dict>()) return static_cast<int64_t>((*dict)->items.size());
  if (value.IsUndefined()) return 0;
  return Misfit("the length", value);
}

// json.dumps with ensure_ascii off. Strings keep their author; the signs around them are the
// template's.
absl::Status WriteJson(const Value& value, TextBuilder* out);

void WriteJsonText(const Text& text, TextBuilder* out) {
  out->Add("\"", true);
  size_t at = 0;
  for (const Text::Run& run : text.runs()) {
    std::string escaped;
    for (const char c : text.bytes().substr(at, run.end - at)) {
      constexpr std::string_view kPlain = "\"\\\n\r\t\b\f", kLetter = "\"\\nrtbf";
      if (const size_t which = kPlain.find(c); which != std::string_view::npos) {
        escaped += '\\';
        escaped += kLetter[which];
      } else if (static_cast<unsigned char>(c) < 0x20) {
        absl::StrAppend(&escaped, "\\u", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad4));
      } else {
        escaped += c;
      }
    }
    out->Add(escaped, run.trusted);
    at = run.end;
  }
  out->Add("\"", true);
}

absl::Status WriteJson(const Value& value, TextBuilder* out) {
  if (const auto* text = value.As<Text>()) {
    WriteJsonText(*text, out);
  } else if (const auto* list = value.As<List>()) {
    out->Add("[", true);
    for (size_t i = 0; i < (*list)->items.size(); ++i) {
      if (i > 0) out->Add(", ", true);
      if (absl::Status s = WriteJson((*list)->items[i], out); !s.ok()) return s;
    }
    out->Add("]", true);
  } else if (const auto* dict = value.As<Dict>()) {
    out->Add("{", true);
    for (size_t i = 0; i < (*dict)->items.size(); ++i) {
      if (i > 0) out->Add(", ", true);
      WriteJsonText(Text((*dict)->items[i].first, false), out);
      out->Add(": ", true);
      if (absl::Status s = WriteJson((*dict)->items[i].second, out); !s.ok()) return s;
    }
    out->Add("}", true);
  } else if (value.As<None>() != nullptr) {
    out->Add("null", true);
  } else if (const auto* flag = value.As<bool>()) {
    out->Add(*flag ? "true" : "false", true);
  } else if (value.IsNumber()) {
    absl::StatusOr<Text> number = ToText(value);
    if (!number.ok()) return number.status();
    out->Add(*number);
  } else {
    return Misfit("tojson", value);
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Join(const Value& value, const Text* separator) {
  absl::StatusOr<List> items = Iterate(value);
  if (!items.ok()) return items.status();
  TextBuilder out;
  for (size_t i = 0; i < (*items)->items.size(); ++i) {
    absl::StatusOr<Text> text = ToText((*items)->items[i]);
    if (!text.ok()) return text.status();
    if (i > 0 && separator != nullptr) out.Add(*separator);
    out.Add(*text);
  }
  return Value(std::move(out).Take());
}

Value Pairs(const Dict& dict) {
  std::vector<Value> pairs;
  for (const auto& [key, value] : dict->items) {
    pairs.push_back(Value::OfList({Value::Of(key, false), value}));
  }
  return Value::OfList(std::move(pairs));
}

absl::StatusOr<Value> EndOf(const Value& value, bool first) {
  absl::StatusOr<List> items = Iterate(value);
  if (!items.ok()) return items.status();
  if ((*items)->items.empty())
    return Value(Undefined{first ? "first of nothing" : "last of nothing"});
  return first ? (*items)->items.front() : (*items)->items.back();
}

const std::vector<std::string_view>& Filters() {
  static const auto* const names = new std::vector<std::string_view>{
      "count", "d",       "default", "first", "items",  "join",   "last", "length", "list",
      "lower", "replace", "reverse", "safe",  "string", "tojson", "trim", "upper"};
  return *names;
}
const std::vector<std::string_view>& Tests() {
  static const auto* const names = new std::vector<std::string_view>{
      "boolean", "defined", "divisibleby", "eq",       "equalto", "even", "false",
      "float",   "in",      "integer",     "iterable", "mapping", "ne",   "none",
      "number",  "odd",     "sameas",      "sequence", "string",  "true", "undefined"};
  return *names;
}
const std::vector<std::string_view>& Methods() {
  static const auto* const names = new std::vector<std::string_view>{
      "endswith", "find",   "get",   "items",      "keys",  "lower", "lstrip", "replace",
      "rsplit",   "rstrip", "split", "startswith", "strip", "upper", "values"};
  return *names;
}

}  // namespace

bool IsFilter(std::string_view name) { return Contains(Filters(), name); }
bool IsTest(std::string_view name) { return Contains(Tests(), name); }
bool IsMethod(std::string_view name) { return Contains(Methods(), name); }

absl::StatusOr<Value> ApplyFilter(std::string_view name, const Value& value,
                                  const Arguments& arguments) {
  Taker take(name, arguments);
  if (name == "default" || name == "d") {
    const Value* other = take.Take("default_value");
    const Value* falsy = take.Take("boolean");
    if (absl::Status s = take.status(); !s.ok()) return s;
    const bool missing =
        value.IsUndefined() || (falsy != nullptr && falsy->Truthy() && !value.Truthy());
    if (!missing) return value;
    return other == nullptr ? Value(Text()) : *other;
  }
  if (name == "join") {
    const Text* separator = take.TakeText("d", false);
    if (absl::Status s = take.status(); !s.ok()) return s;
    return Join(value, separator);
  }
  if (name == "trim" || name == "replace") {
    absl::StatusOr<Text> text = ToText(value);
    if (!text.ok()) return text.status();
    if (name == "trim") {
      const Text* chars = take.TakeText("chars", false);
      if (absl::Status s = take.status(); !s.ok()) return s;
      return Value(StripText(*text, chars, true, true));
    }
    const Text* from = take.TakeText("old", true);
    const Text* to = take.TakeText("new", true);
    const std::optional<int64_t> count = take.TakeInteger("count", -1);
    if (absl::Status s = take.status(); !s.ok()) return s;
    return Replace(*text, *from, *to, *count);
  }
  if (absl::Status s = take.status(); !s.ok()) return s;  // the rest takes none
  if (name == "length" || name == "count") {
    absl::StatusOr<int64_t> length = Length(value);
    if (!length.ok()) return length.status();
    return Value(*length);
  }
  if (name == "tojson") {
    TextBuilder out;
    if (absl::Status s = WriteJson(value, &out); !s.ok()) return s;
    return Value(std::move(out).Take());
  }
  if (name == "first" || name == "last") return EndOf(value, name == "first");
  if (name == "items") {
    if (value.IsUndefined()) return Value::OfList({});
    const auto* dict = value.As<Dict>();
    return dict == nullptr ? Misfit("items", value) : absl::StatusOr<Value>(Pairs(*dict));
  }
  if (name == "list" || name == "reverse") {
    absl::StatusOr<List> items = Iterate(value);
    if (!items.ok()) return items.status();
    if (name == "list") return Value(*items);
    if (value.As<Text>() != nullptr) return Misfit("reverse", value);
    return Value::OfList({(*items)->items.rbegin(), (*items)->items.rend()});
  }
  absl::StatusOr<Text> text = ToText(value);
  if (!text.ok()) return text.status();
  if (name == "upper" || name == "lower") return ChangeCase(*text, name == "upper");
  return Value(*std::move(text));  // string, safe: nothing is escaped anyway
}

absl::StatusOr<bool> ApplyTest(std::string_view name, const Value& value,
                               const Arguments& arguments) {
  Taker take(name, arguments);
  const bool compares = name == "eq" || name == "equalto" || name == "ne" || name == "sameas" ||
                        name == "in" || name == "divisibleby";
  const Value* other = compares ? take.Take("other") : nullptr;
  if (absl::Status s = take.status(); !s.ok()) return s;
  int64_t integer = 0;
  if (compares) {
    if (other == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the test ", absl::string_view(name.data(), name.size()), " without a value"));
    }
    if (name == "in") return jinja::Contains(*other, value);
    if (name == "ne") return !Equal(value, *other);
    if (name == "divisibleby") {
      int64_t by = 0;
      if (!value.Integer(&integer) || !other->Integer(&by) || by == 0 || by == -1) {
        return Misfit("divisibleby", value);
      }
      return integer % by == 0;
    }
    if (name == "sameas" && (value.As<Text>() != nullptr || value.As<List>() != nullptr)) {
      return absl::UnimplementedError("sameas of strings and lists is not supported");
    }
    return Equal(value, *other) &&
           (name != "sameas" || (value.As<bool>() != nullptr) == (other->As<bool>() != nullptr));
  }
  if (name == "odd" || name == "even") {
    if (!value.Integer(&integer)) return Misfit(name, value);
    return (integer % 2 != 0) == (name == "odd");
  }
  if (name == "defined") return !value.IsUndefined();
  if (name == "undefined") return value.IsUndefined();
  if (name == "none") return value.As<None>() != nullptr;
  if (name == "string") return value.As<Text>() != nullptr;
  if (name == "mapping") return value.As<Dict>() != nullptr;
  if (name == "boolean") return value.As<bool>() != nullptr;
  if (name == "true") return value.As<bool>() != nullptr && *value.As<bool>();
  if (name == "false") return value.As<bool>() != nullptr && !*value.As<bool>();
  if (name == "integer") return value.As<int64_t>() != nullptr;
  if (name == "float") return value.As<double>() != nullptr;
  if (name == "number") return value.IsNumber();
  // iterable, sequence
  return value.As<Text>() != nullptr || value.As<List>() != nullptr ||
         value.As<Dict>() != nullptr || value.IsUndefined();
}

absl::StatusOr<Value> CallMethod(std::string_view name, const Value& value,
                                 const Arguments& arguments) {
  Taker take(name, arguments);
  if (const auto* dict = value.As<Dict>()) {
    if (name == "get") {
      const Text* key = take.TakeText("key", true);
      const Value* other = take.Take("default");
      if (absl::Status s = take.status(); !s.ok()) return s;
      const Value* found = (*dict)->Find(key->bytes());
      if (found != nullptr) return *found;
      return other == nullptr ? Value(None()) : *other;
    }
    if (absl::Status s = take.status(); !s.ok()) return s;
    if (name == "items") return Pairs(*dict);
    std::vector<Value> out;
    for (const auto& [key, item] : (*dict)->items) {
      out.push_back(name == "keys" ? Value::Of(key, false) : item);
    }
    if (name == "keys" || name == "values") return Value::OfList(std::move(out));
  }
  const auto* text = value.As<Text>();
  if (text == nullptr || name == "get" || name == "items" || name == "keys" || name == "values") {
    return Misfit(absl::StrCat("the method ", absl::string_view(name.data(), name.size())), value);
  }
  if (name == "upper" || name == "lower") {
    if (absl::Status s = take.status(); !s.ok()) return s;
    return ChangeCase(*text, name == "upper");
  }
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const Text* chars = take.TakeText("chars", false);
    if (absl::Status s = take.status(); !s.ok()) return s;
    return Value(StripText(*text, chars, name != "rstrip", name != "lstrip"));
  }
  if (name == "split" || name == "rsplit") {
    const Text* separator = take.TakeText("sep", false);
    const std::optional<int64_t> limit = take.TakeInteger("maxsplit", -1);
    if (absl::Status s = take.status(); !s.ok()) return s;
    if (separator == nullptr && *limit >= 0) {
      return absl::UnimplementedError("split at white space with maxsplit is not supported");
    }
    if (separator != nullptr && separator->empty()) {
      return absl::InvalidArgumentError("split at an empty string");
    }
    Value parts = Split(*text, separator, *limit, name == "rsplit");
    if ((*parts.As<List>())->items.size() > kMaxParts) {
      return absl::ResourceExhaustedError(
          absl::StrCat("split gives more than ", kMaxParts, " parts"));
    }
    return parts;
  }
  if (name == "replace") {
    const Text* from = take.TakeText("old", true);
    const Text* to = take.TakeText("new", true);
    const std::optional<int64_t> count = take.TakeInteger("count", -1);
    if (absl::Status s = take.status(); !s.ok()) return s;
    return Replace(*text, *from, *to, *count);
  }
  const Text* part = take.TakeText("text", true);  // startswith, endswith, find
  if (absl::Status s = take.status(); !s.ok()) return s;
  if (name == "find") {
    const size_t found = text->bytes().find(part->bytes());
    return Value(found == std::string_view::npos
                     ? int64_t{-1}
                     : static_cast<int64_t>(CountChars(text->bytes().substr(0, found))));
  }
  const std::string_view bytes = text->bytes(), wanted = part->bytes();
  if (wanted.size() > bytes.size()) return Value(false);
  return Value(bytes.substr(name == "startswith" ? 0 : bytes.size() - wanted.size(),
                            wanted.size()) == wanted);
}

absl::StatusOr<Text> ToText(const Value& value) {
  if (const auto* text = value.As<Text>()) return *text;
  if (value.IsUndefined()) return Text();
  if (value.As<None>() != nullptr) return Text("None", true);
  if (const auto* flag = value.As<bool>()) return Text(*flag ? "True" : "False", true);
  if (const auto* integer = value.As<int64_t>()) return Text(absl::StrCat(*integer), true);
  if (const auto* number = value.As<double>()) {
    if (!std::isfinite(*number)) {
      return absl::UnimplementedError("printing a float that is not finite is not supported");
    }
    char digits[40];
    const auto end = std::to_chars(digits, digits + sizeof(digits), *number).ptr;
    std::string text(digits, static_cast<size_t>(end - digits));
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return Text(std::move(text), true);
  }
  return absl::UnimplementedError(absl::StrCat("printing ", value.TypeName(), " is not supported"));
}

absl::StatusOr<bool> Contains(const Value& value, const Value& needle) {
  if (const auto* text = value.As<Text>()) {
    const auto* part = needle.As<Text>();
    if (part == nullptr) return Misfit("'in' a string", needle);
    return text->bytes().find(part->bytes()) != std::string_view::npos;
  }
  if (const auto* dict = value.As<Dict>()) {
    const auto* key = needle.As<Text>();
    return key != nullptr && (*dict)->Find(key->bytes()) != nullptr;
  }
  absl::StatusOr<List> items = Iterate(value);
  if (!items.ok()) return items.status();
  return std::any_of((*items)->items.begin(), (*items)->items.end(),
                     [&](const Value& item) { return Equal(item, needle); });
}

absl::StatusOr<List> Iterate(const Value& value) {
  if (const auto* list = value.As<List>()) return *list;
  auto items = std::make_shared<Values>();
  if (const auto* dict = value.As<Dict>()) {
    for (const auto& [key, item] : (*dict)->items) items->items.push_back(Value::Of(key, false));
  } else if (const auto* text = value.As<Text>()) {
    // A value for each character takes a hundred times its bytes.
    if (text->size() > size_t{1} << 16) {
      return absl::ResourceExhaustedError("going over the characters of more than 65536 bytes");
    }
    for (size_t at = 0; at < text->size();) {
      const size_t length = CharBytes(text->bytes(), at);
      items->items.emplace_back(text->Slice(at, length));
      at += length;
    }
  } else if (!value.IsUndefined()) {
    return Misfit("going over the items", value);
  }
  return List(std::move(items));
}

}  // namespace rserve::model::jinja
