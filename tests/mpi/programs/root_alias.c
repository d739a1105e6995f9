/* SPDX-License-Identifier: BSD-3-Clause
 *
 * root_alias COLLECTIVE...: makes calls in which the root's input is its output, without MPI_IN_PLACE. Some
 * hosts return an error there, others do what the program means. The other ranks know nothing of it. Rank 0
 * prints what each rank got:
 *
 *     reduce, blocking, 3 ints: class 12 0 0, as in place 0
 *
 * After each of these calls, other calls must give the right sums.
 */
#include "check.h"
#include "persistent.h"

enum { SHORT = 3 };
static int buffer[16 * SHORT], sums[SHORT];

static void good_calls(const char *after) {
  for (int k = 0; k < 3; ++k) {
    const int own[SHORT] = {world_rank, k, 1};
    allreduce(own, sums, SHORT, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sums[0] == world_size * (world_size - 1) / 2 && sums[1] == k * world_size && sums[2] == world_size,
          "after %s: %d %d %d", after, sums[0], sums[1], sums[2]);
  }
}

/* Further calls in other forms: more than there are stages, and a persistent one. */
static void good_requests(const char *after) {
  for (int k = 0; k < 5; ++k) {
    MPI_Request request;
    const int own = world_rank + k;
    int sum = -1;
    MPI_Iallreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(sum == world_size * (world_size - 1) / 2 + k * world_size, "Iallreduce %d after %s: %d", k, after, sum);
  }
  if (!has_persistent) return;
  MPI_Request request = MPI_REQUEST_NULL;
  int sum = -1;
  MPI_Allreduce_init(&world_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  MPI_Start(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(sum == world_size * (world_size - 1) / 2, "persistent allreduce after %s: %d", after, sum);
  MPI_Request_free(&request);
}

static int call(int collective, int is_blocking, int ints) {
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_SUCCESS;
  const int root = 0;
  int *mine = buffer;
  switch (collective) {
    case 0:
      if (is_blocking) return MPI_Reduce(mine, mine, ints, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
      code = MPI_Ireduce(mine, mine, ints, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD, &request);
      break;
    case 1:
      if (is_blocking) return MPI_Gather(mine, ints, MPI_INT, mine, ints, MPI_INT, root, MPI_COMM_WORLD);
      code = MPI_Igather(mine, ints, MPI_INT, mine, ints, MPI_INT, root, MPI_COMM_WORLD, &request);
      break;
    default: /* a non-blocking one may go to the host, and then the other ranks wait forever */
      return MPI_Scatter(mine, ints, MPI_INT, mine, ints, MPI_INT, root, MPI_COMM_WORLD);
  }
  return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const char *names[] = {"reduce", "gather", "scatter"};
  const int lengths[] = {2, SHORT};
  int *classes = allocate(sizeof(int) * (size_t)world_size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  good_calls("nothing");
  for (int k = 1; k < argc; ++k)
    for (int is_blocking = 1; is_blocking >= (strcmp(argv[k], "scatter") == 0); --is_blocking)
      for (int l = 0; l < 2; ++l) {
        char text[100];
        int collective = 0;
        while (collective < 2 && strcmp(argv[k], names[collective]) != 0) ++collective;
        snprintf(text, sizeof text, "%s, %s, %d ints", names[collective], is_blocking ? "blocking" : "non-blocking",
                 lengths[l]);
        within(20, "%s", text);
        for (int i = 0; i < world_size * lengths[l]; ++i) buffer[i] = 1000 * world_rank + i;
        int class, is_sum = 1;
        MPI_Error_class(call(collective, is_blocking, lengths[l]), &class);
        for (int i = 0; i < lengths[l]; ++i)
          is_sum &= buffer[i] == 500 * world_size * (world_size - 1) + world_size * i;
        good_calls(text);
        if (getenv("REQUESTS_TOO")) good_requests(text);
        MPI_Gather(&class, 1, MPI_INT, classes, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (world_rank != 0) continue;
        printf("%s: class", text);
        for (int rank = 0; rank < world_size; ++rank) printf(" %d", classes[rank]);
        if (collective == 0) printf(", as in place %d", is_sum);
        printf("\n");
      }
  free(classes);
  return check_finish();
}
