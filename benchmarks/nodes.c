// SPDX-License-Identifier: BSD-3-Clause
// A collective on several nodes: nodes COLLECTIVE SIZES SECONDS [LATE SKEW_US]
//
// COLLECTIVE: allreduce, for example. SIZES: bytes of MPI_FLOAT, with commas, of the vector or, where there
// is one for each rank, of a block, as in `offbeat bench`. SECONDS: for each size. LATE: one, two, half (that
// many nodes, the last ones), random or ascending, in which all ranks of a node are late together, or rank
// (only the last one); SKEW_US: by how much at most.
//
// Without LATE calls follow one another, and a sample is the time of a call in a batch of them, on the
// slowest rank. Where there is a root, such calls would overlap: there ranks sleep to one instant before each
// call. With LATE they sleep after a barrier. A sample of these is the time from the last arrival to the last
// exit: the clocks of all nodes have to agree. Prints for each size a line: bytes, FNV-1a of the results,
// which have to be the same on all ranks where all get the same, the samples in microseconds, and the hash
// again. With NODES_COST=1 a line follows: "cost", the packets that one call sends from all nodes, and the
// processor time that it takes on all ranks, in microseconds.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { batches = 15, longest_batch = 100, most_samples = 200 };
enum { until_all_sleep_us = 3000, warm_up_us = 100000 };

static int rank, ranks, node, nodes, member;
static int *counts, *begins;  // of each rank, where a call takes lists

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

