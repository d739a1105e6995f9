/* SPDX-License-Identifier: BSD-3-Clause
 *
 * left_out ELEMENTS [begun]: the host rejects a rooted call on one rank only, which does not repeat it. The ranks go on
 * with other rooted calls. With `begun` they begin each call, and wait for it. Nobody may get wrong data or wait
 * forever; what offbeat cannot serve must be an error. Rank 0 prints how many cases ended without an error on any rank:
 *
 *     right: 5
 *
 * The last calls of each case are on a new communicator of the same ranks, where all must be right.
 */
#include <ctype.h>

#include "check.h"

/* What the ranks call, with root 0: g(ather), b(cast), r(educe), s(catter). One rank is left out of the first call. */
static const struct {
  const char *calls;
  int is_last; /* the last rank is left out, not the root */
} cases[] = {{"g", 0},   {"gr", 0}, {"gb", 0}, {"gbb", 0}, {"rg", 0},
             {"rss", 0}, {"b", 1},  {"br", 1}, {"brr", 1}, {"sgr", 1}};
enum { CASES = sizeof cases / sizeof *cases };

static int elements, are_begun, *mine, *all;

static int value(int call, int rank) { return 1000 * (call + 1) + rank; }

/* Makes one call, and checks what this rank gets. Returns 0 after an error. */
static int make(char which, int number, int root, MPI_Comm on, int is_begun, const char *text) {
  int code = MPI_SUCCESS, found = 0, expected = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  for (int k = 0; k < elements; ++k) mine[k] = value(number, world_rank);
  for (int k = 0; k < elements * world_size; ++k) all[k] = which == 's' ? value(number, k / elements) : 0;
  switch (is_begun ? toupper(which) : which) {
    case 'g': code = MPI_Gather(mine, elements, MPI_INT, all, elements, MPI_INT, root, on); break;
    case 'b': code = MPI_Bcast(mine, elements, MPI_INT, root, on); break;
    case 'r': code = MPI_Reduce(mine, all, elements, MPI_INT, MPI_SUM, root, on); break;
    case 's': code = MPI_Scatter(all, elements, MPI_INT, mine, elements, MPI_INT, root, on); break;
    case 'a': code = MPI_Allreduce(mine, all, elements, MPI_INT, MPI_SUM, on); break;
    case 'G': code = MPI_Igather(mine, elements, MPI_INT, all, elements, MPI_INT, root, on, &request); break;
    case 'B': code = MPI_Ibcast(mine, elements, MPI_INT, root, on, &request); break;
    case 'R': code = MPI_Ireduce(mine, all, elements, MPI_INT, MPI_SUM, root, on, &request); break;
    case 'S': code = MPI_Iscatter(all, elements, MPI_INT, mine, elements, MPI_INT, root, on, &request); break;
    case 'A': code = MPI_Iallreduce(mine, all, elements, MPI_INT, MPI_SUM, on, &request); break;
  }
  if (code == MPI_SUCCESS && is_begun) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) return 0;
  if (which == 'b') found = mine[elements - 1], expected = value(number, 0);
  if (which == 's') found = mine[elements - 1], expected = value(number, world_rank);
  if (which == 'g' && world_rank == 0) found = all[elements * world_size - 1], expected = value(number, world_size - 1);
  for (int rank = 0; rank < world_size && (which == 'a' || (which == 'r' && world_rank == 0)); ++rank)
    found = all[elements - 1], expected += value(number, rank);
  CHECK(found == expected, "%s: call %d gives %d, not %d", text, number, found, expected);
  return 1;
}

static int try_case(int number) {
  const char *const calls = cases[number].calls;
  const int wrong_rank = cases[number].is_last ? world_size - 1 : 0;
  MPI_Comm on;
  int is_right = 1;
  within(40, "%s of %d", calls, elements);
  MPI_Comm_dup(MPI_COMM_WORLD, &on);
  MPI_Comm_set_errhandler(on, MPI_ERRORS_RETURN);
  make('a', 0, 0, on, 0, calls); /* begun calls go to offbeat only after this */
  if (world_rank == wrong_rank)
    CHECK(!make(calls[0], 0, world_size, on, are_begun, calls), "%s: a root that does not exist", calls);
  for (int k = world_rank == wrong_rank; calls[k] && is_right; ++k) is_right = make(calls[k], k, 0, on, are_begun, calls);
  MPI_Allreduce(MPI_IN_PLACE, &is_right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  MPI_Comm_free(&on);
  MPI_Comm_dup(MPI_COMM_WORLD, &on);
  for (const char *call = "agbrsa"; *call; ++call) make(*call, 7, 0, on, 0, calls);
  MPI_Comm_free(&on);
  return is_right;
}

int main(int argc, char **argv) {
  int right = 0;
  check_start(&argc, &argv);
  elements = atoi(argv[1]);
  are_begun = argc > 2;
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN); /* MPIs report a failed request there, or on the world */
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  mine = allocate(sizeof(int) * (size_t)elements);
  all = allocate(sizeof(int) * (size_t)(elements * world_size));
  for (int number = 0; number < CASES; ++number) right += try_case(number);
  alarm(0);
  if (world_rank == 0) printf("right: %d\n", right);
  return check_finish();
}
