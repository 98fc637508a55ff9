// The second translation unit of hpp_loop_test: both include all public headers.

#ifndef RSERVE_TESTS_CAPI_HPP_OTHER_UNIT_H_
#define RSERVE_TESTS_CAPI_HPP_OTHER_UNIT_H_

#include "rserve/rserve.hpp"

rserve::capi::Request OtherUnitsRequest();

#endif  // RSERVE_TESTS_CAPI_HPP_OTHER_UNIT_H_
