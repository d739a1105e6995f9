// SPDX-License-Identifier: BSD-3-Clause
//
// mpi.h of the ABI family that this file is compiled for (cmake/families.cmake).
#pragma once

#if defined(OFFBEAT_FAMILY_MPIABI)
#include <mpi_abi.h>
#else
#include <mpi.h>
#endif
