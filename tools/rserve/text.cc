#include "tools/rserve/text.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "src/model/spec/utf8.h"

namespace rserve::tool {

std::string FormatBytes(int64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  // %.3g of 1000..1023 would fall into the exponent form.
  return value >= 1000 ? absl::StrFormat("%.0f %s", value, kUnits[unit])
                       : absl::StrFormat("%.3g %s", value, kUnits[unit]);
}

std::string FormatMs(int64_t ns) {
  const double ms = static_cast<double>(ns) / 1e6;
  const int digits = std::fabs(ms) < 10 ? 2 : std::fabs(ms) < 1000 ? 1 : 0;
  return absl::StrFormat("%.*f ms", digits, ms);
}

std::string FormatCount(int64_t count) {
  const std::string digits = absl::StrCat(count < 0 ? -count : count);
  std::string out = count < 0 ? "-" : "";
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ' ';
    out += digits[i];
  }
  return out;
}

std::string FormatFixed(double value, int digits) { return absl::StrFormat("%.*f", digits, value); }

std::string FormatPercent(double fraction) { return absl::StrFormat("%.1f %%", 100 * fraction); }

size_t DisplayWidth(absl::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string Printable(absl::string_view text) {
  const std::string_view utf8(text.data(), text.size());
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    const size_t begin = at;
    const char32_t c = model::NextCodePoint(utf8, &at);
    if (c == model::kInvalidCodePoint) {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(text[at++]));
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c < 0x20 || (c >= 0x7F && c < 0xA0)) {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned>(c));
    } else {
      out.append(utf8.substr(begin, at - begin));
    }
  }
  return out;
}

std::string HelpEntry(absl::string_view left, absl::string_view help, size_t column, size_t width) {
  std::string out(left);
  size_t at = out.size();
  if (at + 2 > column) {
    out += '\n';
    at = 0;
  }
  out.append(column - at, ' ');
  at = column;
  bool first = true;
  for (absl::string_view word : absl::StrSplit(help, ' ', absl::SkipEmpty())) {
    if (!first && at + 1 + word.size() > width) {
      out += '\n';
      out.append(column, ' ');
      at = column;
      first = true;
    }
    if (!first) {
      out += ' ';
      ++at;
    }
    out.append(word.data(), word.size());
    at += word.size();
    first = false;
  }
  out += '\n';
  return out;
}

TextTable::TextTable(std::vector<std::string> header) { rows_.push_back(std::move(header)); }

void TextTable::Row(std::vector<std::string> cells) {
  cells.resize(rows_.front().size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::ToString() const {
  const size_t columns = rows_.front().size();
  std::vector<size_t> widths(columns, 0);
  for (const auto& row : rows_) {
    for (size_t c = 0; c < columns; ++c) widths[c] = std::max(widths[c], DisplayWidth(row[c]));
  }
  std::string out;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (size_t c = 0; c < columns; ++c) {
      const std::string padding(widths[c] - DisplayWidth(rows_[r][c]), ' ');
      if (c > 0) line += "  ";
      absl::StrAppend(&line, c == 0 ? "" : padding, rows_[r][c], c == 0 ? padding : "");
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&out, line, "\n");
    if (r == 0) {
      size_t total = 2 * (columns - 1);
      for (size_t width : widths) total += width;
      absl::StrAppend(&out, std::string(total, '-'), "\n");
    }
  }
  return out;
}

int TerminalWidth(int fallback) {
  winsize size = {};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 ||
      size.ws_col == 0) {
    return fallback;
  }
  return size.ws_col;
}

}  // namespace rserve::tool
