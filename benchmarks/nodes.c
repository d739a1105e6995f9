// SPDX-License-Identifier: BSD-3-Clause
// MPI_Allreduce on several nodes: nodes SIZES SECONDS [LATE SKEW_US]
//
// SIZES: bytes of the vectors of MPI_FLOAT, with commas. SECONDS: for each size.
// LATE: one, two, half (so many nodes, the last ones), random or ascending; SKEW_US: by how much at most. All
// ranks of a node are late together.
//
// Without LATE calls follow one another, and a sample is the time of a call in a batch of them, on the
// slowest rank. Else ranks sleep after a barrier, and a sample is the time from the last arrival to the last
// exit: the clocks of all nodes have to agree. Prints for each size a line: bytes, FNV-1a of the result,
// which has to be the same on all ranks, and the samples in microseconds.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { batches = 15, longest_batch = 100, most_samples = 200 };

static int rank, ranks, node, nodes;

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static double latest(double mine) {
  double result = 0;
  MPI_Allreduce(&mine, &result, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return result;
}

static void find_nodes(void) {
  MPI_Comm here, leaders;
  int member;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
  MPI_Comm_rank(here, &member);
  MPI_Comm_split(MPI_COMM_WORLD, member == 0 ? 0 : MPI_UNDEFINED, 0, &leaders);
  int about[2] = {0, 0};
  if (member == 0) {
    MPI_Comm_rank(leaders, &about[0]);
    MPI_Comm_size(leaders, &about[1]);
    MPI_Comm_free(&leaders);
  }
  MPI_Bcast(about, 2, MPI_INT, 0, here);
  MPI_Comm_free(&here);
  node = about[0];
  nodes = about[1];
}

// Of the skew, how late this node is in call number k.
static double lateness(const char* pattern, unsigned k) {
  if (strcmp(pattern, "one") == 0) return node == nodes - 1;
  if (strcmp(pattern, "two") == 0) return node >= nodes - 2;
  if (strcmp(pattern, "half") == 0) return node >= nodes - nodes / 2;
  if (strcmp(pattern, "ascending") == 0) return (double)node / (nodes - 1);
  unsigned x = (k * 2654435761u) ^ ((unsigned)node * 40503u + 977u);
  for (int round = 0; round < 3; ++round) x = (x ^ (x >> 15)) * 2246822519u;
  return (double)(x >> 8) / (double)(1u << 24);
}

static void sleep_until(double us) {
  const struct timespec t = {(time_t)(us / 1e6), (long)((us - 1e6 * (double)(time_t)(us / 1e6)) * 1e3)};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static uint64_t hash(const void* data, size_t bytes) {
  uint64_t h = 14695981039346656037u;
  for (size_t k = 0; k < bytes; ++k) h = (h ^ ((const unsigned char*)data)[k]) * 1099511628211u;
  return h;
}

static void check(const float* result, size_t bytes) {
  const uint64_t mine = hash(result, bytes);
  uint64_t first = mine;
  MPI_Bcast(&first, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  int differs = mine != first, any = 0;
  MPI_Allreduce(&differs, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0) printf(" %s%016llx", any ? "DIFFERENT" : "", (unsigned long long)mine);
}

static int call(const float* in, float* out, size_t bytes) {
  return MPI_Allreduce(in, out, (int)(bytes / sizeof(float)), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static double batch_us(const float* in, float* out, size_t bytes, int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = now_us();
  for (int k = 0; k < calls; ++k) call(in, out, bytes);
  return latest(now_us() - start) / calls;
}

static double last_delay_us(const float* in, float* out, size_t bytes, const char* pattern, double skew,
                            unsigned k) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double late = skew * lateness(pattern, k);
  if (late > 0) sleep_until(now_us() + late);
  const double arrived = now_us();
  call(in, out, bytes);
  const double left = now_us();
  return latest(left) - latest(arrived);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 3 && argc != 5) {
    if (rank == 0) fputs("nodes SIZES SECONDS [LATE SKEW_US]\n", stderr);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const double budget_us = 1e6 * atof(argv[2]);
  const char* pattern = argc == 5 ? argv[3] : NULL;
  const double skew = argc == 5 ? atof(argv[4]) : 0;
  find_nodes();
  for (const char* word = argv[1]; word != NULL; word = strchr(word, ',') ? strchr(word, ',') + 1 : NULL) {
    const size_t bytes = strtoul(word, NULL, 10);
    float* in = malloc(bytes);
    float* out = malloc(bytes);
    for (size_t k = 0; k < bytes / sizeof(float); ++k) in[k] = (float)(1 + rank) / (float)(1 + k % 977);
    double once = 0;  // of the second call: the first one connects
    for (int k = 0; k < 3; ++k) once = batch_us(in, out, bytes, 1);
    if (rank == 0) printf("%zu", bytes);
    check(out, bytes);
    const double reserve = pattern ? skew + 2 * once + 2000 : once;
    int samples = (int)(latest(budget_us / reserve) + 0.5), calls = 1;
    if (pattern == NULL) {
      calls = samples / batches < 1               ? 1
              : samples / batches > longest_batch ? longest_batch
                                                  : samples / batches;
      samples = samples < batches ? samples : batches;
    }
    if (samples < 3) samples = 3;
    if (samples > most_samples) samples = most_samples;
    for (int k = 0; k < samples; ++k) {
      const double us = pattern ? last_delay_us(in, out, bytes, pattern, skew, (unsigned)k)
                                : batch_us(in, out, bytes, calls);
      if (rank == 0) printf(" %.1f", us);
    }
    check(out, bytes);
    if (rank == 0) printf("\n");
    fflush(stdout);
    free(in);
    free(out);
  }
  MPI_Finalize();
  return 0;
}
