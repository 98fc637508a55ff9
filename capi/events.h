// From an engine's event to the C event.

#ifndef RSERVE_CAPI_EVENTS_H_
#define RSERVE_CAPI_EVENTS_H_

#include <cstdint>

#include "rserve/cc/engine.h"
#include "rserve/rserve.h"

namespace rserve::capi {

// `item_tokens`: of the picture that the event is about, if it is about one.
rserve_event MakeEvent(const Event& from, int64_t item_tokens);

}  // namespace rserve::capi

#endif  // RSERVE_CAPI_EVENTS_H_
