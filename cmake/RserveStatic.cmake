# librserve.a: the C ABI as one static library, for programs that link everything.
#
# All our objects, and Abseil where it is static (with RSERVE_STATIC_DEPENDENCIES every library that
# was found), are linked into one relocatable object in which only the symbols of the C ABI stay
# global: a program that has an Abseil of its own, or another library with the same class names, does
# not meet ours. What stays outside is what the machine has as shared libraries; RSERVE_STATIC_NEEDS
# lists it for CMake's and pkg-config's files.

# Everything that `target` needs when it is linked: `archives`, the targets of static libraries or
# their files, and `needs`, the names of others as the linker knows them.
function(rserve_link_closure target archives needs)
  set(queue ${target})
  set(seen)
  set(found_archives)
  set(found_needs)
  while(queue)
    list(POP_FRONT queue item)
    string(REGEX REPLACE "^\\$<(LINK_ONLY|BUILD_INTERFACE):(.*)>$" "\\2" item "${item}")
    if(item MATCHES "^\\$<" OR item IN_LIST seen)
      continue()
    endif()
    list(APPEND seen "${item}")
    if(NOT TARGET "${item}")
      if(RSERVE_STATIC_DEPENDENCIES AND item MATCHES "^/.*\\.a$")
        list(APPEND found_archives "${item}")
        continue()
      endif()
      foreach(form "^-l(.+)$" "/lib([^/]+)\\.(so|a)[^/]*$" "^([A-Za-z0-9_][A-Za-z0-9_.+-]*)$")
        if(item MATCHES "${form}")
          list(APPEND found_needs "${CMAKE_MATCH_1}")
          break()
        endif()
      endforeach()
      continue()
    endif()
    get_target_property(aliased "${item}" ALIASED_TARGET)
    if(aliased)
      list(APPEND queue "${aliased}")
      continue()
    endif()
    get_target_property(type "${item}" TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND found_archives "${item}")
    elseif(type MATCHES "^(SHARED|UNKNOWN)_LIBRARY$")
      rserve_imported_location("${item}" location)
      list(APPEND queue "${location}")
    endif()
    foreach(property INTERFACE_LINK_LIBRARIES LINK_LIBRARIES)
      get_target_property(libraries "${item}" ${property})
      if(libraries)
        list(APPEND queue ${libraries})
      endif()
    endforeach()
  endwhile()
  list(REMOVE_DUPLICATES found_needs)
  set(${archives} ${found_archives} PARENT_SCOPE)
  set(${needs} ${found_needs} PARENT_SCOPE)
endfunction()

# Not under sanitizers: their runtime belongs to the program.
if(NOT RSERVE_SANITIZE)
  rserve_link_closure(rserve_capi archives RSERVE_STATIC_NEEDS)
  # The archive is C++ inside; a C program's link line has to say so.
  if(RSERVE_STATIC_DEPENDENCIES)
    list(APPEND RSERVE_STATIC_NEEDS -l:libstdc++.a -static-libgcc m)
  else()
    list(APPEND RSERVE_STATIC_NEEDS stdc++ m)
  endif()
  set(files)
  foreach(archive ${archives})
    if(TARGET "${archive}")
      list(APPEND files "$<TARGET_FILE:${archive}>")
    else()
      list(APPEND files "${archive}")
    endif()
  endforeach()
  set(static_library "${CMAKE_BINARY_DIR}/lib/librserve.a")
  add_custom_command(
    OUTPUT "${static_library}"
    COMMAND ${CMAKE_CURRENT_LIST_DIR}/merge_static.sh "${CMAKE_CXX_COMPILER}" "${CMAKE_OBJCOPY}"
            "${CMAKE_AR}" "${PROJECT_SOURCE_DIR}/capi/rserve.map" "${static_library}"
            "$<TARGET_OBJECTS:rserve_capi>" -- ${files}
    DEPENDS rserve_capi $<TARGET_OBJECTS:rserve_capi> ${archives} capi/rserve.map cmake/merge_static.sh
    COMMAND_EXPAND_LISTS VERBATIM
    COMMENT "Merging lib/librserve.a")
  add_custom_target(rserve_static ALL DEPENDS "${static_library}")
  install(FILES "${static_library}" DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
  list(TRANSFORM RSERVE_STATIC_NEEDS PREPEND "-l" REGEX "^[^-]" OUTPUT_VARIABLE RSERVE_STATIC_FLAGS)
  list(JOIN RSERVE_STATIC_FLAGS " " RSERVE_STATIC_FLAGS)
endif()
