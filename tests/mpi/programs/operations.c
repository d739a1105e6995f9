/* SPDX-License-Identifier: BSD-3-Clause
 *
 *     operations ROUNDS [MIB [VICTIM MICROSECONDS]]
 *
 * Many allreduces of the C interface under way on two communicators, blocking ones between them, completed in an
 * order that differs from rank to rank. No file can be longer than MIB,
 * if it is not 0. A VICTIM is killed so long after it has begun.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "interface.h"
#include "kill.h"
#include "refuse.h"

enum { under_way = 9, most = 40000 };
static const size_t lengths[] = {1, 5, 700, 3000, most, 0};

static int64_t input[under_way][most];
static int64_t output[under_way][most];

/* Of operation `number` on rank `rank`. */
static int64_t element(uint64_t number, int rank, size_t i) {
  return (int64_t)((number * 7919 + (uint64_t)rank * 104729 + i * 31) % 1000003);
}

static int64_t sum(uint64_t number, int ranks, size_t i) {
  int64_t total = 0;
  for (int rank = 0; rank < ranks; ++rank) total += element(number, rank, i);
  return total;
}

static int has_victim;

/* Whether a call succeeded. A rank that fails because the victim has died stops here. */
static int succeeded(offbeat_status status) {
  if (status != OFFBEAT_OK && has_victim) _exit(1);
  return status == OFFBEAT_OK;
}

int main(int argc, char** argv) {
  check_start(&argc, &argv);
  const int rounds = atoi(argv[1]);
  if (argc > 2 && atoi(argv[2]) > 0) limit_files((unsigned)atoi(argv[2]));
  has_victim = argc > 4;
  if (has_victim && atoi(argv[3]) == world_rank) be_killed_after(atol(argv[4]));
  __typeof__(&offbeat_test) test = function("offbeat_test");
  __typeof__(&offbeat_wait) wait = function("offbeat_wait");
  const int rank = world_rank, ranks = world_size;
  MPI_Comm communicators[2] = {MPI_COMM_WORLD, MPI_COMM_NULL};
  MPI_Comm_dup(MPI_COMM_WORLD, &communicators[1]);
  srand(1 + (unsigned)rank);
  uint64_t number = 0;
  for (int round = 0; round < rounds; ++round) {
    offbeat_request* requests[under_way];
    uint64_t numbers[under_way];
    size_t counts[under_way];
    const int now = 1 + round % under_way;
    for (int k = 0; k < now; ++k) {
      numbers[k] = ++number;
      counts[k] = lengths[number % (sizeof lengths / sizeof *lengths)];
      for (size_t i = 0; i < counts[k]; ++i) {
        input[k][i] = element(number, rank, i);
        output[k][i] = -1;
      }
      const MPI_Comm communicator = communicators[(number / 3) % 2];
      CHECK(succeeded(offbeat_iallreduce(input[k], output[k], counts[k], OFFBEAT_INT64, OFFBEAT_SUM,
                                         FORTRAN_HANDLE(communicator), &requests[k])),
            "begin %d", (int)number);
      if (number % 4 == 0) {
        long mine = rank + 1, all = 0;
        allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, communicators[number % 2]);
        CHECK(all == (long)ranks * (ranks + 1) / 2, "blocking, beside %d", (int)number);
      }
    }
    int order[under_way];
    for (int k = 0; k < now; ++k) {
      const int other = rand() % (k + 1);
      order[k] = order[other];
      order[other] = k;
    }
    for (int position = 0; position < now; ++position) {
      const int k = order[position];
      int complete = 0;
      while (position % 2 == 0 && !complete) CHECK(succeeded(test(&requests[k], &complete)), "test");
      CHECK(succeeded(wait(&requests[k])) && requests[k] == NULL, "wait for %d", (int)numbers[k]);
      size_t wrong = 0;
      for (size_t i = 0; i < counts[k]; ++i) wrong += output[k][i] != sum(numbers[k], ranks, i);
      CHECK(wrong == 0, "operation %d of %zu elements: %zu wrong", (int)numbers[k], counts[k], wrong);
    }
  }
  /* The communicator goes before what is under way on it. */
  offbeat_request* last;
  CHECK(offbeat_iallreduce(input[0], output[0], most, OFFBEAT_INT64, OFFBEAT_SUM, FORTRAN_HANDLE(communicators[1]), &last) ==
            OFFBEAT_OK,
        "begin the last");
  MPI_Comm_free(&communicators[1]);
  CHECK(wait(&last) == OFFBEAT_OK, "wait for the last");
  return check_finish();
}
