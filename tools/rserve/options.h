// A declarative table of a subcommand's options: one place for parsing, checks and --help.
//
//   OptionTable table;
//   table.Positional("MODEL", &model, "the model's folder");
//   table.Section("Request");
//   table.Strings("image", "FILE", &images, "a picture file; may be given several times");
//   absl::Status status = table.Parse(args);
//
// Values come as `--name value` or `--name=value`; switches as `--name` and `--no-name`. `--` ends
// the options. The variables keep their values as defaults, which --help prints.

#ifndef RSERVE_TOOLS_RSERVE_OPTIONS_H_
#define RSERVE_TOOLS_RSERVE_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace rserve::tool {

// Variables are borrowed and must outlive Parse. Names are given without the dashes.
class OptionTable {
 public:
  // A required value without a name; in the order declared. Also accepted as an option with the
  // lower-case name (`--model DIR` for "MODEL").
  void Positional(std::string name, std::string* value, std::string help);

  // A heading in --help for the options that follow.
  void Section(std::string title);

  void Switch(std::string name, bool* value, std::string help);
  void String(std::string name, std::string metavar, std::string* value, std::string help);
  // May be given several times; each adds one value.
  void Strings(std::string name, std::string metavar, std::vector<std::string>* values,
               std::string help);
  // Comma-separated: replaces the default as a whole.
  void List(std::string name, std::string metavar, std::vector<std::string>* values,
            std::string help);
  // Out of [min, max] is refused with both limits.
  void Int(std::string name, std::string metavar, int64_t min, int64_t max, int64_t* value,
           std::string help);
  void Real(std::string name, std::string metavar, double min, double max, double* value,
            std::string help);
  // A number of bytes with an optional suffix K, M or G (1024, 1024^2, 1024^3).
  void Bytes(std::string name, int64_t* value, std::string help);
  // Anything else: `set` checks and stores one value.
  void Custom(std::string name, std::string metavar, std::string default_text, std::string help,
              std::function<absl::Status(absl::string_view)> set);

  // INVALID_ARGUMENT names the option and what is wrong with it: unknown (with the nearest known
  // name), value missing, bad or out of range, a positional missing or one too many.
  absl::Status Parse(absl::Span<const std::string> args);

  // The positionals and options, with defaults, wrapped to 100 columns.
  std::string Help() const;
  // "MODEL" ..., for the usage line.
  std::string PositionalUsage() const;

 private:
  struct Option {
    std::string name;
    std::string metavar;  // empty: a switch
    std::string default_text;
    std::string help;
    std::function<absl::Status(absl::string_view)> set;
    std::string section = {};
  };
  struct Place {
    std::string name;
    std::string* value = nullptr;
    std::string help;
    bool given = false;
  };

  void Add(Option option);
  Option* Find(absl::string_view name);
  absl::Status SetNamed(absl::string_view text, absl::Span<const std::string> args, size_t* index);
  absl::Status UnknownOption(absl::string_view name) const;

  std::vector<Option> options_;
  std::vector<Place> places_;
  std::string section_ = "Options";
};

// "64M" -> 67108864. INVALID_ARGUMENT for anything but digits and one suffix, or on overflow.
absl::Status ParseBytes(absl::string_view text, int64_t* bytes);

// "640x480" -> 640, 480; both sides at least 1.
absl::Status ParseSize(absl::string_view text, int64_t* width, int64_t* height);

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_OPTIONS_H_
