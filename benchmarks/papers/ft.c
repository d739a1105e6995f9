// SPDX-License-Identifier: BSD-3-Clause
// A Fourier transform in three dimensions, in the manner of FT of the NAS Parallel Benchmarks, for
// paper_4_ft.py. In each step every rank multiplies its part of the spectrum, transforms it back and adds
// some values. The transform has one alltoall, with blocks of 16 N^3 / P^2 bytes.
//
//     ft N STEPS      N^3 complex numbers; N is a power of two, and P ranks divide it
//
// Rank 0 prints the seconds of the steps, those outside of alltoalls of the rank with most, and a checksum.
// Before that all ranks transform random numbers forth and back, and stop if they differ.
#include <complex.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

typedef double complex number;

static int rank, ranks, n, part;  // part: n / ranks planes of each rank
static number *spectrum, *field, *packed, *received, *row, *roots;
static double alltoall_s;

// Transforms row[0..n), forward (-1) or back (1), without the factor 1/n.
static void transform_row(int sign) {
  for (int i = 1, j = 0; i < n; ++i) {
    int bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      const number swapped = row[i];
      row[i] = row[j];
      row[j] = swapped;
    }
  }
  for (int half = 1; half < n; half *= 2) {
    for (int begin = 0; begin < n; begin += 2 * half) {
      for (int k = 0; k < half; ++k) {
        const number root = roots[k * (n / (2 * half))];
        const number odd = row[begin + k + half] * (sign > 0 ? root : conj(root));
        row[begin + k + half] = row[begin + k] - odd;
        row[begin + k] += odd;
      }
    }
  }
}

// Transforms `count` rows of `data`. Element k of a row is k * stride behind the first one.
static void transform_rows(number* data, int count, int between, int stride, int sign) {
  for (int r = 0; r < count; ++r) {
    number* first = data + (size_t)r * (size_t)between;
    for (int k = 0; k < n; ++k) row[k] = first[(size_t)k * (size_t)stride];
    transform_row(sign);
    for (int k = 0; k < n; ++k) first[(size_t)k * (size_t)stride] = row[k];
  }
}

// From planes of the first index, [part][n][n], to planes of the last one, with the indices in reverse order.
static void transpose(const number* from, number* to) {
  const size_t block = (size_t)part * (size_t)n * (size_t)part;
  for (int to_rank = 0; to_rank < ranks; ++to_rank)
    for (int a = 0; a < part; ++a)
      for (int b = 0; b < n; ++b)
        for (int c = 0; c < part; ++c)
          packed[to_rank * block + ((size_t)a * n + b) * part + c] =
              from[((size_t)a * n + b) * n + to_rank * part + c];
  const double begin = MPI_Wtime();
  const int bytes = (int)(block * sizeof(number));
  MPI_Alltoall(packed, bytes, MPI_BYTE, received, bytes, MPI_BYTE, MPI_COMM_WORLD);
  alltoall_s += MPI_Wtime() - begin;
  for (int from_rank = 0; from_rank < ranks; ++from_rank)
    for (int a = 0; a < part; ++a)
      for (int b = 0; b < n; ++b)
        for (int c = 0; c < part; ++c)
          to[((size_t)c * n + b) * n + from_rank * part + a] =
              received[from_rank * block + ((size_t)a * n + b) * part + c];
}

static void transform_planes(number* data, int sign) {
  for (int plane = 0; plane < part; ++plane)
    transform_rows(data + (size_t)plane * (size_t)n * (size_t)n, n, 1, n, sign);
}

// field[z][y][x] of this rank's z to spectrum[x][y][z] of its x.
static void forward(void) {
  transform_planes(field, -1);
  transform_rows(field, part * n, n, 1, -1);
  transpose(field, spectrum);
  transform_rows(spectrum, part * n, n, 1, -1);
}

static void back(const number* from) {
  const size_t all = (size_t)part * (size_t)n * (size_t)n;
  for (size_t i = 0; i < all; ++i) field[i] = from[i];
  transform_rows(field, part * n, n, 1, 1);
  transpose(field, spectrum);
  for (size_t i = 0; i < all; ++i) field[i] = spectrum[i];
  transform_planes(field, 1);
  transform_rows(field, part * n, n, 1, 1);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  n = argc == 3 ? atoi(argv[1]) : 0;
  const int steps = argc == 3 ? atoi(argv[2]) : 0;
  if (n < 2 || (n & (n - 1)) != 0 || n % ranks != 0) {
    fprintf(stderr, "usage: ft N STEPS, where N is a power of two that the ranks divide\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  part = n / ranks;
  const size_t all = (size_t)part * (size_t)n * (size_t)n;
  number** const arrays[] = {&spectrum, &field, &packed, &received};
  for (int k = 0; k < 4; ++k) *arrays[k] = malloc(all * sizeof(number));
  number* const input = malloc(all * sizeof(number));
  row = malloc((size_t)n * sizeof(number));
  roots = malloc((size_t)n * sizeof(number));
  for (int k = 0; k < n; ++k) roots[k] = cexp(2 * acos(-1) * I * k / n);

  srand(1 + (unsigned)rank);
  for (size_t i = 0; i < all; ++i) field[i] = input[i] = rand() / (double)RAND_MAX - 0.5;
  forward();
  number* const first = malloc(all * sizeof(number));
  for (size_t i = 0; i < all; ++i) first[i] = spectrum[i];
  back(first);
  for (size_t i = 0; i < all; ++i) {
    if (cabs(field[i] / ((double)n * n * n) - input[i]) > 1e-10) {
      fprintf(stderr, "rank %d: number %zu is not what it was\n", rank, i);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }

  alltoall_s = 0;
  double checksum = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int step = 1; step <= steps; ++step) {
    for (size_t i = 0; i < all; ++i) first[i] *= 1 - 1e-6 * (double)(i % 64);
    back(first);
    checksum += creal(field[(size_t)step * 1021 % all]);
  }
  const double run_s = MPI_Wtime() - begin;
  const double computing_s = run_s - alltoall_s;
  double sum = 0;
  double most_s = 0;
  MPI_Reduce(&checksum, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&computing_s, &most_s, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("run %.6f s, computing %.6f s, checksum %.12g\n", run_s, most_s, sum);
  MPI_Finalize();
  return 0;
}
