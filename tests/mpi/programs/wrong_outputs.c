/* SPDX-License-Identifier: BSD-3-Clause
 *
 * wrong_outputs COLLECTIVE:OUTPUT...: calls with a wrong output on ranks that the others do not hear of: the root of a
 * reduce or gather, which alone has an output, and rank 0 of an exscan, which gets no result. Rank 0 prints what each
 * rank got:
 *
 *     reduce, in_place, non-blocking: class 12 0 0
 *
 * What is right differs between MPIs. After each of these calls, other calls must give the right results.
 */
#include "check.h"

enum { ELEMENTS = 3, RANKS = 8 };
static int input[ELEMENTS], output[ELEMENTS * RANKS];

static void good_calls(const char *after) {
  for (int k = 0; k < 3; ++k) {
    const int own = world_rank + 1;
    int sum = -1, before = -1, all[RANKS];
    MPI_Exscan(&own, &before, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allgather(&own, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Reduce(&own, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    CHECK(world_rank == 0 || before == world_rank * own / 2, "after %s: %d before rank %d", after, before, world_rank);
    CHECK(world_rank != 0 || sum == world_size * (world_size + 1) / 2, "after %s: sum %d", after, sum);
    CHECK(all[world_size - 1] == world_size, "after %s: rank %d gave %d", after, world_size - 1, all[world_size - 1]);
  }
}

static int call(const char *collective, const void *from, void *to, int count, int is_blocking) {
  const MPI_Comm world = MPI_COMM_WORLD;
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_SUCCESS;
  if (strcmp(collective, "exscan") == 0) {
    if (is_blocking) return MPI_Exscan(from, to, count, MPI_INT, MPI_SUM, world);
    code = MPI_Iexscan(from, to, count, MPI_INT, MPI_SUM, world, &request);
  } else if (strcmp(collective, "reduce") == 0) {
    if (is_blocking) return MPI_Reduce(from, to, ELEMENTS, MPI_INT, MPI_SUM, 0, world);
    code = MPI_Ireduce(from, to, ELEMENTS, MPI_INT, MPI_SUM, 0, world, &request);
  } else {
    if (is_blocking) return MPI_Gather(from, ELEMENTS, MPI_INT, to, count, MPI_INT, 0, world);
    code = MPI_Igather(from, ELEMENTS, MPI_INT, to, count, MPI_INT, 0, world, &request);
  }
  return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  int classes[RANKS];
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  good_calls("nothing");
  for (int k = 1; k < argc; ++k) {
    const char *collective = strtok(argv[k], ":"), *wrong = strtok(NULL, ":");
    for (int is_blocking = 1; is_blocking >= 0; --is_blocking) {
      char text[100];
      snprintf(text, sizeof text, "%s, %s, %s", collective, wrong, is_blocking ? "blocking" : "non-blocking");
      within(20, "%s", text);
      void *const to = strcmp(wrong, "null") == 0       ? NULL
                       : strcmp(wrong, "in_place") == 0 ? MPI_IN_PLACE
                       : strcmp(wrong, "input") == 0    ? input
                                                        : output;
      const int count = strcmp(wrong, "negative_count") == 0 ? -1 : ELEMENTS;
      int class;
      MPI_Error_class(call(collective, input, to, count, is_blocking), &class);
      good_calls(text);
      MPI_Allgather(&class, 1, MPI_INT, classes, 1, MPI_INT, MPI_COMM_WORLD);
      if (world_rank != 0) continue;
      printf("%s: class", text);
      for (int rank = 0; rank < world_size; ++rank) printf(" %d", classes[rank]);
      printf("\n");
    }
  }
  return check_finish();
}
