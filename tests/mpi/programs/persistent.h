/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Whether the MPI has persistent collectives that can be used. MPICH 4.0 has them, but waits forever for
 * inactive ones. Without them the functions do nothing, so that programs compile.
 */
#ifndef PERSISTENT_H
#define PERSISTENT_H

#include <mpi.h>

#if (MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)) && \
    !(defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40100000 && !defined(I_MPI_NUMVERSION))
#define HAS_PERSISTENT 1
#else
#define HAS_PERSISTENT 0
static inline int make_no_request(int first, ...) { return (void)first, MPI_SUCCESS; }
#define MPI_Allreduce_init(...) make_no_request(0, __VA_ARGS__)
#define MPI_Alltoall_init(...) make_no_request(0, __VA_ARGS__)
#define MPI_Reduce_scatter_init(...) make_no_request(0, __VA_ARGS__)
#define MPI_Bcast_init(...) make_no_request(0, __VA_ARGS__)
#endif
enum { has_persistent = HAS_PERSISTENT };

#endif
