/* SPDX-License-Identifier: BSD-3-Clause
 *
 *     says_no ROUNDS
 *
 * MPI_Testall of several requests that are not all complete says no and changes none of them, however often
 * it is called while they end.
 */
#include "check.h"

enum { REQUESTS = 2 };

static void wait_a_little(unsigned *chance) {
  const unsigned loops = (unsigned)rand_r(chance) % 400;
  for (volatile unsigned k = 0; k < loops; ++k) continue;
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const long rounds = atol(argv[1]);
  unsigned chance = (unsigned)world_rank + 1;
  MPI_Comm communicators[REQUESTS];
  for (int k = 0; k < REQUESTS; ++k) {
    MPI_Comm_dup(MPI_COMM_WORLD, &communicators[k]);
    MPI_Barrier(communicators[k]);
  }
  long said_no = 0;
  for (long round = 0; round < rounds; ++round) {
    MPI_Request requests[REQUESTS], before[REQUESTS];
    int out[REQUESTS];
    const int one = 1;
    for (int k = 0; k < REQUESTS; ++k) {
      MPI_Iallreduce(&one, &out[k], 1, MPI_INT, MPI_SUM, communicators[k], &requests[k]);
      ++check_calls;
    }
    memcpy(before, requests, sizeof requests);
    wait_a_little(&chance);
    int flag = 0, are_same = 1;
    while (flag == 0 && are_same) {
      MPI_Testall(REQUESTS, requests, &flag, MPI_STATUSES_IGNORE);
      if (flag == 0) ++said_no;
      if (flag == 0) are_same = memcmp(before, requests, sizeof requests) == 0;
    }
    CHECK(are_same, "round %ld: MPI_Testall says no and has changed a request", round);
    MPI_Waitall(REQUESTS, requests, MPI_STATUSES_IGNORE);
    for (int k = 0; k < REQUESTS; ++k) CHECK(out[k] == world_size, "round %ld: sum %d", round, out[k]);
  }
  CHECK(said_no > 0, "MPI_Testall never says no");
  for (int k = 0; k < REQUESTS; ++k) MPI_Comm_free(&communicators[k]);
  return check_finish();
}
