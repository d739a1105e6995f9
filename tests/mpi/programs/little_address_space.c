/* SPDX-License-Identifier: BSD-3-Clause
 *
 *     little_address_space COMMUNICATORS LEFT_MIB
 *
 * Leaves the process LEFT_MIB of address space, uses COMMUNICATORS communicators, and then wants half of that
 * space for itself.
 */
#include <sys/mman.h>

#include "check.h"
#include "room.h"

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int communicators = atoi(argv[1]);
  const size_t left = (size_t)atol(argv[2]) << 20;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Comm *all = allocate(sizeof(MPI_Comm) * (size_t)communicators);
  for (int k = 0; k < communicators; ++k) MPI_Comm_dup(MPI_COMM_WORLD, &all[k]);
  leave_room((long)left);
  within(60, "allreduce");
  for (int k = 0; k < communicators; ++k) {
    const int mine = world_rank + k;
    int sum = 0;
    allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, all[k]);
    CHECK(sum == world_size * k + world_size * (world_size - 1) / 2, "communicator %d: %d", k, sum);
  }
  void *mine = mmap(NULL, left / 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(mine != MAP_FAILED, "half of what was left is gone");
  for (int k = 0; k < communicators; ++k) MPI_Comm_free(&all[k]);
  free(all);
  return check_finish();
}
