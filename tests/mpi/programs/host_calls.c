/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Under libmpi_counting: what a further communicator of the same ranks costs in calls of the host.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "check.h"
#include "counting.h"

enum { WARM = 2, ROUNDS = 20, CALLS = 10 };

static void use_and_free(MPI_Comm communicator) {
  for (int call = 0; call < CALLS; ++call) {
    const int mine = world_rank + call;
    int sum = 0;
    allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, communicator);
    CHECK(sum == world_size * call + world_size * (world_size - 1) / 2, "call %d: sum %d", call, sum);
  }
  MPI_Comm_free(&communicator);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  within(20, "communicators");
  host_calls_function *counted = (host_calls_function *)dlsym(RTLD_DEFAULT, "host_calls");
  CHECK(counted != NULL, "libmpi_counting is not preloaded");
  struct host_calls before = {0, 0, 0};
  for (int round = 0; counted && round < WARM + ROUNDS; ++round) {
    MPI_Comm communicator;
    if (round == WARM) before = counted();
    MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
    use_and_free(communicator);
  }
  if (counted && world_rank == 0) {
    const struct host_calls after = counted();
    printf("first: %ld allreduces, %ld other collectives, %ld communicators\n", before.allreduces,
           before.other_collectives, before.communicators);
    printf("later: %ld allreduces, %ld other collectives, %ld communicators, in %d rounds\n",
           after.allreduces - before.allreduces, after.other_collectives - before.other_collectives,
           after.communicators - before.communicators, ROUNDS);
  }
  return check_finish();
}
