/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI 4 sessions: a communicator without MPI_Init and MPI_COMM_WORLD.
 *
 *   --sessions 2   one after the other, which of the MPIs here only PyPI's MPICH survives
 */
#include "check.h"

#ifndef MPI_SESSION_NULL
#error "this MPI has no sessions"
#endif

static void one_session(int number) {
  MPI_Session session;
  MPI_Group group;
  MPI_Comm communicator;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "offbeat.test", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &communicator);
  MPI_Comm_rank(communicator, &world_rank);
  MPI_Comm_size(communicator, &world_size);
  for (int i = 0; i < 3; ++i) {
    int mine = world_rank + i, sum = -1;
    allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, communicator);
    CHECK(sum == world_size * (world_size - 1) / 2 + i * world_size, "session %d: sum %d", number, sum);
  }
  MPI_Comm_free(&communicator);
  MPI_Group_free(&group);
  MPI_Session_finalize(&session);
}

int main(int argc, char **argv) {
  for (int number = 0; number < option(argc, argv, "--sessions", 1); ++number) one_session(number);
  if (world_rank == 0 && check_failures == 0) printf("ok: %ld cases, %ld calls\n", check_cases, check_calls);
  return check_failures != 0;
}
