/* SPDX-License-Identifier: BSD-3-Clause
 *
 * many_communicators N: N communicators that live at the same time, or as many as the MPI has, with allreduces on
 * each. Then all are freed, and there are as many again.
 */
#include "check.h"

static void sum_on(MPI_Comm communicator, int seed, const char *when) {
  const int mine = seed + world_rank;
  int sum = -1;
  const int code = allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, communicator);
  CHECK(code == MPI_SUCCESS && sum == world_size * seed + world_size * (world_size - 1) / 2,
        "communicator %d, %s: code %d, sum %d", seed, when, code, sum);
}

/* As many duplicates as there are, up to `most`. */
static int make(MPI_Comm *communicators, int most) {
  for (int made = 0; made < most; ++made) {
    within(20, "communicator %d", made);
    if (MPI_Comm_dup(MPI_COMM_WORLD, &communicators[made]) != MPI_SUCCESS) return made;
    sum_on(communicators[made], made, "new");
  }
  return most;
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int most = atoi(argv[1]);
  int made[2];
  MPI_Comm *communicators = allocate(sizeof *communicators * (size_t)most);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int time = 0; time < 2; ++time) {
    made[time] = make(communicators, most);
    for (int k = 0; k < made[time]; ++k) {
      within(20, "communicator %d of %d", k, made[time]);
      sum_on(communicators[k], k, "with all the others");
    }
    for (int k = 0; k < made[time]; ++k) MPI_Comm_free(&communicators[k]);
  }
  CHECK(made[0] == made[1], "%d communicators, then %d", made[0], made[1]);
  if (world_rank == 0) printf("alive: %d\n", made[0]);
  free(communicators);
  within(20, "the end");
  return check_finish();
}
