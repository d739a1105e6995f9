/* SPDX-License-Identifier: BSD-3-Clause
 *
 * User-defined operations, commutative and not, and derived types, contiguous
 * and not. What a program may do here is beyond any table of types: the answer
 * must be the one of the host MPI.
 */
#include "check.h"

enum { PRIME = 10007 };

/* Whether what is between the elements of a type must keep its value: "allreduce_user 0" does not ask for it. */
static int gaps_stay = 1;

/* Product of 2x2 matrices modulo a prime: associative, not commutative. */
static void multiply_matrices(void *input, void *output, int *count, MPI_Datatype *type) {
  const int *a = input;
  int *b = output;
  (void)type;
  for (int i = 0; i < *count; ++i, a += 4, b += 4) {
    int product[4] = {(a[0] * b[0] + a[1] * b[2]) % PRIME, (a[0] * b[1] + a[1] * b[3]) % PRIME,
                      (a[2] * b[0] + a[3] * b[2]) % PRIME, (a[2] * b[1] + a[3] * b[3]) % PRIME};
    memcpy(b, product, sizeof product);
  }
}

static void matrix_of(int rank, int i, int *m) {
  m[0] = 1 + (rank + i) % 7;
  m[1] = 2 + (rank * 3 + i) % 5;
  m[2] = 1 + (rank * 5 + i) % 3;
  m[3] = 3 + (rank + 2 * i) % 11;
}

static void non_commutative(int count, int in_place) {
  MPI_Datatype matrix;
  MPI_Op op;
  MPI_Type_contiguous(4, MPI_INT, &matrix);
  MPI_Type_commit(&matrix);
  MPI_Op_create(multiply_matrices, 0, &op);
  int *input = allocate(sizeof(int) * 4 * (size_t)count), *output = allocate(sizeof(int) * 4 * (size_t)count);
  for (int i = 0; i < count; ++i) {
    matrix_of(world_rank, i, input + 4 * i);
    matrix_of(world_rank, i, output + 4 * i);
  }
  allreduce(in_place ? MPI_IN_PLACE : input, output, count, matrix, op, MPI_COMM_WORLD);
  int wrong = -1;
  for (int i = 0; i < count; ++i) {
    int expected[4], next[4], one = 1;
    matrix_of(world_size - 1, i, expected);
    for (int rank = world_size - 2; rank >= 0; --rank) {
      matrix_of(rank, i, next);
      multiply_matrices(next, expected, &one, NULL);
    }
    if (memcmp(expected, output + 4 * i, sizeof expected) != 0) wrong = i;
  }
  CHECK(wrong < 0, "non-commutative op, count %d%s: element %d", count, in_place ? " in place" : "", wrong);
  free(input);
  free(output);
  MPI_Op_free(&op);
  MPI_Type_free(&matrix);
}

/* A commutative one on a predefined type: sum modulo a prime. */
static void add_modulo(void *input, void *output, int *count, MPI_Datatype *type) {
  const int *a = input;
  int *b = output;
  (void)type;
  for (int i = 0; i < *count; ++i) b[i] = (a[i] + b[i]) % PRIME;
}

static void commutative(int count, int in_place) {
  MPI_Op op;
  MPI_Op_create(add_modulo, 1, &op);
  int *input = allocate(sizeof(int) * (size_t)count), *output = allocate(sizeof(int) * (size_t)count);
  for (int i = 0; i < count; ++i) input[i] = output[i] = (world_rank * 5003 + i * 31) % PRIME;
  allreduce(in_place ? MPI_IN_PLACE : input, output, count, MPI_INT, op, MPI_COMM_WORLD);
  int wrong = -1;
  for (int i = 0; i < count; ++i) {
    int expected = 0;
    for (int rank = 0; rank < world_size; ++rank) expected = (expected + (rank * 5003 + i * 31) % PRIME) % PRIME;
    if (output[i] != expected) wrong = i;
  }
  CHECK(wrong < 0, "commutative op, count %d%s: element %d", count, in_place ? " in place" : "", wrong);
  free(input);
  free(output);
  MPI_Op_free(&op);
}

/* Adds the doubles of a strided type; every second double of the buffer belongs to nobody. */
static void add_strided(void *input, void *output, int *count, MPI_Datatype *type) {
  const double *a = input;
  double *b = output;
  (void)type;
  for (int i = 0; i < *count; ++i)
    for (int k = 0; k < 3; ++k) b[6 * i + 2 * k] += a[6 * i + 2 * k];
}

