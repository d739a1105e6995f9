/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A group of several nodes: blocking calls of many lengths, lists of counts, messages from any rank, and an
 * end after MPI_Finalize.
 */
#include <stdlib.h>
#include <string.h>

#include "interface.h"

enum { longest = 200000 };

static int rank = 0, size = 0;
static __typeof__(&offbeat_run) run_call;

static int exchange(void* state, const void* mine, size_t bytes, void* all) {
  (void)state;
  return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void require(int holds, const char* what) {
  if (holds) return;
  __typeof__(&offbeat_error_text) text = function("offbeat_error_text");
  fprintf(stderr, "FAIL: rank %d: %s: %s\n", rank, what, text());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void run(offbeat_group* group, const char* collective, const int32_t* input, int32_t* output,
                size_t count, const size_t* given, const size_t* taken) {
  offbeat_call call = OFFBEAT_CALL_INIT;
  call.group = group;
  call.collective = collective;
  call.input = input;
  call.output = output;
  call.count = count;
  call.type = OFFBEAT_INT32;
  call.input_counts = given;
  call.output_counts = taken;
  require(run_call(&call) == OFFBEAT_OK, collective);
}

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  __typeof__(&offbeat_group_make) make = function("offbeat_group_make");
  __typeof__(&offbeat_group_free) release = function("offbeat_group_free");
  __typeof__(&offbeat_send) send = function("offbeat_send");
  __typeof__(&offbeat_receive) receive = function("offbeat_receive");
  run_call = function("offbeat_run");
  offbeat_group* group = NULL;
  require(make(rank, size, exchange, NULL, &group) == OFFBEAT_OK, "make");
  MPI_Query_thread(&level);
  require(level == MPI_THREAD_MULTIPLE, "the level of thread support has changed");

  const size_t ranks = (size_t)size;
  int32_t* mine = malloc(longest * ranks * sizeof *mine);
  int32_t* found = malloc(longest * ranks * sizeof *found);
  size_t* given = malloc(ranks * sizeof *given);
  size_t* taken = malloc(ranks * sizeof *taken);
  for (size_t count = 1; count <= longest; count = count * 7 + 1) {
    for (size_t k = 0; k < count; ++k) mine[k] = (int32_t)k + rank;
    run(group, "allreduce", mine, found, count, NULL, NULL);
    for (size_t k = 0; k < count; ++k)
      require(found[k] == size * (int32_t)k + size * (size - 1) / 2, "a wrong sum");
    run(group, "bcast", NULL, mine, count, NULL, NULL);
    require(mine[count - 1] == (int32_t)count - 1, "a wrong value from rank 0");
    run(group, "barrier", NULL, NULL, 0, NULL, NULL);

    /* Rank s has s + r + 1 elements for rank r, or none. */
    size_t at = 0;
    for (size_t r = 0; r < ranks; ++r) {
      given[r] = count > 100 ? (size_t)rank + r + 1 : 0;
      taken[r] = given[r];
      for (size_t k = 0; k < given[r]; ++k) mine[at++] = rank * 1000 + (int32_t)r;
    }
    run(group, "alltoallv", mine, found, 0, given, taken);
    at = 0;
    for (size_t s = 0; s < ranks; ++s)
      for (size_t k = 0; k < taken[s]; ++k) require(found[at++] == (int32_t)s * 1000 + rank, "a wrong block");
  }

  for (int k = 1; rank == 0 && k < 2 * size - 1; ++k) {
    int32_t value = -1;
    offbeat_arrival arrival = {-1, -1, 0};
    offbeat_message message = OFFBEAT_MESSAGE_INIT;
    message.group = group;
    message.tag = k < size ? 5 : 6;
    message.data = &value;
    message.bytes = sizeof value;
    message.arrival = &arrival;
    require(receive(&message) == OFFBEAT_OK, "receive");
    require(arrival.rank == value && arrival.tag == message.tag && arrival.bytes == sizeof value,
            "an arrival");
  }
  for (int tag = 6; rank > 0 && tag > 4; --tag) {
    offbeat_message message = OFFBEAT_MESSAGE_INIT;
    message.group = group;
    message.peer = 0;
    message.tag = tag;
    message.data = &rank;
    message.bytes = sizeof rank;
    require(send(&message) == OFFBEAT_OK, "send");
    message.tag = 2147483647;
    require(tag == 6 || send(&message) == OFFBEAT_ERROR_ARGUMENT, "a tag that MPI does not have");
  }
  offbeat_group* another = NULL;
  require(make(rank, size, exchange, NULL, &another) == OFFBEAT_OK, "make another");
  run(another, "barrier", NULL, NULL, 0, NULL, NULL);
  release(&group);
  MPI_Finalize();
  offbeat_call late = OFFBEAT_CALL_INIT;
  late.group = another;
  late.collective = "barrier";
  const offbeat_status status = run_call(&late);
  release(&another);
  if (status != OFFBEAT_ERROR_ARGUMENT) {
    fprintf(stderr, "FAIL: rank %d: status %d of a call after MPI_Finalize\n", rank, (int)status);
    return 1;
  }
  free(mine);
  free(found);
  free(given);
  free(taken);
  return 0;
}
