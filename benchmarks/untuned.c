// SPDX-License-Identifier: BSD-3-Clause
/* Times collectives in a plain loop, for untuned.py:
 *
 *     untuned COLLECTIVE,... BYTES,... WARM_UP CALLS
 *
 * Each cell is a collective, blocking or not, a length and a pattern of arrival. It has a communicator of its
 * own, so other cells have taught offbeat nothing about it. The first WARM_UP calls do not count. Then come
 * CALLS calls that do. If they are short, more follow until they have taken `short_cell` seconds. The time of
 * a call is the time inside MPI, averaged over the ranks: for a non-blocking call, in its begin and its wait.
 * Rank 0 prints the mean of the middle half of the calls, so a few calls with a lost core do not count.
 *
 * Before each call every rank writes as many bytes as the rank that sends most, so that all come together.
 * Otherwise an MPI that copies between processes would find the data of the last call in its cache.
 *
 * In the pattern "random" each rank computes before each call for a random time up to longest_delay(), so the
 * ranks are as late without offbeat as with it. A barrier follows every tenth call, as programs have one now
 * and then. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { most_calls = 16 };  // as a multiple of CALLS
static const double short_cell = 3e-3;

static int ranks, rank;
static MPI_Comm all;  // of one cell
static char *from, *to;
static int *counts, *begins;

static void begin(const char* name, int bytes, int nonblocking, MPI_Request* request) {
  const int doubles = bytes / 8;
  *request = MPI_REQUEST_NULL;
  for (int k = 0; k < ranks; ++k) {
    counts[k] = bytes;
    begins[k] = k * bytes;
  }
  if (!strcmp(name, "bcast")) {
    nonblocking ? MPI_Ibcast(to, bytes, MPI_BYTE, 0, all, request) : MPI_Bcast(to, bytes, MPI_BYTE, 0, all);
  } else if (!strcmp(name, "allreduce")) {
    nonblocking ? MPI_Iallreduce(from, to, doubles, MPI_DOUBLE, MPI_SUM, all, request)
                : MPI_Allreduce(from, to, doubles, MPI_DOUBLE, MPI_SUM, all);
  } else if (!strcmp(name, "reduce")) {
    nonblocking ? MPI_Ireduce(from, to, doubles, MPI_DOUBLE, MPI_SUM, 0, all, request)
                : MPI_Reduce(from, to, doubles, MPI_DOUBLE, MPI_SUM, 0, all);
  } else if (!strcmp(name, "allgather")) {
    nonblocking ? MPI_Iallgather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, all, request)
                : MPI_Allgather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, all);
  } else if (!strcmp(name, "allgatherv")) {
    nonblocking ? MPI_Iallgatherv(from, bytes, MPI_BYTE, to, counts, begins, MPI_BYTE, all, request)
                : MPI_Allgatherv(from, bytes, MPI_BYTE, to, counts, begins, MPI_BYTE, all);
  } else if (!strcmp(name, "alltoall")) {
    nonblocking ? MPI_Ialltoall(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, all, request)
                : MPI_Alltoall(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, all);
  } else if (!strcmp(name, "alltoallv")) {
    nonblocking ? MPI_Ialltoallv(from, counts, begins, MPI_BYTE, to, counts, begins, MPI_BYTE, all, request)
                : MPI_Alltoallv(from, counts, begins, MPI_BYTE, to, counts, begins, MPI_BYTE, all);
  } else if (!strcmp(name, "gather")) {
    nonblocking ? MPI_Igather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, 0, all, request)
                : MPI_Gather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, 0, all);
  } else if (!strcmp(name, "scatter")) {
    nonblocking ? MPI_Iscatter(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, 0, all, request)
                : MPI_Scatter(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, 0, all);
  } else if (!strcmp(name, "reduce_scatter_block")) {
    nonblocking ? MPI_Ireduce_scatter_block(from, to, doubles, MPI_DOUBLE, MPI_SUM, all, request)
                : MPI_Reduce_scatter_block(from, to, doubles, MPI_DOUBLE, MPI_SUM, all);
  } else if (!strcmp(name, "reduce_scatter")) {
    for (int k = 0; k < ranks; ++k) counts[k] = doubles;
    nonblocking ? MPI_Ireduce_scatter(from, to, counts, MPI_DOUBLE, MPI_SUM, all, request)
                : MPI_Reduce_scatter(from, to, counts, MPI_DOUBLE, MPI_SUM, all);
  } else if (!strcmp(name, "barrier")) {
    nonblocking ? MPI_Ibarrier(all, request) : MPI_Barrier(all);
  } else {
    if (rank == 0) fprintf(stderr, "untuned: unknown collective %s\n", name);
    MPI_Abort(all, 2);
  }
}

static double call(const char* name, int bytes, int nonblocking) {
  MPI_Request request;
  const double begun = MPI_Wtime();
  begin(name, bytes, nonblocking, &request);
  if (nonblocking) MPI_Wait(&request, MPI_STATUS_IGNORE);
  return MPI_Wtime() - begun;
}

static void compute(double seconds) {
  const double begun = MPI_Wtime();
  while (MPI_Wtime() - begun < seconds) {
  }
}

static int ascending(const void* one, const void* other) {
  const double difference = *(const double*)one - *(const double*)other;
  return difference < 0 ? -1 : difference > 0;
}

// Returns roughly how long a collective of this length takes.
static double longest_delay(int bytes) { return 1e-6 + bytes / 4e9; }

// Returns how many bytes a rank sends at most: a block, or one for each rank.
static size_t bytes_sent(const char* name, int bytes) {
  const int sends_blocks =
      !strncmp(name, "alltoall", 8) || !strncmp(name, "reduce_scatter", 14) || !strcmp(name, "scatter");
  return sends_blocks ? (size_t)ranks * (size_t)bytes : (size_t)bytes;
}

static void write_data(const char* name, size_t bytes, int number) {
  double* const data = (double*)(!strcmp(name, "bcast") && rank == 0 ? to : from);
  for (size_t k = 0; k < bytes / sizeof *data; ++k) data[k] = number + (double)k;
}

static double mean_of_middle_half(double* times, int count) {
  const int begin = count / 4, end = count - begin;
  double sum = 0;
  qsort(times, (size_t)count, sizeof *times, ascending);
  for (int k = begin; k < end; ++k) sum += times[k];
  return sum / (end - begin);
}

static void measure(const char* name, int bytes, int nonblocking, int is_random, int warm_up, int calls) {
  double first = 0;
  unsigned int state = 1 + (unsigned)rank;
  MPI_Comm_dup(MPI_COMM_WORLD, &all);
  MPI_Barrier(all);
  for (int k = 0; k < 10; ++k) {
    const double time = call(name, bytes, nonblocking);
    if (k == 0 || time < first) first = time;
  }
  MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_DOUBLE, MPI_MAX, all);
  int count = calls;
  while (count < most_calls * calls && 2 * count * first <= short_cell) count *= 2;
  double* const times = malloc((size_t)count * sizeof *times);
  const size_t sent = bytes_sent(name, bytes);
  for (int k = 0; k < warm_up + count; ++k) {
    if (k % 10 == 0) MPI_Barrier(all);
    write_data(name, sent, k);
    if (is_random) compute(longest_delay(bytes) * (rand_r(&state) % 1000) / 1000);
    const double time = call(name, bytes, nonblocking);
    if (k >= warm_up) times[k - warm_up] = time;
  }
  MPI_Reduce(rank == 0 ? MPI_IN_PLACE : times, times, count, MPI_DOUBLE, MPI_SUM, 0, all);
  if (rank == 0) {
    printf("%s%s %d %s %.3f\n", nonblocking ? "i" : "", name, bytes, is_random ? "random" : "balanced",
           mean_of_middle_half(times, count) / ranks * 1e6);
    fflush(stdout);
  }
  free(times);
  MPI_Comm_free(&all);
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int warm_up = atoi(argv[3]), calls = atoi(argv[4]);
  size_t most = 8;
  char* sizes = strdup(argv[2]);
  for (char* size = strtok(sizes, ","); size != NULL; size = strtok(NULL, ","))
    if ((size_t)atol(size) > most) most = (size_t)atol(size);
  from = calloc((size_t)ranks, most);
  to = calloc((size_t)ranks, most);
  counts = calloc((size_t)ranks, sizeof *counts);
  begins = calloc((size_t)ranks, sizeof *begins);
  char *rest_names = NULL, *rest_sizes = NULL;
  for (char* name = strtok_r(argv[1], ",", &rest_names); name != NULL;
       name = strtok_r(NULL, ",", &rest_names)) {
    char* list = strdup(argv[2]);
    for (char* size = strtok_r(list, ",", &rest_sizes); size != NULL; size = strtok_r(NULL, ",", &rest_sizes))
      for (int form = 0; form < 2; ++form)
        for (int is_random = 0; is_random < 2; ++is_random)
          measure(name, atoi(size), form, is_random, warm_up, calls);
    free(list);
  }
  MPI_Finalize();
  return 0;
}
