/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_MINLOC and MPI_MAXLOC on every predefined pair type: value and index,
 * the lower index where values tie, and neither the bytes between value and
 * index nor what lies behind the last element are written.
 */
#include <stddef.h>

#include "check.h"

enum { GAP_MARK = 0x5a };

/* The contribution of `rank` at element i: ties among ranks are frequent. */
static int value_of(int rank, int i) { return (rank * 5 + i) % 3; }
static int index_of(int rank, int i) { return 100 + (rank * 7 + i) % 50; }

static void expect(MPI_Op op, int i, int *value, int *index) {
  *value = value_of(0, i);
  *index = index_of(0, i);
  for (int rank = 1; rank < world_size; ++rank) {
    int v = value_of(rank, i), k = index_of(rank, i);
    int better = op == MPI_MINLOC ? v < *value : v > *value;
    if (better || (v == *value && k < *index)) {
      *value = v;
      *index = k;
    }
  }
}

/* One function per C type of the value. The index is an int in each. */
#define PAIR(ctype, mpitype)                                                                        \
  static void check_##mpitype(MPI_Op op, int count, int in_place) {                                 \
    struct pair {                                                                                   \
      ctype value;                                                                                  \
      int index;                                                                                    \
    };                                                                                              \
    size_t bytes = (size_t)(count + 1) * sizeof(struct pair);                                       \
    struct pair *input = allocate(bytes), *output = allocate(bytes);                                \
    unsigned char expected[sizeof(struct pair)], got[sizeof(struct pair)];                          \
    memset(input, GAP_MARK, bytes);                                                                 \
    memset(output, GAP_MARK, bytes);                                                                \
    for (int i = 0; i < count; ++i) {                                                               \
      struct pair *mine = in_place ? output : input;                                                \
      mine[i].value = (ctype)value_of(world_rank, i);                                               \
      mine[i].index = index_of(world_rank, i);                                                      \
    }                                                                                               \
    allreduce(in_place ? MPI_IN_PLACE : input, output, count, mpitype, op, MPI_COMM_WORLD);         \
    int wrong = -1, gap = -1;                                                                       \
    for (int i = 0; i < count; ++i) {                                                               \
      int value, index;                                                                             \
      expect(op, i, &value, &index);                                                                \
      if (output[i].value != (ctype)value || output[i].index != index) wrong = i;                   \
      size_t end_of_value = sizeof(ctype), start_of_index = offsetof(struct pair, index);        \
      memcpy(got, &output[i], sizeof got);                                                          \
      memset(expected, GAP_MARK, sizeof expected);                                                  \
      if (memcmp(got + end_of_value, expected, start_of_index - end_of_value) != 0) gap = i;        \
      size_t end_of_index = start_of_index + sizeof(int);                                           \
      if (memcmp(got + end_of_index, expected, sizeof got - end_of_index) != 0) gap = i;            \
    }                                                                                               \
    memset(expected, GAP_MARK, sizeof expected);                                                    \
    if (memcmp(&output[count], expected, sizeof expected) != 0) wrong = count;                      \
    CHECK(wrong < 0, "%s %s count %d: element %d", #mpitype, op == MPI_MINLOC ? "MINLOC" : "MAXLOC", count, \
          wrong);                                                                                   \
    CHECK(gap < 0, "%s count %d: wrote into the gap of element %d", #mpitype, count, gap);          \
    free(input);                                                                                    \
    free(output);                                                                                   \
  }

PAIR(float, MPI_FLOAT_INT)
PAIR(double, MPI_DOUBLE_INT)
PAIR(long, MPI_LONG_INT)
PAIR(int, MPI_2INT)
PAIR(short, MPI_SHORT_INT)
PAIR(long double, MPI_LONG_DOUBLE_INT)

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int counts[] = {0, 1, world_size + 1, 1000};
  const MPI_Op ops[] = {MPI_MINLOC, MPI_MAXLOC};
  for (int o = 0; o < 2; ++o)
    for (int c = 0; c < 4; ++c)
      for (int in_place = 0; in_place < 2; ++in_place) {
        check_MPI_FLOAT_INT(ops[o], counts[c], in_place);
        check_MPI_DOUBLE_INT(ops[o], counts[c], in_place);
        check_MPI_LONG_INT(ops[o], counts[c], in_place);
        check_MPI_2INT(ops[o], counts[c], in_place);
        check_MPI_SHORT_INT(ops[o], counts[c], in_place);
        check_MPI_LONG_DOUBLE_INT(ops[o], counts[c], in_place);
      }
  return check_finish();
}
