/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Makes a group under MPI and uses it after MPI_Finalize: collectives and messages, blocking, and begun with a
 * function to call at the end, which only a thread of offbeat can call. A group of one node.
 *
 * With "open", rank 0 never completes a collective of MPI, against MPI's rules. It is over after rank 0 has begun
 * MPI_Finalize, and its result, which has gaps, can no longer be unpacked by the MPI.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "interface.h"

static int exchange(void *state, const void *mine, size_t bytes, void *all) {
  (void)state;
  return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static atomic_int ended;
static void note_end(void *state, offbeat_status status, const char *text) {
  (void)state;
  if (status != OFFBEAT_OK) {
    fprintf(stderr, "FAIL: %s\n", text);
    _exit(1);
  }
  atomic_fetch_add(&ended, 1);
}

static void require(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "FAIL: %s\n", what);
  _exit(1);
}

static int gap_input[8], gap_output[64];

static void leave_open(int rank) {
  MPI_Datatype gaps;
  MPI_Request request;
  MPI_Type_vector(2, 1, 2, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  MPI_Allgather(gap_input, 1, gaps, gap_output, 1, gaps, MPI_COMM_WORLD);
  for (int k = 0; k < 2; ++k) {
    if (k == 1 && rank > 0) usleep(300000); /* rank 0 is in MPI_Finalize then */
    MPI_Iallgather(gap_input, 1, gaps, gap_output, 1, gaps, MPI_COMM_WORLD, &request);
    if (k == 0 || rank > 0) MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (k == 0) MPI_Barrier(MPI_COMM_WORLD);
  }
}

int main(int argc, char **argv) {
  int rank = 0, size = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  __typeof__(&offbeat_group_make) make = function("offbeat_group_make");
  __typeof__(&offbeat_group_free) release = function("offbeat_group_free");
  __typeof__(&offbeat_begin) begin = function("offbeat_begin");
  __typeof__(&offbeat_wait) wait = function("offbeat_wait");
  __typeof__(&offbeat_run) run = function("offbeat_run");
  __typeof__(&offbeat_begin_send) begin_send = function("offbeat_begin_send");
  __typeof__(&offbeat_receive) receive = function("offbeat_receive");
  offbeat_group *group = NULL;
  require(make(rank, size, exchange, NULL, &group) == OFFBEAT_OK, "no group");
  if (argc > 1 && strcmp(argv[1], "open") == 0) leave_open(rank);
  MPI_Finalize();

  alarm(60); /* a hang is a failure */
  for (int k = 0; k < 50; ++k) {
    float value = 1;
    offbeat_call call = OFFBEAT_CALL_INIT;
    call.group = group;
    call.collective = "allreduce";
    call.output = &value;
    call.count = 1;
    call.type = OFFBEAT_FLOAT32;
    call.done = note_end;
    if (rank == 0) usleep(1000); /* so that the others cannot end it at once */
    require(begin(&call, NULL) == OFFBEAT_OK, "begin");
    while (atomic_load(&ended) <= k) sched_yield();
    require(value == (float)size, "a wrong sum");
  }
  char outgoing = (char)rank, incoming = -1;
  offbeat_message message = OFFBEAT_MESSAGE_INIT;
  message.group = group;
  message.peer = (rank + 1) % size;
  message.data = &outgoing;
  message.bytes = 1;
  message.done = note_end;
  require(begin_send(&message, NULL) == OFFBEAT_OK, "send");
  message.peer = OFFBEAT_ANY_RANK;
  message.data = &incoming;
  require(receive(&message) == OFFBEAT_OK && incoming == (rank + size - 1) % size, "receive");
  while (atomic_load(&ended) <= 50) sched_yield();
  offbeat_call barrier = OFFBEAT_CALL_INIT;
  barrier.group = group;
  barrier.collective = "barrier";
  require(run(&barrier) == OFFBEAT_OK, "barrier");
  offbeat_request *begun = NULL;
  require(begin(&barrier, &begun) == OFFBEAT_OK && wait(&begun) == OFFBEAT_OK, "a barrier that is waited for");
  release(&group);
  return 0;
}
