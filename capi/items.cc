#include "capi/items.h"

#include "absl/strings/str_cat.h"
#include "capi/guard.h"
#include "capi/structs.h"

namespace rserve::capi {

absl::Status WriteItem(const std::vector<ItemDetail>& items, size_t index, rserve_item* item) {
  if (absl::Status status = CheckNotNull(item, "item"); !status.ok()) return status;
  if (index >= items.size()) {
    return absl::OutOfRangeError(
        absl::StrCat("picture ", index, " of a request with ", items.size()));
  }
  const ItemDetail& from = items[index];
  rserve_item out{};
  out.token_begin = from.token_begin;
  out.tokens = from.tokens;
  out.resized_width = from.resized_width;
  out.resized_height = from.resized_height;
  out.grid_t = from.grid_t;
  out.grid_h = from.grid_h;
  out.grid_w = from.grid_w;
  return CopyOut("rserve_item", out, sizeof(rserve_item), item);
}

}  // namespace rserve::capi
