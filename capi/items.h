// Pictures of a planned request, for details and plans alike.

#ifndef RSERVE_CAPI_ITEMS_H_
#define RSERVE_CAPI_ITEMS_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "rserve/cc/model_engine.h"
#include "rserve/rserve.h"

namespace rserve::capi {

// OUT_OF_RANGE names index and number.
absl::Status WriteItem(const std::vector<ItemDetail>& items, size_t index, rserve_item* item);

// The vector's data and size, or NULL and 0. `count` is nullable.
template <typename T>
const T* Expose(const std::vector<T>* values, size_t* count) {
  const bool empty = values == nullptr || values->empty();
  if (count != nullptr) *count = empty ? 0 : values->size();
  return empty ? nullptr : values->data();
}

}  // namespace rserve::capi

#endif  // RSERVE_CAPI_ITEMS_H_
