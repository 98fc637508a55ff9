# Headers that most files include, compiled once: reading them is half of what it costs to compile
# one of our files. A file still names all that it uses: the thread-sanitizer preset builds without,
# so that a missing #include is found. By default for GCC, where it was tried.

set(precompiled OFF)
if(RSERVE_TOP_LEVEL AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(precompiled ON)
endif()
option(RSERVE_PRECOMPILED "Precompile the most used headers" ${precompiled})

# rserve_header_owner(NAME EXECUTABLE|LIBRARY [DEPS target ...] [HEADERS header ...]):
# what owns the compiled headers of all targets of the same kind and options.
function(rserve_header_owner name kind)
  cmake_parse_arguments(arg "" "" "DEPS;HEADERS" ${ARGN})
  set(source "${CMAKE_BINARY_DIR}/${name}.cc")
  file(CONFIGURE OUTPUT "${source}" CONTENT "int main() { return 0; }\n")
  if(kind STREQUAL "EXECUTABLE")  # they are compiled with -fPIE, libraries with -fPIC
    add_executable(${name} EXCLUDE_FROM_ALL "${source}")
  else()
    add_library(${name} STATIC EXCLUDE_FROM_ALL "${source}")
  endif()
  target_link_libraries(${name} PRIVATE rserve_flags ${arg_DEPS})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
endfunction()

# rserve_precompiled(NAME OWNER): NAME is compiled with OWNER's headers.
function(rserve_precompiled name owner)
  if(RSERVE_PRECOMPILED)
    target_precompile_headers(${name} REUSE_FROM ${owner})
  endif()
endfunction()

if(RSERVE_PRECOMPILED)
  set(common_headers
      <algorithm> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory> <mutex> <optional>
      <string> <string_view> <utility> <variant> <vector>
      <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/types/span.h>)
  set(common_deps absl::span absl::status absl::statusor absl::strings)
  rserve_header_owner(rserve_library_headers LIBRARY DEPS ${common_deps} HEADERS ${common_headers})
  if(RSERVE_TESTS)
    rserve_header_owner(rserve_test_headers EXECUTABLE
      DEPS rserve_test_flags ${common_deps} Catch2::Catch2
      HEADERS ${common_headers} "${PROJECT_SOURCE_DIR}/tests/support/catch.h")
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # -fpch-preprocess: ccache asks for it. The warnings are false on std::string in precompiled
    # headers with GCC 12; a build without has them on.
    target_compile_options(rserve_flags INTERFACE -fpch-preprocess -Wno-array-bounds -Wno-restrict
                           -Wno-stringop-overflow)
  endif()
endif()
