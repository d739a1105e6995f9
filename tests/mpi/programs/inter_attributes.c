/* SPDX-License-Identifier: BSD-3-Clause
 *
 * inter_attributes ROUNDS: inter-communicators are freed, and a delete function calls MPI_Allreduce on what it is
 * given. Open MPI gives it a communicator that the program has never seen, frees that, too, and uses its memory for
 * the next one.
 */
#include "check.h"

static int is_expected(MPI_Comm communicator, const char *where) {
  int one = 1, sum = 0, size = 0;
  MPI_Comm_size(communicator, &size);
  allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, communicator);
  CHECK(sum == size, "%s: the sum of %d ranks is %d", where, size, sum);
  return sum == size;
}

static int copy(MPI_Comm of, int key, void *extra, void *value, void *copied, int *flag) {
  (void)of, (void)key, (void)extra;
  *(void **)copied = value;
  *flag = 1;
  return MPI_SUCCESS;
}

static int delete(MPI_Comm of, int key, void *value, void *extra) {
  (void)key, (void)value, (void)extra;
  int is_inter = 0;
  MPI_Comm_test_inter(of, &is_inter);
  if (!is_inter) is_expected(of, "in a delete function");
  return MPI_SUCCESS;
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  MPI_Comm half, between, duplicates[8];
  int key;
  MPI_Comm_create_keyval(copy, delete, &key, NULL);
  const int is_upper = world_rank >= world_size / 2;
  for (int round = 0; round < atoi(argv[1]); ++round) {
    within(30, "round %d", round);
    MPI_Comm_split(MPI_COMM_WORLD, is_upper, 0, &half);
    MPI_Comm_set_attr(half, key, &key);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_upper ? 0 : world_size / 2, 1, &between);
    MPI_Comm_free(&between);
    for (int k = 0; k < 8; ++k) {
      MPI_Comm_dup(MPI_COMM_WORLD, &duplicates[k]);
      is_expected(duplicates[k], "on a duplicate");
    }
    for (int k = 0; k < 8; ++k) MPI_Comm_free(&duplicates[k]);
    MPI_Comm_free(&half);
  }
  within(30, "the end");
  MPI_Comm_free_keyval(&key);
  return check_finish();
}
