/* SPDX-License-Identifier: BSD-3-Clause
 *
 * attributes ROUNDS: attributes whose delete callback communicates, on the communicator that is being freed, and on
 * others; at last in MPI_Finalize, from an attribute of MPI_COMM_SELF. The handles of freed communicators are reused
 * for other members.
 *
 * The line "to the host: N" says how many of the calls nobody but the host can serve: those on a communicator that
 * is being freed.
 */
#include "check.h"

static MPI_Comm lasting;
static long round_number, to_the_host;
static int finalizing;

static void sum_ranks(MPI_Comm communicator, int is_being_freed, const char *when) {
  int rank, size, sum = -1;
  MPI_Comm_rank(communicator, &rank);
  MPI_Comm_size(communicator, &size);
  const int mine = rank + 1;
  allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, communicator);
  CHECK(sum == size * (size + 1) / 2, "%s, round %ld: sum %d over %d ranks", when, round_number, sum, size);
  to_the_host += is_being_freed;
}

static int on_delete(MPI_Comm communicator, int key, void *value, void *state) {
  (void)key, (void)value, (void)state;
  if (finalizing) {
    ++finalizing;
    sum_ranks(MPI_COMM_WORLD, 0, "MPI_COMM_WORLD in MPI_Finalize");
    sum_ranks(lasting, 0, "a duplicate in MPI_Finalize");
    return MPI_SUCCESS;
  }
  sum_ranks(communicator, 1, "being freed");
  if (round_number % 2) sum_ranks(MPI_COMM_WORLD, 0, "MPI_COMM_WORLD in a callback");
  if (round_number % 5 == 0) sum_ranks(lasting, 0, "a duplicate in a callback");
  sum_ranks(communicator, 1, "being freed, again");
  return MPI_SUCCESS;
}

int main(int argc, char **argv) {
  int key;
  check_start(&argc, &argv);
  within(20, "start");
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &key, NULL);
  MPI_Comm_dup(MPI_COMM_WORLD, &lasting);
  for (round_number = 0; round_number < atol(argv[1]); ++round_number) {
    MPI_Comm part;
    within(20, "round %ld", round_number);
    MPI_Comm_split(MPI_COMM_WORLD, round_number % 2 ? world_rank > 0 : world_rank > 1, world_rank, &part);
    if (round_number % 3 == 0) sum_ranks(part, 0, "before it is freed");
    MPI_Comm_set_attr(part, key, NULL);
    if (round_number % 4 == 3) MPI_Comm_disconnect(&part);
    else MPI_Comm_free(&part);
  }
  MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
  if (world_rank == 0) printf("to the host: %ld\n", to_the_host);
  finalizing = 1;
  within(20, "MPI_Finalize");
  check_finish();
  CHECK(finalizing == 2, "%d callbacks in MPI_Finalize", finalizing - 1);
  return check_failures != 0;
}
