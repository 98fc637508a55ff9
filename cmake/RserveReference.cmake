# The C reference as HTML, out of the headers' comments: the target `reference` writes
# <build>/reference/html/index.html. Where doxygen is not installed there is no such target.
find_package(Doxygen QUIET)
if(DOXYGEN_FOUND)
  set(RSERVE_REFERENCE_FOLDER "${CMAKE_BINARY_DIR}/reference")
  configure_file(cmake/Doxyfile.in Doxyfile @ONLY)
  add_custom_target(reference
    COMMAND Doxygen::doxygen "${CMAKE_BINARY_DIR}/Doxyfile"
    COMMENT "Writing reference/html/index.html" VERBATIM)
  if(RSERVE_TESTS)
    # A parameter that has no words, or words for a parameter that is not there, fail it.
    add_test(NAME capi_reference
             COMMAND ${CMAKE_COMMAND} --build ${CMAKE_BINARY_DIR} --target reference)
    set_tests_properties(capi_reference PROPERTIES LABELS ci TIMEOUT 300)
  endif()
endif()
