/* SPDX-License-Identifier: BSD-3-Clause
 *
 * revoked RANK: User Level Failure Mitigation. A communicator is revoked while other ranks wait in an allreduce on it,
 * and before one. Then RANK, not 0, dies, and the others go on without it.
 *
 * The line "good: N" says how many calls gave a sum.
 */
#include "check.h"
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

static long good;

static int sum_ranks(MPI_Comm communicator) {
  int rank, size, sum = -1;
  MPI_Comm_rank(communicator, &rank);
  MPI_Comm_size(communicator, &size);
  const int mine = rank + 1;
  const int code = allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, communicator);
  if (code == MPI_SUCCESS) CHECK(sum == size * (size + 1) / 2, "sum %d over %d ranks", sum, size);
  good += code == MPI_SUCCESS;
  int class = MPI_SUCCESS;
  MPI_Error_class(code, &class);
  return class;
}

static MPI_Comm duplicate(void) {
  MPI_Comm communicator;
  MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
  MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  CHECK(sum_ranks(communicator) == MPI_SUCCESS, "before it is revoked");
  return communicator;
}

/* Who leaves a collective first does not know that the others have left, too: they tell `rank`. */
static void wait_for_others(int rank) {
  if (world_rank != rank) MPI_Send(NULL, 0, MPI_INT, rank, 1, MPI_COMM_WORLD);
  for (int other = 0; world_rank == rank && other < world_size; ++other)
    if (other != rank) MPI_Recv(NULL, 0, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void expect_revoked(MPI_Comm communicator, const char *when) {
  const int class = sum_ranks(communicator);
  CHECK(class == MPIX_ERR_REVOKED, "%s: class %d in place of %d", when, class, MPIX_ERR_REVOKED);
}

static void revoke_while_others_wait(void) {
  within(20, "revoked while others wait");
  MPI_Comm communicator = duplicate();
  wait_for_others(0);
  if (world_rank == 0) {
    usleep(200000);
    MPIX_Comm_revoke(communicator);
  } else {
    expect_revoked(communicator, "revoked while this rank waits");
  }
  expect_revoked(communicator, "the next call");
  MPI_Comm_free(&communicator);
}

static void revoke_before_a_call(void) {
  within(20, "revoked before a call");
  MPI_Comm communicator = duplicate();
  wait_for_others(0);
  if (world_rank == 0) MPIX_Comm_revoke(communicator);
  usleep(100000);
  for (int call = 0; call < 3; ++call) expect_revoked(communicator, "revoked before the call");
  MPI_Comm_free(&communicator);
}

/* All are told of the death, or that somebody who was told has revoked the communicator. */
static void die(int victim) {
  within(20, "a rank dies");
  MPI_Comm communicator = duplicate(), shrunk;
  wait_for_others(victim);
  if (world_rank == victim) raise(SIGKILL);
  const int class = sum_ranks(communicator);
  const int is_death = class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_PROC_FAILED_PENDING;
  CHECK(is_death || class == MPIX_ERR_REVOKED, "class %d in place of %d", class, MPIX_ERR_PROC_FAILED);
  MPIX_Comm_revoke(communicator);
  within(20, "the others go on");
  MPIX_Comm_shrink(communicator, &shrunk);
  int size, told_of_death = 0;
  MPI_Comm_size(shrunk, &size);
  CHECK(size == world_size - 1, "%d ranks are left", size);
  for (int call = 0; call < 3; ++call) CHECK(sum_ranks(shrunk) == MPI_SUCCESS, "among those who are left");
  allreduce(&is_death, &told_of_death, 1, MPI_INT, MPI_SUM, shrunk);
  ++good;
  CHECK(told_of_death > 0, "nobody was told of the death");
  MPI_Comm_free(&shrunk);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  revoke_while_others_wait();
  revoke_before_a_call();
  die(atoi(argv[1]));
  if (world_rank == 0) printf("good: %ld\n", good);
  /* Without check_finish, which calls on MPI_COMM_WORLD. */
  if (world_rank == 0 && check_failures == 0) printf("ok: %ld cases, %ld calls\n", check_cases, check_calls);
  fflush(NULL);
  /* After a death Open MPI 5.0 does not always return from here, without offbeat, too. */
  signal(SIGALRM, SIG_DFL);
  alarm(3);
  MPI_Finalize();
  return check_failures != 0;
}
