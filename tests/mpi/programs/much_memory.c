/* SPDX-License-Identifier: BSD-3-Clause
 *
 *     much_memory COMMUNICATORS MOST_MIB [DUPLICATES]
 *
 * Makes COMMUNICATORS communicators of all ranks, DUPLICATES of them alive at a time, with long allreduces on each, in
 * two rounds. Checks that the memory of a rank grows by at most MOST_MIB meanwhile.
 */
#include "check.h"

enum { most_alive = 3000, count = 1 << 18 };

static MPI_Comm alive[most_alive];

/* Resident memory of this process, in KiB. */
static long resident(void) {
  long kib = 0;
  char line[256];
  FILE *status = fopen("/proc/self/status", "r");
  while (status != NULL && fgets(line, sizeof line, status) != NULL) sscanf(line, "VmRSS: %ld", &kib);
  if (status != NULL) fclose(status);
  return kib;
}

static void sum(MPI_Comm communicator, int number) {
  static int input[count], output[count];
  for (int k = 0; k < count; k += 1000) input[k] = world_rank + number + k;
  input[count - 1] = number;
  allreduce(input, output, count, MPI_INT, MPI_SUM, communicator);
  long wrong = output[count - 1] != number * world_size;
  for (int k = 0; k < count; k += 1000)
    wrong += output[k] != world_size * (number + k) + world_size * (world_size - 1) / 2;
  CHECK(wrong == 0, "communicator %d: %ld wrong", number, wrong);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int communicators = atoi(argv[1]);
  const long most_kib = atol(argv[2]) * 1024;
  const int at_once = argc > 3 ? atoi(argv[3]) : communicators;
  sum(MPI_COMM_WORLD, 0);
  const long before = resident();
  long highest = before;
  for (int first = 0; first < communicators; first += at_once) {
    for (int k = 0; k < at_once; ++k) MPI_Comm_dup(MPI_COMM_WORLD, &alive[k]);
    const long made = resident() - before; /* what the MPI itself takes for them */
    for (int turn = 0; turn < 2; ++turn) {
      for (int k = 0; k < at_once; ++k) {
        sum(alive[k], first + k);
        if (k % 100 == 0 && resident() - made > highest) highest = resident() - made;
      }
    }
    for (int k = 0; k < at_once; ++k) MPI_Comm_free(&alive[k]);
  }
  printf("rank %d: %ld MiB more\n", world_rank, (highest - before) / 1024);
  CHECK(highest - before <= most_kib, "%ld KiB more", highest - before);
  return check_finish();
}
