/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rank 1 of a group of several nodes is killed. Each of the others prints what its call says about that, and
 * ends without MPI_Finalize.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <unistd.h>

#include "interface.h"

static int exchange(void* state, const void* mine, size_t bytes, void* all) {
  (void)state;
  return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  int rank = 0, size = 0, level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  alarm(60); /* a hang is a failure */
  __typeof__(&offbeat_group_make) make = function("offbeat_group_make");
  __typeof__(&offbeat_run) run = function("offbeat_run");
  __typeof__(&offbeat_error_text) text = function("offbeat_error_text");
  offbeat_group* group = NULL;
  float value = 1;
  offbeat_call call = OFFBEAT_CALL_INIT;
  if (make(rank, size, exchange, NULL, &group) != OFFBEAT_OK) {
    printf("rank %d: no group: %s\n", rank, text());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  call.group = group;
  call.collective = "allreduce";
  call.output = &value;
  call.count = 1;
  call.type = OFFBEAT_FLOAT32;
  offbeat_status status = run(&call);
  if (status == OFFBEAT_OK && rank == 1) kill(getpid(), SIGKILL);
  if (status == OFFBEAT_OK) status = run(&call);
  printf("rank %d: status %d: %s\n", rank, (int)status, text());
  fflush(stdout);
  usleep(200000); /* others may still ask this rank about the failure */
  _exit(0);
}
