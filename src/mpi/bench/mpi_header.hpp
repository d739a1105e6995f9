// SPDX-License-Identifier: BSD-3-Clause
// Includes mpi.h of the ABI family that this file is compiled for (cmake/families.cmake). mpi/host/abi.hpp is
// for code that is not linked to an MPI. It looks every handle up by name, which must not happen in a timed
// call.
#pragma once

#if defined(OFFBEAT_FAMILY_MPIABI)
#include <mpi_abi.h>
#else
#include <mpi.h>
#endif
