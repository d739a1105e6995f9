// SPDX-License-Identifier: BSD-3-Clause
// mpi.h of the ABI family that this file is compiled for (cmake/families.cmake). mpi/host/abi.hpp is for code
// that is not linked to an MPI: it looks every handle up by name, which has no place in a call that is timed.
#pragma once

#if defined(OFFBEAT_FAMILY_MPIABI)
#include <mpi_abi.h>
#else
#include <mpi.h>
#endif
