# RSERVE_STATIC_DEPENDENCIES: programs carry all that they are made of - Abseil, PCRE2, the image
# libraries, the C++ runtime - and need the C library (and CUDA's own) of the machine they run on, nothing
# else; so does a program that links librserve.a, which holds all of it but the C++ runtime.
#
# Shared libraries are left out of such a build: distributions compile archives for programs, and
# thread-local variables of Debian's Abseil cannot be linked into anything else.

# Abseil's CMake files name shared libraries where it was built both ways.
get_directory_property(imported IMPORTED_TARGETS)
foreach(target ${imported})
  get_target_property(type ${target} TYPE)
  if(NOT target MATCHES "^absl::" OR NOT type STREQUAL "SHARED_LIBRARY")
    continue()
  endif()
  rserve_imported_location(${target} location)
  string(REGEX REPLACE "\\.so[0-9.]*$" ".a" archive "${location}")
  if(NOT EXISTS "${archive}")
    message(FATAL_ERROR "RSERVE_STATIC_DEPENDENCIES=ON, but there is no ${archive}")
  endif()
  get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
  foreach(configuration ${configurations})
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_${configuration} "${archive}")
  endforeach()
endforeach()

# What an archive needs, its .pc file says only to those who ask for a static link.
if(WEBP_FOUND)
  find_library(RSERVE_SHARPYUV sharpyuv)  # from libwebp 1.3 on
  if(RSERVE_SHARPYUV)
    target_link_libraries(PkgConfig::WEBP INTERFACE "${RSERVE_SHARPYUV}")
  endif()
endif()

# A folder that was configured without the option remembers what it found.
foreach(target absl::base PNG::PNG JPEG::JPEG ZLIB::ZLIB PkgConfig::PCRE2 PkgConfig::WEBP)
  if(TARGET ${target})
    rserve_imported_location(${target} location)
    if(NOT location)
      get_target_property(location ${target} INTERFACE_LINK_LIBRARIES)
    endif()
    if(NOT location MATCHES "\\.a(;|$)")
      message(FATAL_ERROR "RSERVE_STATIC_DEPENDENCIES=ON, but ${target} is ${location}: configure a "
                          "new build folder, and see that its archive is installed")
    endif()
  endif()
endforeach()

# Of the archives, what is called: else a program asks the C library for what only the rest wants.
target_link_options(rserve_flags INTERFACE -Wl,--gc-sections
  $<$<LINK_LANGUAGE:CXX,CUDA>:-static-libstdc++> $<$<LINK_LANGUAGE:CXX,CUDA>:-static-libgcc>)
