/* SPDX-License-Identifier: BSD-3-Clause
 *
 * failing messages|memory RANK COUNT [--lasting 1] [--root R] [--direct 1]: under libmpi_faulty, the n-th message, or
 * piece of memory, of RANK fails in an allreduce of COUNT elements, or in a reduce to rank R, for n = 1, 2, ..., until
 * there is none left to fail; each time on a new communicator that returns errors. With --lasting all the later ones
 * fail, too, but only in a call of no elements, which makes what offbeat keeps for the communicator. With --direct
 * ranks may end without a message that others need.
 *
 * Nobody may hang. All ranks get an error, those that had no need of RANK any more in the next call; or all get the
 * right sum, because it was done in another way. What is on other communicators goes on.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "check.h"
#include "faulty.h"

enum { SUM, ERROR, WRONG };

static int *input, *output, count, root;

static int outcome_of_reduce(MPI_Comm communicator) {
  memset(output, 0, sizeof(int) * (size_t)count);
  ++check_calls;
  if (MPI_Reduce(input, output, count, MPI_INT, MPI_SUM, root, communicator) != MPI_SUCCESS) return ERROR;
  for (int i = 0; i < count; ++i)
    if (output[i] != (world_rank == root ? world_size * i + world_size * (world_size - 1) / 2 : 0)) return WRONG;
  return SUM;
}

static int outcome(MPI_Comm communicator) {
  memset(output, 0, sizeof(int) * (size_t)count);
  if (allreduce(input, output, count, MPI_INT, MPI_SUM, communicator) != MPI_SUCCESS) return ERROR;
  for (int i = 0; i < count; ++i)
    if (output[i] != world_size * i + world_size * (world_size - 1) / 2) return WRONG;
  return SUM;
}

/* For each n another order of the ranks, but never theirs in MPI_COMM_WORLD: so offbeat meets a set of ranks of which it
 * has not kept anything. */
static MPI_Comm reordered(long n) {
  int order[8], orders = 1;
  for (int rank = 0; rank < world_size; ++rank) {
    order[rank] = rank;
    orders *= rank + 1;
  }
  long number = n % (orders - 1) + 1;
  for (int left = world_size; left > 1; number /= left--) {
    const int chosen = left - 1 - (int)(number % left), last = order[left - 1];
    order[left - 1] = order[chosen];
    order[chosen] = last;
  }
  MPI_Comm communicator;
  MPI_Comm_split(MPI_COMM_WORLD, 0, order[world_rank], &communicator);
  return communicator;
}

/* ERROR if any rank has it. The word of the MPI itself is passed on, offbeat has no part. */
static int of_all(int mine, const char *what, long n) {
  int worst;
  int *all = allocate(sizeof(int) * (size_t)world_size);
  CHECK(mine != WRONG, "%s %ld: wrong sum", what, n);
  MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
  worst = SUM;
  for (int rank = 0; rank < world_size; ++rank)
    if (all[rank] != SUM) worst = ERROR;
  free(all);
  return worst;
}

/* Checks that all ranks have it. */
static void expect(int expected, int mine, const char *what, long n) {
  CHECK(mine == expected, "%s %ld: %s", what, n, mine == SUM ? "no error" : mine == ERROR ? "an error" : "wrong sum");
  of_all(SUM, what, n);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const enum faulty_kind kind = strcmp(argv[1], "messages") == 0 ? MESSAGES : MEMORY;
  const int victim = atoi(argv[2]), lasting = (int)option(argc, argv, "--lasting", 0);
  count = atoi(argv[3]);
  root = (int)option(argc, argv, "--root", -1);
  const int direct = (int)option(argc, argv, "--direct", 0);
  int (*const first_outcome)(MPI_Comm) = root < 0 ? outcome : outcome_of_reduce;
  faulty_arm_function *arm = (faulty_arm_function *)dlsym(RTLD_DEFAULT, "faulty_arm");
  CHECK(arm != NULL, "libmpi_faulty is not preloaded");
  if (arm == NULL) return check_finish();
  input = allocate(sizeof(int) * (size_t)count);
  output = allocate(sizeof(int) * (size_t)count);
  for (int i = 0; i < count; ++i) input[i] = i + world_rank;
  MPI_Comm untouched;
  MPI_Comm_dup(MPI_COMM_WORLD, &untouched);
  MPI_Comm_set_errhandler(untouched, MPI_ERRORS_RETURN);
  expect(SUM, outcome(untouched), "before", 0);

  long n = 0;
  int errors = 0, sums = 0;
  for (int reached = 1; reached;) {
    ++n;
    MPI_Comm communicator;
    if (kind == MEMORY) {
      communicator = reordered(n);
    } else {
      MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
    }
    MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
    if (kind == MESSAGES) expect(SUM, first_outcome(communicator), "warm", n); /* its context is made */
    if (world_rank == victim) arm(kind, n, lasting);
    if (lasting) CHECK(allreduce(input, output, 0, MPI_INT, MPI_SUM, communicator) == MPI_SUCCESS, "%ld: nothing", n);
    const int mine = lasting ? SUM : first_outcome(communicator);
    if (world_rank == victim) reached = arm(NOTHING, 0, 0) <= 0;
    MPI_Bcast(&reached, 1, MPI_INT, victim, MPI_COMM_WORLD);
    const int all = of_all(mine, "fault", n);
    *(all == ERROR ? &errors : &sums) += 1;
    CHECK(reached || all == SUM, "%ld: an error without a cause", n);
    /* In an allreduce by `ring` everybody needs each message, in a reduce the root does. */
    if (kind == MESSAGES && !direct && (root < 0 || world_rank == root)) CHECK(mine == ERROR || !reached, "%ld: no error", n);
    expect(all, outcome(communicator), "again", n);
    expect(SUM, outcome(untouched), "untouched", n);
    MPI_Comm_free(&communicator);
  }
  MPI_Comm_free(&untouched);
  if (world_rank == 0) printf("faults: %ld, errors: %d, sums: %d\n", n - 1, errors, sums);
  free(input);
  free(output);
  return check_finish();
}