// Returns how late this rank is in call number k, as a part of the skew.
static double lateness(const char* pattern, unsigned k) {
  if (strcmp(pattern, "rank") == 0) return rank == ranks - 1;
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

typedef void Call(const float* in, float* out, int count);

static void allreduce(const float* in, float* out, int count) {
  MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void barrier(const float* in, float* out, int count) {
  (void)in, (void)out, (void)count;
  MPI_Barrier(MPI_COMM_WORLD);
}
static void bcast(const float* in, float* out, int count) {
  (void)in;
  MPI_Bcast(out, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}
static void reduce(const float* in, float* out, int count) {
  MPI_Reduce(in, out, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}
static void allgather(const float* in, float* out, int count) {
  MPI_Allgather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
}
static void allgatherv(const float* in, float* out, int count) {
  MPI_Allgatherv(in, count, MPI_FLOAT, out, counts, begins, MPI_FLOAT, MPI_COMM_WORLD);
}
static void alltoall(const float* in, float* out, int count) {
  MPI_Alltoall(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
}
static void alltoallv(const float* in, float* out, int count) {
  (void)count;
  MPI_Alltoallv(in, counts, begins, MPI_FLOAT, out, counts, begins, MPI_FLOAT, MPI_COMM_WORLD);
}
static void gather(const float* in, float* out, int count) {
  MPI_Gather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}
static void scatter(const float* in, float* out, int count) {
  MPI_Scatter(in, count, MPI_FLOAT, out, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}
static void reduce_scatter(const float* in, float* out, int count) {
  (void)count;
  MPI_Reduce_scatter(in, out, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void reduce_scatter_block(const float* in, float* out, int count) {
  MPI_Reduce_scatter_block(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

// What is to be known of a collective.
typedef struct {
  const char* name;
  Call* call;
  int gives_blocks, takes_blocks;  // one for each rank
  int has_root;
  int is_same;  // what all ranks get
} Kind;

static const Kind kinds[] = {
    {"allreduce", allreduce, 0, 0, 0, 1},
    {"barrier", barrier, 0, 0, 0, 1},
    {"bcast", bcast, 0, 0, 1, 1},
    {"reduce", reduce, 0, 0, 1, 0},
    {"allgather", allgather, 0, 1, 0, 1},
    {"allgatherv", allgatherv, 0, 1, 0, 1},
    {"alltoall", alltoall, 1, 1, 0, 0},
    {"alltoallv", alltoallv, 1, 1, 0, 0},
    {"gather", gather, 0, 1, 1, 0},
    {"scatter", scatter, 1, 0, 1, 0},
    {"reduce_scatter", reduce_scatter, 0, 0, 0, 0},
    {"reduce_scatter_block", reduce_scatter_block, 1, 0, 0, 0},
};

static const Kind* kind_named(const char* name) {
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k) {
    if (strcmp(kinds[k].name, name) == 0) return &kinds[k];
  }
  return NULL;
}

// A block of `count` for each rank; of a reduce_scatter the blocks into which a vector of `count` falls.
static void make_lists(const Kind* kind, int count) {
  int begin = 0;
  for (int r = 0; r < ranks; ++r) {
    counts[r] = kind->call == reduce_scatter ? count / ranks + (r < count % ranks) : count;
    begins[r] = begin;
    begin += counts[r];
  }
}

static void check(const Kind* kind, const float* result, size_t bytes) {
  const uint64_t mine = hash(result, bytes);
  uint64_t first = mine, weighted = mine * (2 * (uint64_t)rank + 1), all = 0;
  MPI_Bcast(&first, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  MPI_Allreduce(&weighted, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  int differs = kind->is_same && mine != first, any = 0;
  MPI_Allreduce(&differs, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0) printf(" %s%016llx", any ? "DIFFERENT" : "", (unsigned long long)all);
}

// What this rank has cost so far: the packets that its host has sent, counted on one rank, and its time.
typedef struct {
  double packets, processor_us;
} Cost;

static double packets_sent(void) {
  FILE* file = fopen("/proc/net/dev", "r");
  char line[512];
  double packets = 0;
  while (file && fgets(line, sizeof line, file)) {
    char name[32];
    double sent;
    const int found = sscanf(line, " %31[^:]: %*s %*s %*s %*s %*s %*s %*s %*s %*s %lf", name, &sent);
    if (found == 2 && strcmp(name, "lo") != 0) packets += sent;
  }
  if (file) fclose(file);
  return packets;
}

static Cost cost_so_far(int counts_packets) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  const double seconds = (double)used.ru_utime.tv_sec + (double)used.ru_stime.tv_sec;
  return (Cost){counts_packets ? packets_sent() : 0,
                1e6 * seconds + (double)used.ru_utime.tv_usec + (double)used.ru_stime.tv_usec};
}

static void print_cost(Cost before, Cost after, int calls) {
  const double mine[2] = {(after.packets - before.packets) / calls,
                          (after.processor_us - before.processor_us) / calls};
  double all[2] = {0, 0};
  MPI_Reduce(mine, all, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("cost %.1f %.1f\n", all[0], all[1]);
}

static double batch_us(Call* call, const float* in, float* out, int count, int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = now_us();
  for (int k = 0; k < calls; ++k) call(in, out, count);
  return latest(now_us() - start) / calls;
}

// From the last arrival to the last exit. Without a pattern all arrive together.
static double last_delay_us(Call* call, const float* in, float* out, int count, const char* pattern,
                            double skew, unsigned k) {
  if (pattern == NULL) {
    sleep_until(latest(now_us()) + until_all_sleep_us);
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
    const double late = skew * lateness(pattern, k);
    if (late > 0) sleep_until(now_us() + late);
  }
  const double arrived = now_us();
  call(in, out, count);
  const double left = now_us();
  return latest(left) - latest(arrived);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const Kind* kind = argc == 4 || argc == 6 ? kind_named(argv[1]) : NULL;
  if (kind == NULL) {
    if (rank == 0) fputs("nodes COLLECTIVE SIZES SECONDS [LATE SKEW_US]\n", stderr);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const double budget_us = 1e6 * atof(argv[3]);
  const char* pattern = argc == 6 ? argv[4] : NULL;
  const double skew = argc == 6 ? atof(argv[5]) : 0;
  const int one_by_one = pattern != NULL || kind->has_root;
  counts = malloc((size_t)ranks * sizeof(int));
  begins = malloc((size_t)ranks * sizeof(int));
  find_nodes();
  int is_warm = 0;
  for (const char* word = argv[2]; word != NULL; word = strchr(word, ',') ? strchr(word, ',') + 1 : NULL) {
    const size_t bytes = strtoul(word, NULL, 10);
    const size_t given = kind->gives_blocks ? bytes * (size_t)ranks : bytes;
    const size_t taken = kind->takes_blocks ? bytes * (size_t)ranks : bytes;
    const int count = (int)(bytes / sizeof(float));
    float* in = malloc(given);
    float* out = calloc(taken, 1);  // ranks that get less compare zeros
    for (size_t k = 0; k < given / sizeof(float); ++k) in[k] = (float)(1 + rank) / (float)(1 + k % 977);
    if (kind->call == bcast && rank == 0) memcpy(out, in, bytes);
    make_lists(kind, count);
    double once = 0;  // of the last call: the first one connects
    for (int k = 0; k < 3; ++k) once = batch_us(kind->call, in, out, count, 1);
    for (double spent = 0; !is_warm && spent < warm_up_us; spent += once)
      once = batch_us(kind->call, in, out, count, 1);
    is_warm = 1;
    if (rank == 0) printf("%zu", bytes);
    check(kind, out, taken);
    const double reserve = pattern          ? skew + 2 * once + 2000
                           : kind->has_root ? once + until_all_sleep_us + 2000
                                            : once;
    int samples = (int)(latest(budget_us / reserve) + 0.5), calls = 1;
    if (!one_by_one) {
      calls = samples / batches < 1               ? 1
              : samples / batches > longest_batch ? longest_batch
                                                  : samples / batches;
      samples = samples < batches ? samples : batches;
    }
    if (samples < 3) samples = 3;
    if (samples > most_samples) samples = most_samples;
    const Cost before = cost_so_far(member == 0);
    for (int k = 0; k < samples; ++k) {
      const double us = one_by_one ? last_delay_us(kind->call, in, out, count, pattern, skew, (unsigned)k)
                                   : batch_us(kind->call, in, out, count, calls);
      if (rank == 0) printf(" %.1f", us);
    }
    const Cost after = cost_so_far(member == 0);
    check(kind, out, taken);
    if (rank == 0) printf("\n");
    if (getenv("NODES_COST")) print_cost(before, after, samples * calls);
    fflush(stdout);
    free(in);
    free(out);
  }
  free(counts);
  free(begins);
  MPI_Finalize();
  return 0;
}
