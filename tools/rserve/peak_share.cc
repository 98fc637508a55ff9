#include "tools/rserve/peak_share.h"

#include <utility>

#include "tools/rserve/text.h"

namespace rserve::tool {

std::string AloneShare(double flop, const Medians& alone) {
  return alone.repeats > 0 ? FormatPercent(flop / alone.fma_flop) : "-";
}

void AddAlone(double flop, const Medians& alone, nlohmann::json* entry) {
  nlohmann::json out = {{"repeats", alone.repeats}};
  if (alone.repeats > 0) {
    out["seconds"] = alone.seconds;
    if (flop > 0) out["share_of_fma"] = flop / alone.fma_flop;
  }
  if (alone.speedup > 0) out["speedup"] = alone.speedup;
  (*entry)["alone"] = std::move(out);
}

}  // namespace rserve::tool
