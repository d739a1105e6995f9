/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cold BYTES SETS: MPI_Allreduce of floats with SETS pairs of buffers in turn, whose lines are in the cache,
 * or have to come from memory because other data was written in between. Medians of the time between a
 * barrier and the result, in microseconds; and with a pass over the result, which a copy past the cache makes
 * slower.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 301, ROUNDS = 3 };
static const size_t between[] = {0, (size_t)4 << 20, (size_t)16 << 20};
enum { CASES = sizeof between / sizeof *between };

static int compare(const void* left, const void* right) {
  const double a = *(const double*)left, b = *(const double*)right;
  return (a > b) - (a < b);
}

static double median_us(double* seconds) {
  qsort(seconds, REPEATS, sizeof *seconds, compare);
  return seconds[REPEATS / 2] * 1e6;
}

static char* allocate(size_t bytes) {
  char* memory = malloc(bytes);
  if (memory == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  return memset(memory, 0, bytes);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const size_t bytes = argc > 2 ? strtoul(argv[1], NULL, 10) : 0,
               sets = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
  const int count = (int)(bytes / sizeof(float));
  if (count == 0 || sets == 0) {
    if (rank == 0) fprintf(stderr, "cold BYTES SETS\n");
    MPI_Finalize();
    return 2;
  }
  float **input = malloc(sets * sizeof *input), **output = malloc(sets * sizeof *output);
  for (size_t s = 0; s < sets; ++s) {
    input[s] = (float*)allocate(bytes);
    output[s] = (float*)allocate(bytes);
  }
  char* other = allocate(between[CASES - 1]);
  static double called[CASES][REPEATS], read[CASES][REPEATS];
  volatile float sink;

  for (int round = 0; round < ROUNDS; ++round) {
    for (int k = 0; k < REPEATS; ++k) {
      for (int c = 0; c < CASES; ++c) {
        const size_t set = (size_t)k % sets;
        memset(other, k, between[c]);
        if (between[c] == 0)
          MPI_Allreduce(input[set], output[set], count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        const double start = MPI_Wtime();
        MPI_Allreduce(input[set], output[set], count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        called[c][k] = MPI_Wtime() - start;
        float sum = 0;
        for (int i = 0; i < count; i += 16) sum += output[set][i];
        sink = sum;
        read[c][k] = MPI_Wtime() - start;
      }
    }
    for (int c = 0; c < CASES && rank == 0; ++c)
      printf("%zu bytes, %2zu MiB written in between: %7.1f us, with a pass over the result %7.1f\n", bytes,
             between[c] >> 20, median_us(called[c]), median_us(read[c]));
  }
  (void)sink;
  MPI_Finalize();
  return 0;
}
