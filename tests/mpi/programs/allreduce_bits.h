/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Floating point: every rank gets the same bits, and a second call with the same
 * data gets them again, whichever rank is late. The data have exponents from 2^-20
 * to 2^20 and both signs, so that another order of the additions shows.
 */
#ifndef ALLREDUCE_BITS_H
#define ALLREDUCE_BITS_H

#include <math.h>
#include <unistd.h>

#include "check.h"

static double random_value(unsigned long long *state) {
  *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
  double mantissa = (double)(*state >> 40) / (1 << 24) - 0.5;
  return ldexp(mantissa, (int)((*state >> 33) % 41) - 20);
}

/* Rank `late` comes 2 ms after the others. */
static void arrive(int late) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank == late) usleep(2000);
}

static void same_everywhere(const char *name, MPI_Datatype type, size_t size, int count, MPI_Op op,
                            unsigned long long *state) {
  size_t bytes = size * (size_t)count;
  char *input = (char *)allocate(bytes), *first = (char *)allocate(bytes);
  char *again = (char *)allocate(bytes), *root = (char *)allocate(bytes);
  for (int i = 0; i < count; ++i) {
    double value = random_value(state);
    if (op == MPI_PROD) value = 1.0 + 0.25 * tanh(value);
    if (type == MPI_DOUBLE) ((double *)input)[i] = value;
    if (type == MPI_FLOAT) ((float *)input)[i] = (float)value;
  }
  arrive(world_size - 1);
  allreduce(input, first, count, type, op, MPI_COMM_WORLD);
  memcpy(root, first, bytes);
  MPI_Bcast(root, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
  CHECK(memcmp(root, first, bytes) == 0, "%s count %d: other bits than on rank 0", name, count);
  for (int late = 0; late < world_size; late += 1 + world_size / 3) {
    memcpy(again, input, bytes);
    arrive(late);
    allreduce(MPI_IN_PLACE, again, count, type, op, MPI_COMM_WORLD);
    CHECK(memcmp(first, again, bytes) == 0, "%s count %d: other bits when rank %d is late", name, count, late);
  }
  free(input);
  free(first);
  free(again);
  free(root);
}

static void check_bits(long max_count) {
  unsigned long long state = 12345 + 977 * (unsigned long long)world_rank;
  const int counts[] = {1, world_size + 1, 1000, 100000};
  for (int c = 0; c < 4 && counts[c] <= max_count; ++c) {
    same_everywhere("float sum", MPI_FLOAT, sizeof(float), counts[c], MPI_SUM, &state);
    same_everywhere("double sum", MPI_DOUBLE, sizeof(double), counts[c], MPI_SUM, &state);
    same_everywhere("double product", MPI_DOUBLE, sizeof(double), counts[c], MPI_PROD, &state);
  }
}

#endif
