// SPDX-License-Identifier: BSD-3-Clause
/* Times collectives in a plain loop, for untuned.py:
 *
 *     untuned COLLECTIVE,... BYTES,... WARM_UP CALLS
 *
 * Each cell is a collective, blocking or not, a length and a pattern of arrival. After WARM_UP calls that do
 * not count, rank 0 prints the mean time that a rank spends in a call, over all ranks: the time inside MPI,
 * for a non-blocking call in its begin and its wait. In the pattern "random" each rank computes for a random
 * time before each call, at most as long as the first calls took. A barrier ends each ten calls, as programs
 * have one now and then. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int ranks, rank;
static char *from, *to;
static int *counts, *begins;

static void begin(const char* name, int bytes, int nonblocking, MPI_Request* request) {
  const MPI_Comm all = MPI_COMM_WORLD;
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

static void measure(const char* name, int bytes, int nonblocking, int is_random, int warm_up, int calls) {
  double spent = 0, first = 0;
  unsigned int state = 1 + (unsigned)rank;
  MPI_Barrier(MPI_COMM_WORLD);
  for (int k = 0; k < 10; ++k) first += call(name, bytes, nonblocking) / 10;
  MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  for (int k = 0; k < warm_up + calls; ++k) {
    if (k % 10 == 0) MPI_Barrier(MPI_COMM_WORLD);
    if (is_random) compute(first * (rand_r(&state) % 1000) / 1000);
    const double time = call(name, bytes, nonblocking);
    if (k >= warm_up) spent += time;
  }
  MPI_Allreduce(MPI_IN_PLACE, &spent, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("%s%s %d %s %.3f\n", nonblocking ? "i" : "", name, bytes, is_random ? "random" : "balanced",
           spent / calls / ranks * 1e6);
    fflush(stdout);
  }
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
