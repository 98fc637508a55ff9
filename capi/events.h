// From an engine's event to the C event.

#ifndef RSERVE_CAPI_EVENTS_H_
#define RSERVE_CAPI_EVENTS_H_

#include "rserve/cc/engine.h"
#include "rserve/rserve.h"

namespace rserve::capi {

rserve_event MakeEvent(const Event& from);

}  // namespace rserve::capi

#endif  // RSERVE_CAPI_EVENTS_H_
