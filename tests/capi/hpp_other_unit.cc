#include "tests/capi/hpp_other_unit.h"

#include <vector>

#include "rserve/rserve.h"
#include "rserve/rserve.hpp"

rserve::capi::Request OtherUnitsRequest() {
  static const std::vector<uint8_t> pixels(24 * 16 * 3, 77);
  rserve::capi::Request request;
  request.Template("<|im_start|>").Text("Is it round?").Tokens({5, 6});
  request.Pixels(pixels.data(), pixels.size(), 24, 16, 0, /*borrow=*/true);
  return request;  // moved: what it owns keeps its address
}
