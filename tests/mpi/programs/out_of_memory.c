/* SPDX-License-Identifier: BSD-3-Clause
 *
 * out_of_memory KIB...: no rank may have more than KIB of further address space, while each makes its first allreduces
 * on new communicators and on MPI_COMM_WORLD. All ranks get the right sum, or all an error, and nobody hangs.
 */
#include "check.h"
#include "room.h"

enum { MOST = 100000, RIGHT = 0, ERROR = 1, WRONG = 2 };
static int input[MOST], output[MOST], *outcomes;

static int outcome(MPI_Comm communicator, int count) {
  memset(output, 0, sizeof output);
  if (allreduce(input, output, count, MPI_INT, MPI_SUM, communicator) != MPI_SUCCESS) return ERROR;
  for (int k = 0; k < count; ++k)
    if (output[k] != world_size * k + world_size * (world_size - 1) / 2) return WRONG;
  return RIGHT;
}

static void compare(int mine, const char *kib, int count, const char *where) {
  MPI_Gather(&mine, 1, MPI_INT, outcomes, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (world_rank != 0) return;
  for (int rank = 0; rank < world_size; ++rank)
    CHECK(outcomes[rank] != WRONG && outcomes[rank] == mine,
          "%s KiB, %d elements on %s: outcome %d of rank %d, %d of rank 0", kib, count, where, outcomes[rank],
          rank, mine);
  printf("%s KiB, %d elements on %s: %s\n", kib, count, where, mine == RIGHT ? "sum" : "error");
}

int main(int argc, char **argv) {
  const int counts[] = {1, 1000, MOST};
  check_start(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  outcomes = allocate(sizeof *outcomes * (size_t)world_size);
  for (int k = 0; k < MOST; ++k) input[k] = k + world_rank;
  for (int argument = 1; argument < argc; ++argument) {
    const char *kib = argv[argument];
    /* Now the host has what it needs for a gather. */
    MPI_Gather(&world_rank, 1, MPI_INT, outcomes, 1, MPI_INT, 0, MPI_COMM_WORLD);
    leave_room(atol(kib) * 1024);
    for (int k = 0; k < 3; ++k) {
      MPI_Comm duplicate;
      within(20, "%s KiB, %d elements", kib, counts[k]);
      if (MPI_Comm_dup(MPI_COMM_WORLD, &duplicate) == MPI_SUCCESS) {
        compare(outcome(duplicate, counts[k]), kib, counts[k], "a duplicate");
        MPI_Comm_free(&duplicate);
      }
      compare(outcome(MPI_COMM_WORLD, counts[k]), kib, counts[k], "MPI_COMM_WORLD");
    }
    leave_all_room();
  }
  within(20, "the end");
  free(outcomes);
  return check_finish();
}
