/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Allreduce on every kind of communicator: MPI_COMM_SELF, duplicates, splits
 * with the ranks reversed, groups, Cartesian grids, inter-communicators; and on
 * several of them in turn, where messages of one must not reach another.
 */
#include "check.h"

/* Sum (rank + 1) * (i + 1) over an intra-communicator, small and larger. */
static void sum_over(MPI_Comm communicator, const char *name) {
  int rank, size;
  MPI_Comm_rank(communicator, &rank);
  MPI_Comm_size(communicator, &size);
  const int counts[] = {1, 3000};
  for (int c = 0; c < 2; ++c) {
    long input[3000], output[3000];
    for (int i = 0; i < counts[c]; ++i) input[i] = (rank + 1L) * (i + 1);
    allreduce(input, output, counts[c], MPI_LONG, MPI_SUM, communicator);
    int wrong = -1;
    for (int i = 0; i < counts[c]; ++i)
      if (output[i] != (long)size * (size + 1) / 2 * (i + 1)) wrong = i;
    CHECK(wrong < 0, "%s, count %d: element %d", name, counts[c], wrong);
  }
}

static void derived_communicators(void) {
  MPI_Comm duplicate, reversed, parity, most, grid, row;
  sum_over(MPI_COMM_SELF, "MPI_COMM_SELF");
  MPI_Comm_dup(MPI_COMM_WORLD, &duplicate);
  sum_over(duplicate, "duplicate");
  MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &reversed);
  sum_over(reversed, "reversed ranks");
  MPI_Comm_split(duplicate, world_rank % 2, world_rank, &parity);
  sum_over(parity, "even or odd ranks");

  /* Everybody but rank 0; rank 0 has MPI_COMM_NULL and takes no part. */
  MPI_Group world, group;
  int zero = 0;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_excl(world, 1, &zero, &group);
  MPI_Comm_create(MPI_COMM_WORLD, group, &most);
  if (most != MPI_COMM_NULL) sum_over(most, "all but rank 0");

  int sizes[2] = {0, 0}, periods[2] = {1, 0}, keep[2] = {0, 1};
  MPI_Dims_create(world_size, 2, sizes);
  MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, periods, 1, &grid);
  sum_over(grid, "Cartesian grid");
  MPI_Cart_sub(grid, keep, &row);
  sum_over(row, "row of the grid");

  /* In turn, without anything between that would separate them. */
  for (int i = 0; i < 5; ++i) {
    sum_over(MPI_COMM_WORLD, "in turn: world");
    sum_over(parity, "in turn: even or odd");
    sum_over(reversed, "in turn: reversed");
    sum_over(row, "in turn: row");
  }
  if (most != MPI_COMM_NULL) MPI_Comm_free(&most);
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  MPI_Comm_free(&row);
  MPI_Comm_free(&grid);
  MPI_Comm_free(&parity);
  MPI_Comm_free(&reversed);
  MPI_Comm_free(&duplicate);
}

/* An allreduce over an inter-communicator gives each side the sum of the other. */
static void between_groups(void) {
  if (world_size < 2) return;
  MPI_Comm side, both;
  int here = world_rank % 2, there_size = here ? (world_size + 1) / 2 : world_size / 2;
  MPI_Comm_split(MPI_COMM_WORLD, here, world_rank, &side);
  MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, 1 - here, 7, &both);
  const int counts[] = {1, 2000};
  for (int c = 0; c < 2; ++c) {
    int input[2000], output[2000];
    for (int i = 0; i < counts[c]; ++i) input[i] = i + (here ? 1000 : 1);
    allreduce(input, output, counts[c], MPI_INT, MPI_SUM, both);
    int wrong = -1;
    for (int i = 0; i < counts[c]; ++i)
      if (output[i] != there_size * (i + (here ? 1 : 1000))) wrong = i;
    CHECK(wrong < 0, "inter-communicator, count %d: element %d", counts[c], wrong);
  }
  MPI_Comm merged;
  MPI_Intercomm_merge(both, here, &merged);
  sum_over(merged, "merged inter-communicator");
  MPI_Comm_free(&merged);
  MPI_Comm_free(&both);
  MPI_Comm_free(&side);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  derived_communicators();
  between_groups();
  return check_finish();
}
