// Text for the terminal: numbers people can read, wrapped help, aligned tables.

#ifndef RSERVE_TOOLS_RSERVE_TEXT_H_
#define RSERVE_TOOLS_RSERVE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace rserve::tool {

std::string FormatBytes(int64_t bytes);  // "640 B", "1.5 KiB", "64 MiB"
std::string FormatMs(int64_t ns);        // "0.42 ms", "12.3 ms", "1830 ms"
std::string FormatCount(int64_t count);  // "1 234 567"
std::string FormatFixed(double value, int digits);
std::string FormatPercent(double fraction);  // 0.987 -> "98.7 %"

// Terminal columns of a UTF-8 text of single-width characters.
size_t DisplayWidth(absl::string_view text);
// The text with line breaks, tabs and control characters shown as escapes; bytes that are no
// character shown as \xNN. For printing what a model or a file said.
std::string Printable(absl::string_view text);

// One entry of --help: `left`, then `help` wrapped between `column` and `width`.
std::string HelpEntry(absl::string_view left, absl::string_view help, size_t column, size_t width);

// Columns as wide as their widest cell; the first column left-aligned, the others right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header);
  // Cells beyond the header's are dropped, missing ones are empty.
  void Row(std::vector<std::string> cells);
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Columns of the terminal behind stdout; `fallback` when it is none.
int TerminalWidth(int fallback);

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_TEXT_H_
