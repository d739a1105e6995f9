/* SPDX-License-Identifier: BSD-3-Clause
 *
 * untouched: checks that the error handlers of MPI_COMM_SELF, MPI_COMM_WORLD, and communicators made of it
 * are those that the program has set, before and after collectives. If MPI_COMM_WORLD returns errors and its
 * duplicate never had a handler set, MPICH and its family return the errors of the duplicate, too. The
 * program prints what it sees, for comparison with a run without offbeat. It makes wrong calls only if the
 * reported handler does not end the job.
 *
 * untouched exhausted: makes communicators until none is left, and then its first collective.
 */
#include "check.h"

static int hits;
static void count(MPI_Comm *communicator, int *code, ...) {
  (void)communicator, (void)code;
  ++hits;
}

static void sum(MPI_Comm communicator) {
  int one = 1, all = 0;
  allreduce(&one, &all, 1, MPI_INT, MPI_SUM, communicator);
  CHECK(all == world_size, "sum %d", all);
}

static const char *handler(MPI_Comm communicator) {
  MPI_Errhandler errhandler;
  MPI_Comm_get_errhandler(communicator, &errhandler);
  const char *name = errhandler == MPI_ERRORS_ARE_FATAL ? "fatal" : errhandler == MPI_ERRORS_RETURN ? "return" : "own";
  MPI_Errhandler_free(&errhandler);
  return name;
}

/* Sends -1 elements. `returns`: the host calls no handler that ends the job. */
static void wrong_send(const char *what, MPI_Comm communicator, int returns) {
  int class = -1;
  hits = 0;
  if (returns) MPI_Error_class(MPI_Send(&class, -1, MPI_INT, 0, 0, communicator), &class);
  if (world_rank == 0) printf("%s: %s, class %d, %d calls\n", what, handler(communicator), class, hits);
}

static void exhaust(void) {
  enum { MOST = 5000 };
  static MPI_Comm made[MOST];
  int n = 0;
  MPI_Comm returns;
  MPI_Comm_dup(MPI_COMM_SELF, &returns);
  MPI_Comm_set_errhandler(returns, MPI_ERRORS_RETURN);
  while (n < MOST && MPI_Comm_dup(returns, &made[n]) == MPI_SUCCESS) ++n;
  if (world_rank == 0) printf("communicators: %d\n", n);
  sum(MPI_COMM_WORLD);
  for (int k = 0; k < n; ++k) MPI_Comm_free(&made[k]);
  sum(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  if (argc > 1 && strcmp(argv[1], "exhausted") == 0) {
    exhaust();
    return check_finish();
  }
  const int is_mpich = argc > 1 && strcmp(argv[1], "mpich") == 0;
  MPI_Comm before, after, own;
  MPI_Errhandler errhandler;
  MPI_Comm_create_errhandler(count, &errhandler);
  MPI_Comm_split(MPI_COMM_WORLD, 0, world_rank, &before);
  sum(before);
  sum(MPI_COMM_WORLD);
  MPI_Comm_dup(MPI_COMM_WORLD, &after);
  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  MPI_Comm_set_errhandler(own, errhandler);
  sum(after);
  sum(own);
  MPI_Barrier(after);
  wrong_send("own", own, 1);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  wrong_send("world", MPI_COMM_WORLD, 1);
  wrong_send("before", before, is_mpich);
  wrong_send("after", after, is_mpich);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, errhandler);
  wrong_send("before, counted", before, is_mpich);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  wrong_send("after, by self", after, is_mpich);
  if (world_rank == 0) printf("self: %s\n", handler(MPI_COMM_SELF));
  return check_finish();
}
