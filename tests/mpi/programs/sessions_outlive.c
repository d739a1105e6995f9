/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Uses a communicator of a session, and communicators made of it, while one rank has called MPI_Finalize and
 * others have not.
 */
#include "check.h"

#ifndef MPI_SESSION_NULL
#error "this MPI has no sessions"
#endif

int main(int argc, char **argv) {
  MPI_Session session;
  MPI_Group group;
  MPI_Comm whole, split, dup;
  check_start(&argc, &argv);
  within(60, "sessions that outlive MPI_Finalize");
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "offbeat.test", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &whole);
  MPI_Comm_split(whole, 0, world_rank, &split);
  MPI_Comm_dup(split, &dup);
  MPI_Comm made[] = {split, whole, dup};
  if (world_rank == 0) MPI_Finalize();
  for (int k = 0; k < 9; ++k) {
    int one = 1, sum = 0;
    allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, made[k % 3]);
    CHECK(sum == world_size, "call %d: sum %d", k, sum);
  }
  if (world_rank != 0) MPI_Finalize();
  for (int k = 0; k < 3; ++k) MPI_Comm_free(&made[k]);
  MPI_Group_free(&group);
  MPI_Session_finalize(&session);
  if (world_rank == 0 && check_failures == 0) printf("ok: %ld cases, %ld calls\n", check_cases, check_calls);
  return check_failures != 0;
}
