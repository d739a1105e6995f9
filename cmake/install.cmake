# SPDX-License-Identifier: BSD-3-Clause
# Two installations: the folders of the Python package, and GNU's.
#
# `cmake --install` makes the second one, for people who use no Python. The wheel has only the component `python`.
# All files of the second find each other, so it can be moved.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# -- the Python package

set(python COMPONENT python EXCLUDE_FROM_ALL)
set(for_people src/selection/rules.txt src/selection/host_algorithms.txt)  # the core has them built in
foreach(preload ${preloads})
  install(TARGETS offbeat-${preload} offbeat-trace-${preload} LIBRARY DESTINATION offbeat/lib ${python})
endforeach()
foreach(family ${families})
  install(TARGETS offbeat-bench-${family} LIBRARY DESTINATION offbeat/lib ${python})
endforeach()
if(families)
  install(TARGETS offbeat-launch RUNTIME DESTINATION offbeat/lib ${python})
  install(TARGETS offbeat LIBRARY DESTINATION offbeat/lib ${python})
  install(FILES include/offbeat/offbeat.h DESTINATION offbeat/include/offbeat ${python})
endif()
if(OFFBEAT_PYTHON)
  install(TARGETS offbeat-python LIBRARY DESTINATION offbeat/lib ${python})
  install(FILES ${for_people} DESTINATION offbeat/rules ${python})
endif()

# -- GNU's folders

if(NOT families)
  return()
endif()
foreach(preload ${preloads})
  set_target_properties(offbeat-${preload} PROPERTIES EXPORT_NAME ${preload})
  target_include_directories(offbeat-${preload} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(TARGETS offbeat-${preload} EXPORT offbeat LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(TARGETS offbeat-trace-${preload} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endforeach()
target_include_directories(offbeat INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS offbeat EXPORT offbeat LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
add_library(offbeat_header INTERFACE)
set_target_properties(offbeat_header PROPERTIES EXPORT_NAME header)
target_include_directories(offbeat_header INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(offbeat_header INTERFACE ${CMAKE_DL_LIBS})
install(TARGETS offbeat_header EXPORT offbeat)
install(FILES include/offbeat/offbeat.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/offbeat)
install(FILES ${for_people} DESTINATION ${CMAKE_INSTALL_DATADIR}/offbeat)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# find_package(offbeat)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/offbeat)
set(written "${CMAKE_CURRENT_BINARY_DIR}/installed")
install(EXPORT offbeat NAMESPACE offbeat:: DESTINATION ${package_dir} FILE offbeat-targets.cmake)
configure_package_config_file(cmake/installed/offbeat-config.cmake.in "${written}/offbeat-config.cmake"
  INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_LIBDIR
  NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${written}/offbeat-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${written}/offbeat-config.cmake" "${written}/offbeat-config-version.cmake" DESTINATION ${package_dir})

# pkg-config, modules, and a command for the shell. `to_prefix` leads from a folder to the prefix.
set(preload_variables "")
foreach(preload ${preloads})
  string(APPEND preload_variables "preload_${preload}=\${libdir}/liboffbeat-${preload}.so\n")
  string(APPEND preload_variables "trace_${preload}=\${libdir}/liboffbeat-trace-${preload}.so\n")
endforeach()
function(offbeat_installed template target folder)
  set(to_prefix)
  file(RELATIVE_PATH to_prefix "${CMAKE_INSTALL_PREFIX}/${folder}" "${CMAKE_INSTALL_PREFIX}")
  string(REGEX REPLACE "/$" "" to_prefix "${to_prefix}")
  configure_file(cmake/installed/${template} "${written}/${target}" @ONLY)
  install(${ARGN} "${written}/${target}" DESTINATION ${folder})
endfunction()
offbeat_installed(offbeat.pc.in offbeat.pc ${CMAKE_INSTALL_LIBDIR}/pkgconfig FILES)
offbeat_installed(modulefile.in ${PROJECT_VERSION} ${CMAKE_INSTALL_DATADIR}/modulefiles/offbeat FILES)
offbeat_installed(offbeat-env.in offbeat-env ${CMAKE_INSTALL_BINDIR} PROGRAMS)
