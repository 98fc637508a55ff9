#include "tools/rserve/options.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tools/rserve/text.h"

namespace rserve::tool {
namespace {

constexpr size_t kHelpColumn = 34;
constexpr size_t kHelpWidth = 100;

absl::Status Invalid(absl::string_view name, absl::string_view value, absl::string_view want) {
  return absl::InvalidArgumentError(absl::StrCat("--", name, ": '", value, "' is not ", want));
}

// Number of single-character edits between two names, for "did you mean".
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

absl::Status ParseBytes(absl::string_view text, int64_t* bytes) {
  int64_t factor = 1;
  absl::string_view digits = text;
  if (!digits.empty()) {
    const char suffix = absl::ascii_toupper(static_cast<unsigned char>(digits.back()));
    if (suffix == 'K') factor = int64_t{1} << 10;
    if (suffix == 'M') factor = int64_t{1} << 20;
    if (suffix == 'G') factor = int64_t{1} << 30;
    if (factor != 1) digits.remove_suffix(1);
  }
  int64_t value = 0;
  if (!absl::SimpleAtoi(digits, &value) || value < 0 || value > INT64_MAX / factor) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not a number of bytes (like 1048576, 64M or 2G)"));
  }
  *bytes = value * factor;
  return absl::OkStatus();
}

absl::Status ParseSize(absl::string_view text, int64_t* width, int64_t* height) {
  const std::vector<absl::string_view> sides = absl::StrSplit(text, 'x');
  int64_t w = 0, h = 0;
  if (sides.size() != 2 || !absl::SimpleAtoi(sides[0], &w) || !absl::SimpleAtoi(sides[1], &h) ||
      w < 1 || h < 1 || w > 1 << 20 || h > 1 << 20) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a size like 640x480"));
  }
  *width = w;
  *height = h;
  return absl::OkStatus();
}

void OptionTable::Positional(std::string name, std::string* value, std::string help) {
  places_.push_back({std::move(name), value, std::move(help)});
}

void OptionTable::Section(std::string title) { section_ = std::move(title); }

void OptionTable::Add(Option option) {
  option.section = section_;
  options_.push_back(std::move(option));
}

void OptionTable::Switch(std::string name, bool* value, std::string help) {
  const std::string default_text = *value ? "on" : "";
  Add({name, "", default_text, std::move(help), [value](absl::string_view text) {
         *value = text == "1";
         return absl::OkStatus();
       }});
}

void OptionTable::String(std::string name, std::string metavar, std::string* value,
                         std::string help) {
  Add({name, std::move(metavar), *value, std::move(help), [value](absl::string_view text) {
         *value = std::string(text);
         return absl::OkStatus();
       }});
}

void OptionTable::Strings(std::string name, std::string metavar, std::vector<std::string>* values,
                          std::string help) {
  Add({name, std::move(metavar), "", std::move(help), [values](absl::string_view text) {
         values->emplace_back(text);
         return absl::OkStatus();
       }});
}

void OptionTable::List(std::string name, std::string metavar, std::vector<std::string>* values,
                       std::string help) {
  Add({name, std::move(metavar), absl::StrJoin(*values, ","), std::move(help),
       [name, values](absl::string_view text) {
         std::vector<std::string> parts = absl::StrSplit(text, ',');
         for (std::string& part : parts) {
           absl::StripAsciiWhitespace(&part);
           if (part.empty()) return Invalid(name, text, "a comma-separated list");
         }
         *values = std::move(parts);
         return absl::OkStatus();
       }});
}

void OptionTable::Int(std::string name, std::string metavar, int64_t min, int64_t max,
                      int64_t* value, std::string help) {
  Add({name, std::move(metavar), absl::StrCat(*value), std::move(help),
       [name, min, max, value](absl::string_view text) {
         int64_t number = 0;
         if (!absl::SimpleAtoi(text, &number)) return Invalid(name, text, "a whole number");
         if (number < min || number > max) {
           return absl::InvalidArgumentError(
               max == INT64_MAX
                   ? absl::StrCat("--", name, ": ", number, " is below ", min)
                   : absl::StrCat("--", name, ": ", number, " is not within ", min, " .. ", max));
         }
         *value = number;
         return absl::OkStatus();
       }});
}

void OptionTable::Real(std::string name, std::string metavar, double min, double max, double* value,
                       std::string help) {
  Add({name, std::move(metavar), absl::StrCat(*value), std::move(help),
       [name, min, max, value](absl::string_view text) {
         double number = 0;
         if (!absl::SimpleAtod(text, &number) || !std::isfinite(number)) {
           return Invalid(name, text, "a number");
         }
         if (number < min || number > max) {
           return absl::InvalidArgumentError(
               absl::StrCat("--", name, ": ", text, " is not within ", min, " .. ", max));
         }
         *value = number;
         return absl::OkStatus();
       }});
}

