# What `cmake --install` and CPack give: the shared library with its C headers, the C++ API as static
# libraries, the rserve command, and how CMake and pkg-config find them.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(RSERVE_CMAKE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/rserve")

# The C ABI: one shared library that hides all it is made of.
if(NOT RSERVE_STATIC_DEPENDENCIES)
  install(TARGETS rserve EXPORT rserve-c
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
  install(EXPORT rserve-c NAMESPACE rserve:: DESTINATION ${RSERVE_CMAKE_DIR} COMPONENT dev)
endif()
file(GLOB c_headers CONFIGURE_DEPENDS include/rserve/*.h include/rserve/*.hpp)
install(FILES ${c_headers}
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rserve COMPONENT dev)

include(RserveStatic)

# The C++ API: the scheduling classes (rserve::core) and the engine over an Executor
# (rserve::engine). Same compiler and same Abseil as this build.
set_target_properties(rserve_core PROPERTIES EXPORT_NAME core)
set_target_properties(rserve_runtime PROPERTIES EXPORT_NAME engine)
install(TARGETS rserve_core rserve_runtime EXPORT rserve-cc
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(EXPORT rserve-cc NAMESPACE rserve:: DESTINATION ${RSERVE_CMAKE_DIR} COMPONENT dev)
install(FILES
          include/rserve/cc/embedding_tracker.h include/rserve/cc/encoder_scheduler.h
          include/rserve/cc/engine.h include/rserve/cc/executor.h include/rserve/cc/kv_block_pool.h
          include/rserve/cc/orchestrator.h include/rserve/cc/policy.h
          include/rserve/cc/request_plan.h include/rserve/cc/token_scheduler.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rserve/cc COMPONENT dev)

configure_package_config_file(cmake/rserve-config.cmake.in rserve-config.cmake
                              INSTALL_DESTINATION ${RSERVE_CMAKE_DIR}
                              PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(rserve-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/rserve-config.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/rserve-config-version.cmake"
        DESTINATION ${RSERVE_CMAKE_DIR} COMPONENT dev)
# Relative to the file: the prefix may be chosen at install time.
file(RELATIVE_PATH RSERVE_PC_TO_PREFIX "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig"
     "${CMAKE_INSTALL_PREFIX}")
configure_file(cmake/rserve.pc.in rserve.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/rserve.pc"
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

# The CUDA backend, which librserve opens where it lies beside it. Not in the Debian packages: it
# needs libcublasLt, which Debian has not.
if(RSERVE_HAVE_CUDA AND NOT RSERVE_STATIC_DEPENDENCIES)
  install(TARGETS rserve_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cuda OPTIONAL)
endif()

if(RSERVE_TOOLS)
  install(TARGETS rserve_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
endif()

# Debian packages: librserve0, librserve-dev, rserve-tools.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "rserve")
set(CPACK_PACKAGE_CONTACT "rserve developers <rserve@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL runtime dev tools)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_HOMEPAGE "")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME librserve0)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_DEV_PACKAGE_NAME librserve-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "librserve0 (= ${PROJECT_VERSION}), libabsl-dev")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME rserve-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "Shared library of rserve (C ABI)")
set(CPACK_COMPONENT_DEV_DESCRIPTION "Headers and static C++ libraries of rserve")
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "The rserve command")
include(CPack)
