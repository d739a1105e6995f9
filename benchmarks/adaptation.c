// SPDX-License-Identifier: BSD-3-Clause
// Measures what rules `A | B` cost on one node, by the last delays of many calls: the times from the last
// arrival to the last exit.
//
//     adaptation mixed|short|change CALLS ROUNDS A B
//
// mixed: bcast, allgather and alltoall of several sizes in random order. short: allgathers of 8 bytes.
// change: bcasts of 64 KiB; in the second half one rank after the other is late.
//
// A round runs the program three times: with A alone, with B alone, and with the rules of the start, which
// say `A | B`. Each of the three begins as a new program would, because a new choice ends all trials. The
// first round does not count. For each kind of calls rank 0 prints a line
//
//     ROUND WAY, KIND: CALLS SECONDS CALLS_BY_B LAST_BY_B
//
// with the sum of the last delays, the number of calls that B ran, and 1 if B ran the last call. For `change`
// it prints only the second half of each half. A trial has then opened again.
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { longest = 1 << 16, kinds = 12, late_us = 50, ways = 3 };

static const int sizes[] = {8, 1024, 16384, longest};
static const char* const names[] = {"bcast", "allgather", "alltoall"};
static char *mine, *theirs;
static int rank, ranks;

static int (*select_algorithm)(const char*, const char*, char*, size_t);
static const char* (*last_algorithm)(void);

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

static void choose(const char* algorithm) {
  char error[256];
  for (int k = 0; k < 3; ++k) {
    if (select_algorithm(names[k], algorithm, error, sizeof error) == 0) continue;
    fprintf(stderr, "adaptation: %s\n", error);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  for (int k = 0; k < 10; ++k) MPI_Barrier(MPI_COMM_WORLD);  // the ranks agree on the plans
}

static void* function(const char* name) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  if (found == NULL) {
    fprintf(stderr, "adaptation: no %s: run this under offbeat\n", name);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  return found;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 6) MPI_Abort(MPI_COMM_WORLD, 2);
  *(void**)&select_algorithm = function("offbeat_select");
  *(void**)&last_algorithm = function("offbeat_last_algorithm");
  const char program = argv[1][0];
  const int calls = atoi(argv[2]), rounds = atoi(argv[3]);
  const char* const choices[ways] = {argv[4], argv[5], ""};
  mine = calloc((size_t)ranks, longest);
  theirs = calloc((size_t)ranks, longest);
  int64_t* const times = calloc((size_t)calls * 2, sizeof *times);
  int64_t* const all = rank == 0 ? calloc((size_t)calls * 2 * (size_t)ranks, sizeof *all) : NULL;
  int* const kind = calloc((size_t)calls, sizeof *kind);
  const char** const ran = calloc((size_t)calls, sizeof *ran);
  uint64_t random = 1;
  for (int k = 0; k < calls; ++k) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    kind[k] = program == 'm' ? (int)(random >> 33) % kinds : program == 's' ? 4 : 3;
  }

  for (int turn = 0; turn < ways * (rounds + 1); ++turn) {
    const int round = turn / ways, way = (turn + round) % ways;
    choose(choices[way]);
    for (int k = 0; k < calls; ++k) {
      const int late = program == 'c' && k >= calls / 2 && k % ranks == rank;
      for (const int64_t begin = now(); late && now() - begin < late_us * 1000;) continue;
      call(kind[k], &times[2 * k], &times[2 * k + 1]);
      ran[k] = last_algorithm();
    }
    PMPI_Gather(times, 2 * calls, MPI_INT64_T, all, 2 * calls, MPI_INT64_T, 0, MPI_COMM_WORLD);
    if (rank != 0 || round == 0) continue;

    double sums[kinds + 2] = {0};
    int counts[kinds + 2] = {0}, by_second[kinds + 2] = {0}, last_by_second[kinds + 2] = {0};
    for (int k = 0; k < calls; ++k) {
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
      last_by_second[row] = strcmp(ran[k] == NULL ? "native" : ran[k], choices[1]) == 0;
      by_second[row] += last_by_second[row];
    }
    for (int row = 0; row < kinds + 2; ++row) {
      if (counts[row] == 0) continue;
      printf("%d %d, ", round, way);
      if (row < kinds) {
        printf("%s %d", names[row / 4], sizes[row % 4]);
      } else {
        printf("%s half", row == kinds ? "first" : "second");
      }
      printf(": %d %.9f %d %d\n", counts[row], sums[row], by_second[row], last_by_second[row]);
    }
  }
  MPI_Finalize();
  return 0;
}