/* The strided type: 3 doubles, one in two, extent 6 doubles; made in two ways. */
static MPI_Datatype strided(int resized) {
  MPI_Datatype vector, type;
  MPI_Type_vector(3, 1, 2, MPI_DOUBLE, &vector);
  if (resized) {
    MPI_Type_create_resized(vector, 0, 6 * sizeof(double), &type);
  } else {
    int lengths[] = {1, 1, 1, 0};
    MPI_Aint places[] = {0, 2 * sizeof(double), 4 * sizeof(double), 6 * sizeof(double)};
    MPI_Datatype types[] = {MPI_DOUBLE, MPI_DOUBLE, MPI_DOUBLE, MPI_DOUBLE};
    MPI_Datatype plain;
    MPI_Type_create_struct(4, lengths, places, types, &plain);
    MPI_Type_create_resized(plain, 0, 6 * sizeof(double), &type);
    MPI_Type_free(&plain);
  }
  MPI_Type_free(&vector);
  MPI_Type_commit(&type);
  return type;
}

static void not_contiguous(int count, int in_place, int resized) {
  MPI_Datatype type = strided(resized);
  MPI_Op op;
  MPI_Op_create(add_strided, 1, &op);
  size_t doubles = 6 * (size_t)count;
  double *input = allocate(doubles * sizeof(double)), *output = allocate(doubles * sizeof(double));
  for (size_t i = 0; i < doubles; ++i) {
    input[i] = i % 2 ? -1.0 : (double)((size_t)world_rank + i);
    output[i] = in_place && i % 2 == 0 ? input[i] : -2.0;
  }
  allreduce(in_place ? MPI_IN_PLACE : input, output, count, type, op, MPI_COMM_WORLD);
  long wrong = -1;
  for (size_t i = 0; i < doubles; ++i) {
    double sum = (double)world_size * (double)i + world_size * (world_size - 1) / 2.0;
    if (i % 2 && !gaps_stay) continue;
    if (output[i] != (i % 2 ? -2.0 : sum)) wrong = (long)i;
  }
  CHECK(wrong < 0, "strided type, count %d%s: double %ld", count, in_place ? " in place" : "", wrong);
  free(input);
  free(output);
  MPI_Op_free(&op);
  MPI_Type_free(&type);
}

/* A dup of a predefined type is as good as the type with a user op. */
static void duplicate_type(void) {
  MPI_Datatype type;
  MPI_Op op;
  MPI_Type_dup(MPI_INT, &type);
  MPI_Op_create(add_modulo, 1, &op);
  int mine = world_rank + 1, sum = 0;
  allreduce(&mine, &sum, 1, type, op, MPI_COMM_WORLD);
  CHECK(sum == world_size * (world_size + 1) / 2, "dup of MPI_INT: %d", sum);
  MPI_Type_free(&type);
  MPI_Op_free(&op);
}

/* Horovod's way: an own 2-byte type, moved as bytes, with an own commutative op. */
static void add_bytes_pair(void *input, void *output, int *count, MPI_Datatype *type) {
  const unsigned short *a = input;
  unsigned short *b = output;
  (void)type;
  for (int i = 0; i < *count; ++i) b[i] = (unsigned short)(a[i] + b[i]);
}

static void own_half(int count) {
  MPI_Datatype half;
  MPI_Op op;
  MPI_Type_contiguous(2, MPI_BYTE, &half);
  MPI_Type_commit(&half);
  MPI_Op_create(add_bytes_pair, 1, &op);
  unsigned short *data = allocate(2 * (size_t)count);
  for (int i = 0; i < count; ++i) data[i] = (unsigned short)(i % 1000 + world_rank);
  allreduce(MPI_IN_PLACE, data, count, half, op, MPI_COMM_WORLD);
  int wrong = -1;
  for (int i = 0; i < count; ++i)
    if (data[i] != (i % 1000) * world_size + world_size * (world_size - 1) / 2) wrong = i;
  CHECK(wrong < 0, "own 2-byte type, count %d: element %d", count, wrong);
  free(data);
  MPI_Op_free(&op);
  MPI_Type_free(&half);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  gaps_stay = argc < 2;
  const int counts[] = {0, 1, world_size + 1, 1000};
  for (int c = 0; c < 4; ++c)
    for (int in_place = 0; in_place < 2; ++in_place) {
      non_commutative(counts[c], in_place);
      commutative(counts[c], in_place);
      not_contiguous(counts[c], in_place, 0);
      not_contiguous(counts[c], in_place, 1);
    }
  duplicate_type();
  own_half(5000);
  return check_finish();
}
