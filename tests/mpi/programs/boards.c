/* SPDX-License-Identifier: BSD-3-Clause
 *
 * boards COUNT: makes, uses and frees COUNT communicators, one after the other, where neither /proc nor pidfd_getfd
 * gives a rank the memory of another. The number of open descriptors must not grow.
 */
#include "check.h"
#include "refuse.h"

static int open_descriptors(void) {
  int count = 0;
  for (int k = 0; k < 4096; ++k) count += fcntl(k, F_GETFD) >= 0;
  return count;
}

static void use(MPI_Comm communicator, int number) {
  const int input = number + world_rank;
  int output = -1;
  allreduce(&input, &output, 1, MPI_INT, MPI_SUM, communicator);
  CHECK(output == world_size * number + world_size * (world_size - 1) / 2, "communicator %d: %d", number, output);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  refuse_proc();
  refuse_pidfd();
  enum { WARM = 3 }; /* in which the MPI may open what it needs */
  int before = 0;
  const int count = WARM + atoi(argv[1]);
  /* All stay: the board of one that is freed would serve the next. */
  MPI_Comm *copies = allocate(sizeof(MPI_Comm) * (size_t)count);
  for (int number = 0; number < count; ++number) {
    MPI_Comm_dup(MPI_COMM_WORLD, &copies[number]);
    use(copies[number], number);
    if (number == WARM - 1) before = open_descriptors();
  }
  const int after = open_descriptors();
  for (int number = 0; number < count; ++number) MPI_Comm_free(&copies[number]);
  free(copies);
  CHECK(after <= before, "%d open descriptors in place of %d", after, before);
  return check_finish();
}
