# Every third-party package the build looks for, with the Debian/Ubuntu package that carries it. With
# RSERVE_STATIC_DEPENDENCIES all of them are archives (RserveArchives.cmake).

find_package(Threads REQUIRED)
if(RSERVE_STATIC_DEPENDENCIES)
  if(RSERVE_FFMPEG)
    message(FATAL_ERROR "RSERVE_FFMPEG=ON needs FFmpeg's shared libraries: not with "
                        "RSERVE_STATIC_DEPENDENCIES=ON")
  endif()
  set(suffixes_of_all ${CMAKE_FIND_LIBRARY_SUFFIXES})
  set(CMAKE_FIND_LIBRARY_SUFFIXES ${CMAKE_STATIC_LIBRARY_SUFFIX})
endif()
find_package(absl REQUIRED)                        # libabsl-dev
find_package(nlohmann_json 3.7 REQUIRED)           # nlohmann-json3-dev
find_package(PNG REQUIRED)                         # libpng-dev
find_package(JPEG REQUIRED)                        # libjpeg-dev (libjpeg-turbo)
find_package(PkgConfig REQUIRED)                   # pkg-config
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)  # libpcre2-dev
# Optional: without it WebP files are refused by name.
pkg_check_modules(WEBP IMPORTED_TARGET libwebp)    # libwebp-dev
# Asked for, not found by chance: they bring a hundred libraries along. Without them video files other
# than animated GIFs are refused by name.
if(RSERVE_FFMPEG)
  pkg_check_modules(FFMPEG REQUIRED IMPORTED_TARGET libavformat>=58 libavcodec>=58 libavutil>=56
                    libswscale>=5)     # libavformat-dev libavcodec-dev libavutil-dev libswscale-dev
endif()
if(RSERVE_STATIC_DEPENDENCIES)
  include(RserveArchives)
  set(CMAKE_FIND_LIBRARY_SUFFIXES ${suffixes_of_all})
endif()

if(RSERVE_TESTS)
  find_package(Catch2 REQUIRED)                    # catch2: version 2 or 3
endif()
