// SPDX-License-Identifier: BSD-3-Clause
// Collectives whose type has gaps: their time, and the memory that they take beside the program's buffers.
// gaps.py runs it natively and under the preload.
//
//     mpicc -O2 benchmarks/gaps.c -o gaps
//     mpirun -n 2 ./gaps bcast|allgather BYTES_OF_DATA dense|gaps SECONDS_PER_LENGTH
//
// An element has BYTES_OF_DATA bytes, and a gap of as many. Prints a line for each length: the MiB of data in
// the longer buffer, milliseconds of the slower rank (the least and the median over calls), and the MiB by
// which the peak of a rank's resident memory is above what was there before the first call.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { most_calls = 1000 };

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static long status_kib(const char* name) {
  char line[256];
  long kib = 0;
  FILE* file = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, name, strlen(name)) == 0) kib = atol(line + strlen(name) + 1);
  }
  fclose(file);
  return kib;
}

static void forget_peak(void) {
  FILE* file = fopen("/proc/self/clear_refs", "w");
  fputs("5", file);
  fclose(file);
}

static MPI_Datatype make_type(int bytes, int has_gap) {
  MPI_Datatype data, type;
  MPI_Type_vector(1, bytes / 4, bytes / 4, MPI_INT, &data);
  MPI_Type_create_resized(data, 0, (has_gap ? 2 : 1) * bytes, &type);
  MPI_Type_free(&data);
  MPI_Type_commit(&type);
  return type;
}

int main(int argc, char** argv) {
  if (argc != 5) {
    fprintf(stderr, "gaps bcast|allgather BYTES_OF_DATA dense|gaps SECONDS_PER_LENGTH\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  const int is_allgather = strcmp(argv[1], "allgather") == 0;
  const int width = atoi(argv[2]);
  const double seconds = atof(argv[4]);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Datatype type = make_type(width, strcmp(argv[3], "gaps") == 0);
  const size_t room = (size_t)128 << 20;
  char* whole = malloc(room);
  char* block = malloc(room / (size_t)ranks);
  memset(whole, 1, room);
  memset(block, 1, room / (size_t)ranks);
  const long before = status_kib("VmRSS");

  static double times[most_calls];
  for (int mib = 1; mib <= 64; mib *= 4) {
    const int count = (int)(((size_t)mib << 20) / (size_t)width);
    forget_peak();
    int calls = 0, limit = 3;
    while (calls < limit) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double begin = MPI_Wtime();
      if (is_allgather) {
        MPI_Allgather(block, count / ranks, type, whole, count / ranks, type, MPI_COMM_WORLD);
      } else {
        MPI_Bcast(whole, count, type, 0, MPI_COMM_WORLD);
      }
      const double mine = MPI_Wtime() - begin;
      MPI_Allreduce(&mine, &times[calls], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      ++calls;
      if (calls == 2) limit = 2 + (int)(seconds / times[1]);
      if (limit < 5) limit = 5;
      if (limit > most_calls) limit = most_calls;
    }
    qsort(times, (size_t)calls, sizeof(double), compare);
    long extra = status_kib("VmHWM") - before;
    MPI_Allreduce(MPI_IN_PLACE, &extra, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0)
      printf("%d %.3f %.3f %.1f\n", mib, times[0] * 1e3, times[calls / 2] * 1e3, (double)extra / 1024);
  }
  MPI_Type_free(&type);
  free(whole);
  free(block);
  MPI_Finalize();
}
