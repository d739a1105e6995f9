/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Functions that complete requests. They need not be those that the program is linked to.
 */
#ifndef FOREIGN_H
#define FOREIGN_H

#include <mpi.h>

struct completion {
  int (*wait)(MPI_Request *, MPI_Status *);
  int (*waitall)(int, MPI_Request *, MPI_Status *);
  int (*waitany)(int, MPI_Request *, int *, MPI_Status *);
  int (*test)(MPI_Request *, int *, MPI_Status *);
  int (*testall)(int, MPI_Request *, int *, MPI_Status *);
};

#endif
