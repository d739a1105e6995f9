/* SPDX-License-Identifier: BSD-3-Clause
 *
 *     persistent_boards REQUESTS MOST_BOARDS MOST_MIB
 *
 * Makes REQUESTS persistent requests and keeps them, starts them in another order on each rank, and makes and
 * frees others meanwhile. Their boards may be MOST_BOARDS in number and take MOST_MIB of address space.
 */
#include "check.h"
#include "mapped.h"
#include "persistent.h"

enum { most_requests = 200, few = 4, many = 60000, length = 2 * many, starts = 3 };

static MPI_Request requests[most_requests];
static int *input[most_requests], *output[most_requests];

/* Short allreduces alternate with long ones, with an alltoall now and then. */
static int count_of(int number) { return number % 4 == 3 ? many : few; }
static int is_alltoall(int number) { return number % 5 == 4; }

static void make(int number, MPI_Request *request) {
  const int count = count_of(number);
  if (is_alltoall(number))
    MPI_Alltoall_init(input[number], few, MPI_INT, output[number], few, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, request);
  else
    MPI_Allreduce_init(input[number], output[number], count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, request);
}

static void fill(int number, int start) {
  for (int k = 0; k < length; ++k) {
    input[number][k] = number + start + k + world_rank;
    output[number][k] = -1;
  }
}

static void look(int number, int start) {
  long wrong = 0;
  const int ranks = world_size;
  if (is_alltoall(number)) {
    for (int k = 0; k < few * ranks; ++k)
      wrong += output[number][k] != number + start + world_rank * few + k % few + k / few;
  } else {
    for (int k = 0; k < count_of(number); ++k)
      wrong += output[number][k] != ranks * (number + start + k) + ranks * (ranks - 1) / 2;
  }
  CHECK(wrong == 0, "request %d, start %d: %ld wrong", number, start, wrong);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int count = atoi(argv[1]);
  if (!has_persistent) return check_finish();
  for (int k = 0; k < count; ++k) {
    input[k] = allocate(sizeof(int) * length);
    output[k] = allocate(sizeof(int) * length);
  }
  const int one = 1;
  int sum = 0;
  allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  const struct mapped before = mapped_boards();
  within(60, "making");
  for (int k = 0; k < count; ++k) make(k, &requests[k]);
  const struct mapped after = mapped_boards();
  CHECK(after.boards - before.boards <= atoi(argv[2]), "%d boards for %d requests", after.boards - before.boards, count);
  CHECK(after.virtual_kib - before.virtual_kib <= 1024 * atol(argv[3]), "%ld KiB of address space for %d requests",
        after.virtual_kib - before.virtual_kib, count);

  for (int start = 0; start < starts; ++start) {
    for (int k = 0; k < count; ++k) fill(k, start);
    within(60, "start %d", start);
    for (int k = 0; k < count; ++k) MPI_Start(&requests[(k * 7 + world_rank * 3 + start) % count]);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    for (int k = 0; k < count; ++k) look(k, start);
  }

  /* Ranks free them in different orders. */
  within(60, "making and freeing");
  for (int round = 0; round < 100; ++round) {
    MPI_Request two[2];
    make(0, &two[0]);
    make(1, &two[1]);
    fill(0, round);
    fill(1, round);
    MPI_Startall(2, two);
    MPI_Waitall(2, two, MPI_STATUSES_IGNORE);
    look(0, round);
    look(1, round);
    MPI_Request_free(&two[world_rank % 2]);
    MPI_Request_free(&two[1 - world_rank % 2]);
  }
  const struct mapped at_end = mapped_boards();
  CHECK(at_end.boards <= after.boards + 4, "%d boards after %d", at_end.boards, after.boards);
  for (int k = 0; k < count; ++k) {
    MPI_Request_free(&requests[(k * 7 + world_rank) % count]);
  }
  for (int k = 0; k < count; ++k) {
    free(input[k]);
    free(output[k]);
  }
  return check_finish();
}
