/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls no collective, and calls MPI_Finalize in the middle of a line.
 */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  fprintf(stderr, "a line ");
  MPI_Finalize();
  fprintf(stderr, "with an end\n");
  return 0;
}
