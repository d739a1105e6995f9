// SPDX-License-Identifier: BSD-3-Clause
// What rules `A | B` cost: the last delays of many calls, from the last arrival to the last exit, on one
// node.
//
//     adaptation mixed|short|change CALLS
//
// mixed: bcast, allgather and alltoall of several sizes in random order. short: allgathers of 8 bytes.
// change: bcasts of 64 KiB; in the second half one rank after the other is late. Rank 0 prints for each kind
// of calls a line with its name, the number of calls and the sum of their last delays in seconds. Of `change`
// it prints the second half of each half, when a trial has opened again.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { longest = 1 << 16, kinds = 12, late_us = 200 };

static const int sizes[] = {8, 1024, 16384, longest};
static const char* const names[] = {"bcast", "allgather", "alltoall"};
static char *mine, *theirs;
static int rank, ranks;

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void call(int kind, int64_t* arrival, int64_t* leave) {
  const int bytes = sizes[kind % 4];
  *arrival = now();
  switch (kind / 4) {
    case 0:
      MPI_Bcast(mine, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
      break;
    case 1:
      MPI_Allgather(mine, bytes, MPI_BYTE, theirs, bytes, MPI_BYTE, MPI_COMM_WORLD);
      break;
    default:
      MPI_Alltoall(mine, bytes, MPI_BYTE, theirs, bytes, MPI_BYTE, MPI_COMM_WORLD);
  }
  *leave = now();
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);
  const char program = argv[1][0];
  const int calls = atoi(argv[2]);
  mine = calloc((size_t)ranks, longest);
  theirs = calloc((size_t)ranks, longest);
  int64_t* const times = calloc((size_t)calls * 2, sizeof *times);
  int* const kind = calloc((size_t)calls, sizeof *kind);
  uint64_t random = 1;
  for (int k = 0; k < calls; ++k) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    kind[k] = program == 'm' ? (int)(random >> 33) % kinds : program == 's' ? 4 : 3;
    const int late = program == 'c' && k >= calls / 2 && k % ranks == rank;
    for (const int64_t begin = now(); late && now() - begin < late_us * 1000;) continue;
    call(kind[k], &times[2 * k], &times[2 * k + 1]);
  }

  int64_t* const all = rank == 0 ? calloc((size_t)calls * 2 * (size_t)ranks, sizeof *all) : NULL;
  MPI_Gather(times, 2 * calls, MPI_INT64_T, all, 2 * calls, MPI_INT64_T, 0, MPI_COMM_WORLD);
  double sums[kinds + 2] = {0};
  int counts[kinds + 2] = {0};
  for (int k = 0; k < calls && rank == 0; ++k) {
    int64_t last = 0, end = 0;
    for (int other = 0; other < ranks; ++other) {
      const int64_t* const its = all + 2 * ((size_t)other * (size_t)calls + (size_t)k);
      if (its[0] > last) last = its[0];
      if (its[1] > end) end = its[1];
    }
    const int quarter = (int)(4LL * k / calls);
    if (program == 'c' && quarter % 2 == 0) continue;
    const int row = program == 'c' ? kinds + quarter / 2 : kind[k];
    sums[row] += (double)(end - last) * 1e-9;
    ++counts[row];
  }
  for (int row = 0; row < kinds + 2; ++row) {
    if (counts[row] == 0) continue;
    if (row < kinds) {
      printf("%s %d: %d %.9f\n", names[row / 4], sizes[row % 4], counts[row], sums[row]);
    } else {
      printf("%s half: %d %.9f\n", row == kinds ? "first" : "second", counts[row], sums[row]);
    }
  }
  MPI_Finalize();
  return 0;
}
