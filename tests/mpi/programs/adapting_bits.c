/* SPDX-License-Identifier: BSD-3-Clause
 *
 * adapting_bits CALLS: reductions of numbers whose sum depends on the order of the additions, between random
 * delays that differ from run to run. Prints a hash of all results, which is equal on all ranks.
 */
#include <stdint.h>
#include <time.h>

#include "check.h"

enum { NUMBERS = 2500 };

static double mine[NUMBERS], sums[NUMBERS];

static uint64_t hash(uint64_t before, const void* data, size_t bytes) {
  const unsigned char* at = data;
  for (size_t i = 0; i < bytes; ++i) before = (before ^ at[i]) * 1099511628211u;
  return before;
}

int main(int argc, char** argv) {
  check_start(&argc, &argv);
  uint64_t seed = (uint64_t)getpid() * 2654435761u + (uint64_t)time(NULL), found = 14695981039346656037u;
  for (int call = 0; call < atoi(argv[1]); ++call) {
    within(60, "call %d", call);
    const int count = call % 2 ? 3 : NUMBERS;
    for (int i = 0; i < count; ++i)
      mine[i] = 1.0 / (1 + call * 7 + i) * (world_rank % 2 ? 1e8 : 1.0) + world_rank / 3.0;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    if (seed >> 60 == 0) usleep((useconds_t)(seed >> 33) % 2000);
    if (call % 5 == 0) {
      MPI_Request request;
      MPI_Iallreduce(mine, sums, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      allreduce(mine, sums, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    found = hash(found, sums, (size_t)count * sizeof *sums);
  }
  uint64_t least, most;
  MPI_Reduce(&found, &least, 1, MPI_UINT64_T, MPI_MIN, 0, MPI_COMM_WORLD);
  MPI_Reduce(&found, &most, 1, MPI_UINT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
  if (world_rank == 0) {
    CHECK(least == most, "ranks got different bits");
    printf("hash: %llu\n", (unsigned long long)found);
  }
  return check_finish();
}
