# Whether and how CUDA code is compiled. Sets RSERVE_HAVE_CUDA.
#
#   RSERVE_CUDA=OFF   nvcc is not looked for
#   RSERVE_CUDA=ON    nvcc must be there; all architectures
#   RSERVE_CUDA=AUTO  (default) where nvcc works; code for one architecture, with its PTX for later
#                     ones. Sanitized builds leave it out: device code cannot be instrumented.
#
# The CUDA backend's own code and the kernels' emulation are built and tested in every case.

set(RSERVE_CUDA AUTO CACHE STRING "Compile CUDA kernels: ON, OFF or AUTO")
set_property(CACHE RSERVE_CUDA PROPERTY STRINGS ON OFF AUTO)
if(NOT RSERVE_CUDA MATCHES "^(ON|OFF|AUTO)$")
  message(FATAL_ERROR "RSERVE_CUDA is \"${RSERVE_CUDA}\", not ON, OFF or AUTO")
endif()

set(RSERVE_HAVE_CUDA OFF)
if(RSERVE_CUDA STREQUAL "ON" OR (RSERVE_CUDA STREQUAL "AUTO" AND NOT RSERVE_SANITIZE))
  find_program(RSERVE_NVCC nvcc HINTS ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES bin)
  if(RSERVE_CUDA STREQUAL "ON" AND NOT RSERVE_NVCC AND NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "RSERVE_CUDA=ON, but there is no nvcc")
  endif()
  if(RSERVE_NVCC OR CMAKE_CUDA_COMPILER)
    # Tried in a project of its own, so that one that does not work here is no error of ours.
    if(RSERVE_NVCC AND NOT DEFINED ENV{CUDACXX})
      set(ENV{CUDACXX} "${RSERVE_NVCC}")
    endif()
    include(CheckLanguage)
    check_language(CUDA)
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      if(RSERVE_CUDA STREQUAL "ON")
        set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual)
      else()
        set(CMAKE_CUDA_ARCHITECTURES 80)
      endif()
    endif()
    if(CMAKE_CUDA_COMPILER)
      enable_language(CUDA)
      # CMake 3.25 does not know how to ask nvcc for C++20.
      if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
        set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
        set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
      endif()
      find_package(CUDAToolkit)
    elseif(RSERVE_CUDA STREQUAL "ON")
      message(FATAL_ERROR "RSERVE_CUDA=ON, but nvcc does not compile")
    endif()
    # NCCL's header only: the library is opened when a stage has several GPUs.
    find_path(RSERVE_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    if(CMAKE_CUDA_COMPILER AND TARGET CUDA::cublasLt AND TARGET CUDA::cudart_static AND
       RSERVE_NCCL_INCLUDE)
      set(RSERVE_HAVE_CUDA ON)
    elseif(RSERVE_CUDA STREQUAL "ON")
      message(FATAL_ERROR "RSERVE_CUDA=ON, but cuBLASLt, the CUDA runtime or nccl.h is missing")
    endif()
  endif()
endif()
if(RSERVE_HAVE_CUDA)
  message(STATUS "CUDA ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")
else()
  message(STATUS "CUDA kernels are not compiled (RSERVE_CUDA=${RSERVE_CUDA})")
endif()
