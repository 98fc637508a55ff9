#include "src/sim/layout.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace rserve::sim {
namespace {

constexpr int32_t kMost = 64;

bool TakeNumber(std::string_view text, int32_t* number) {
  return absl::SimpleAtoi(absl::string_view(text.data(), text.size()), number) && *number >= 1 &&
         *number <= kMost;
}

}  // namespace

absl::StatusOr<Layout> ParseLayout(std::string_view name) {
  const absl::Status bad = absl::InvalidArgumentError(
      absl::StrCat("layout is \"", std::string(name),
                   "\"; want PPn, TPn, PPn+Em or TPn+Em with numbers from 1 to ", kMost));
  Layout layout;
  layout.encoders = 0;
  std::string_view model = name;
  if (const size_t plus = name.find("+E"); plus != std::string_view::npos) {
    model = name.substr(0, plus);
    if (!TakeNumber(name.substr(plus + 2), &layout.encoders)) return bad;
  }
  if (model.size() < 3) return bad;
  int32_t number = 0;
  if (!TakeNumber(model.substr(2), &number)) return bad;
  const std::string_view kind = model.substr(0, 2);
  if (kind == "PP") {
    layout.stages = number;
  } else if (kind == "TP") {
    layout.stages = 1;
    layout.ranks = number;
  } else {
    return bad;
  }
  return layout;
}

std::string LayoutName(const Layout& layout) {
  std::string name =
      layout.stages == 1 ? absl::StrCat("TP", layout.ranks) : absl::StrCat("PP", layout.stages);
  if (layout.stages > 1 && layout.ranks > 1) absl::StrAppend(&name, "xTP", layout.ranks);
  if (layout.encoders > 0) absl::StrAppend(&name, "+E", layout.encoders);
  return name;
}

std::vector<int64_t> EvenLayers(int64_t layers, int32_t stages) {
  std::vector<int64_t> split;
  for (int64_t s = 0; s < stages; ++s) {
    split.push_back(layers / stages + (s < layers % stages ? 1 : 0));
  }
  return split;
}

std::vector<int64_t> ThinFirstLayers(int64_t layers, int32_t stages, int64_t thin) {
  if (stages == 1) return {layers};
  std::vector<int64_t> split = EvenLayers(layers - thin, stages - 1);
  split.insert(split.begin(), thin);
  return split;
}

}  // namespace rserve::sim
