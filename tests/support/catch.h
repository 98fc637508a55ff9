// Catch2's one header, version 2 or 3.

#ifndef RSERVE_TESTS_SUPPORT_CATCH_H_
#define RSERVE_TESTS_SUPPORT_CATCH_H_

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif

#endif  // RSERVE_TESTS_SUPPORT_CATCH_H_
