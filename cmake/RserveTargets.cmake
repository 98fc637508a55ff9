# What every target of the project shares, and the helpers that make targets.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
if(RSERVE_TOP_LEVEL)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
  set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
endif()

# Compiles each object once for all later builds of the same source where ccache is installed. The
# sloppiness is what it asks for before it caches a file that uses precompiled headers.
find_program(RSERVE_CCACHE ccache)
if(RSERVE_CCACHE AND RSERVE_TOP_LEVEL)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env
      "CCACHE_SLOPPINESS=pch_defines,time_macros" "${RSERVE_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER "${RSERVE_CCACHE}")
endif()

add_library(rserve_flags INTERFACE)
target_compile_features(rserve_flags INTERFACE cxx_std_20)
# -ffp-contract=off: a product and a sum fuse only where a kernel says so, so that the same source
# rounds the same way in every file and build type (the exactness contract rests on it).
# -fno-gnu-unique: a symbol of that kind cannot be made local in librserve.a, and keeps dlclose from
# unloading librserve.so.
target_compile_options(rserve_flags INTERFACE -Wall -Wextra -ffp-contract=off
                       $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
                       $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
if(RSERVE_WERROR)
  target_compile_options(rserve_flags INTERFACE -Werror)
endif()
if(RSERVE_SANITIZE)
  target_compile_options(rserve_flags INTERFACE -fsanitize=${RSERVE_SANITIZE}
                         -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(rserve_flags INTERFACE -fsanitize=${RSERVE_SANITIZE})
endif()
# The repository root (src/..., kernels/...) for our own code, include/ for everybody.
target_include_directories(rserve_flags INTERFACE
                           $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)

# rserve_imported_location(TARGET RESULT): the file of a library that was found, whatever build type
# it was found for.
function(rserve_imported_location target result)
  set(properties IMPORTED_LOCATION)
  get_target_property(configurations "${target}" IMPORTED_CONFIGURATIONS)
  if(configurations)
    foreach(configuration ${configurations})
      list(APPEND properties IMPORTED_LOCATION_${configuration})
    endforeach()
  endif()
  foreach(property ${properties})
    get_target_property(location "${target}" ${property})
    if(location)
      break()
    endif()
  endforeach()
  set(${result} "${location}" PARENT_SCOPE)
endfunction()

# rserve_library(NAME SOURCES ... [DEPS ...] [PRIVATE_DEPS ...]): one layer as a static library. Its
# flags are its own: who links it in a build of his own compiles as he likes. Our other targets name
# rserve_flags themselves.
function(rserve_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC ${arg_DEPS}
                        PRIVATE $<BUILD_INTERFACE:rserve_flags> ${arg_PRIVATE_DEPS})
  target_compile_features(${name} PUBLIC cxx_std_20)
  if(RSERVE_SANITIZE)
    target_link_options(${name} PUBLIC -fsanitize=${RSERVE_SANITIZE})
  endif()
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                             $<INSTALL_INTERFACE:include>)
  rserve_precompiled(${name} rserve_library_headers)
endfunction()

# rserve_build_with(TARGET label ...): the targets tests_<label> build it.
function(rserve_build_with name)
  foreach(label ${ARGN})
    if(NOT TARGET tests_${label})
      add_custom_target(tests_${label})
    endif()
    add_dependencies(tests_${label} ${name})
  endforeach()
endfunction()

# Compiling is most of a test run, and a test's time is in what it calls. Undefined behaviour is
# looked for in the library: the checks double what it costs to compile a test. Named after
# rserve_flags, so that these options come last.
add_library(rserve_test_flags INTERFACE)
target_compile_options(rserve_test_flags INTERFACE $<$<CONFIG:Release>:-O1>)
if(RSERVE_SANITIZE MATCHES "undefined")
  target_compile_options(rserve_test_flags INTERFACE -fno-sanitize=undefined)
endif()

# rserve_test(NAME SOURCES ... [DEPS ...] [LABELS ...] [ARGS ...] [TIMEOUT seconds] [COST seconds]):
# one Catch2 program, one ctest entry; those of a high cost start first. Labels:
#   ci        runs in scripts/test.sh (the default)
#   sanitize  also runs under address and undefined-behaviour sanitizers
#   threads   also runs under the thread sanitizer
#   nightly   runs only in scripts/test.sh --full
# The target tests_<label> builds all programs with that label.
function(rserve_test name)
  cmake_parse_arguments(arg "" "TIMEOUT;COST" "SOURCES;DEPS;LABELS;ARGS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS ci)
  endif()
  if(NOT arg_COST)
    set(arg_COST 1)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE rserve_flags rserve_test_flags ${arg_DEPS} rserve_catch_main)
  target_compile_definitions(${name} PRIVATE RSERVE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  rserve_precompiled(${name} rserve_test_headers)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  add_test(NAME ${name} COMMAND ${name} ${arg_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
                       COST ${arg_COST})
  rserve_build_with(${name} ${arg_LABELS})
endfunction()