void OptionTable::Bytes(std::string name, int64_t* value, std::string help) {
  Add({name, "BYTES", *value == INT64_MAX ? "no limit" : FormatBytes(*value), std::move(help),
       [name, value](absl::string_view text) {
         const absl::Status status = ParseBytes(text, value);
         return status.ok()
                    ? status
                    : absl::InvalidArgumentError(absl::StrCat("--", name, ": ", status.message()));
       }});
}

void OptionTable::Custom(std::string name, std::string metavar, std::string default_text,
                         std::string help, std::function<absl::Status(absl::string_view)> set) {
  Add({name, std::move(metavar), std::move(default_text), std::move(help),
       [name, set = std::move(set)](absl::string_view text) {
         const absl::Status status = set(text);
         return status.ok()
                    ? status
                    : absl::InvalidArgumentError(absl::StrCat("--", name, ": ", status.message()));
       }});
}

OptionTable::Option* OptionTable::Find(absl::string_view name) {
  for (Option& option : options_) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

absl::Status OptionTable::UnknownOption(absl::string_view name) const {
  absl::string_view nearest;
  size_t best = 3;  // further away is no suggestion
  for (const Option& option : options_) {
    const size_t distance = EditDistance(name, option.name);
    if (distance < best) {
      best = distance;
      nearest = option.name;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown option --", name,
                   nearest.empty() ? "" : absl::StrCat(" (did you mean --", nearest, "?)")));
}

absl::Status OptionTable::SetNamed(absl::string_view text, absl::Span<const std::string> args,
                                   size_t* index) {
  absl::string_view name = text.substr(2);
  const size_t equals = name.find('=');
  const bool attached = equals != absl::string_view::npos;
  absl::string_view value = attached ? name.substr(equals + 1) : absl::string_view();
  name = name.substr(0, equals);

  for (Place& place : places_) {
    if (name != absl::AsciiStrToLower(place.name)) continue;
    if (!attached) {
      if (*index + 1 >= args.size()) {
        return absl::InvalidArgumentError(absl::StrCat("--", name, " needs a value"));
      }
      value = args[++*index];
    }
    *place.value = std::string(value);
    place.given = true;
    return absl::OkStatus();
  }

  Option* option = Find(name);
  if (option == nullptr && absl::ConsumePrefix(&name, "no-")) {
    option = Find(name);
    if (option != nullptr && option->metavar.empty()) {
      if (attached) {
        return absl::InvalidArgumentError(absl::StrCat("--no-", name, " takes no value"));
      }
      return option->set("0");
    }
    return UnknownOption(absl::StrCat("no-", name));
  }
  if (option == nullptr) return UnknownOption(name);
  if (option->metavar.empty()) {
    if (attached) return absl::InvalidArgumentError(absl::StrCat("--", name, " takes no value"));
    return option->set("1");
  }
  if (!attached) {
    if (*index + 1 >= args.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, " needs a value (", option->metavar, ")"));
    }
    value = args[++*index];
  }
  return option->set(value);
}

absl::Status OptionTable::Parse(absl::Span<const std::string> args) {
  std::vector<absl::string_view> loose;
  bool only_loose = false;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (!only_loose && arg == "--") {
      only_loose = true;
    } else if (!only_loose && arg.size() > 2 && arg.compare(0, 2, "--") == 0) {
      if (absl::Status status = SetNamed(arg, args, &i); !status.ok()) return status;
    } else if (!only_loose && arg.size() > 1 && arg[0] == '-') {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown option ", arg, " (options begin with two dashes)"));
    } else {
      loose.push_back(arg);
    }
  }
  size_t next = 0;
  for (Place& place : places_) {
    if (place.given) continue;
    if (next == loose.size()) {
      return absl::InvalidArgumentError(absl::StrCat(place.name, " is missing: ", place.help));
    }
    *place.value = std::string(loose[next++]);
    place.given = true;
  }
  if (next < loose.size()) {
    return absl::InvalidArgumentError(absl::StrCat("'", loose[next], "' is one argument too many"));
  }
  return absl::OkStatus();
}

std::string OptionTable::PositionalUsage() const {
  std::string usage;
  for (const Place& place : places_) absl::StrAppend(&usage, place.name, " ");
  return usage;
}

std::string OptionTable::Help() const {
  std::string out;
  for (const Place& place : places_) {
    absl::StrAppend(&out,
                    HelpEntry(absl::StrCat("  ", place.name), place.help, kHelpColumn, kHelpWidth));
  }
  absl::string_view section;
  for (const Option& option : options_) {
    if (option.section != section) {
      section = option.section;
      absl::StrAppend(&out, "\n", section, ":\n");
    }
    std::string left = absl::StrCat("  --", option.name);
    if (!option.metavar.empty()) absl::StrAppend(&left, " ", option.metavar);
    std::string help = option.help;
    if (option.metavar.empty() && option.default_text == "on") {
      left = absl::StrCat("  --no-", option.name);
    } else if (!option.default_text.empty()) {
      absl::StrAppend(&help, " [", option.default_text, "]");
    }
    absl::StrAppend(&out, HelpEntry(left, help, kHelpColumn, kHelpWidth));
  }
  return out;
}

}  // namespace rserve::tool
