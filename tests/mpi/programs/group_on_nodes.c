/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A group of several nodes makes blocking calls of many lengths, with lists of counts, and messages from any
 * rank, which keep their order. It is freed after MPI_Finalize, which ends some calls early.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static offbeat_message message_of(offbeat_group* group, int peer, int tag, int32_t* value) {
  offbeat_message message = OFFBEAT_MESSAGE_INIT;
  message.group = group;
  message.peer = peer;
  message.tag = tag;
  message.data = value;
  message.bytes = sizeof *value;
  return message;
}

/* Receives with one tag get messages in the order in which they were begun, also those from any rank. */
static void receive_in_order(offbeat_group* group) {
  enum { count = 6 };
  __typeof__(&offbeat_begin_receive) begin_receive = function("offbeat_begin_receive");
  __typeof__(&offbeat_send) send = function("offbeat_send");
  __typeof__(&offbeat_wait) wait = function("offbeat_wait");
  int32_t values[count];
  offbeat_request* requests[count] = {NULL};
  for (int k = 0; rank == 0 && k < count; ++k) {
    const offbeat_message message =
        message_of(group, k % 2 == 0 ? OFFBEAT_ANY_RANK : size - 1, 9, &values[k]);
    require(begin_receive(&message, &requests[k]) == OFFBEAT_OK, "begin to receive");
  }
  run(group, "barrier", NULL, NULL, 0, NULL, NULL);
  for (int32_t k = 0; rank == size - 1 && k < count; ++k) {
    const offbeat_message message = message_of(group, 0, 9, &k);
    require(send(&message) == OFFBEAT_OK, "send in order");
  }
  for (int k = count - 1; rank == 0 && k >= 0; --k)
    require(wait(&requests[k]) == OFFBEAT_OK, "wait for a message");
  for (int k = 0; rank == 0 && k < count; ++k) require(values[k] == k, "messages in another order");
}

/* A message that is too long ruins a group. All ranks get the same error. */
static void receive_too_little(offbeat_group* group) {
  __typeof__(&offbeat_error_text) text = function("offbeat_error_text");
  __typeof__(&offbeat_send) send = function("offbeat_send");
  __typeof__(&offbeat_receive) receive = function("offbeat_receive");
  int32_t values[2] = {0, 0};
  offbeat_message message = message_of(group, rank == 0 ? size - 1 : 0, 7, values);
  if (rank == 0) require(receive(&message) == OFFBEAT_ERROR_MISMATCH, "no mismatch");
  message.bytes = sizeof values;
  if (rank == size - 1) send(&message); /* may end before anybody receives the message */
  char expected[100];
  snprintf(expected, sizeof expected, "rank 0 receives 4 bytes from rank %d with tag 7, which sends 8 bytes",
           size - 1);
  offbeat_call call = OFFBEAT_CALL_INIT;
  call.group = group;
  call.collective = "barrier";
  while (run_call(&call) == OFFBEAT_OK) usleep(1000);
  require(strcmp(text(), expected) == 0, expected);
}

/* How many calls that were under way at the end of MPI have failed as they should. */
static atomic_int ends[2];
static void note_end(void* state, offbeat_status status, const char* text) {
  if (status == OFFBEAT_ERROR_RANK &&
      strstr(text, "has called MPI_Finalize before a call in this group was over"))
    atomic_fetch_add((atomic_int*)state, 1);
  else
    fprintf(stderr, "FAIL: rank %d: status %d: %s\n", rank, (int)status, text);
}

/* More collectives than there are stages, and messages. No other rank begins them. */
static void leave_under_way(offbeat_group* group) {
  __typeof__(&offbeat_begin) begin = function("offbeat_begin");
  __typeof__(&offbeat_begin_receive) begin_receive = function("offbeat_begin_receive");
  static int32_t values[16];
  for (int k = 0; k < 8; ++k) {
    offbeat_call call = OFFBEAT_CALL_INIT;
    call.group = group;
    call.collective = "allreduce";
    call.output = &values[k];
    call.count = 1;
    call.type = OFFBEAT_INT32;
    call.done = note_end;
    call.done_state = &ends[0];
    require(begin(&call, NULL) == OFFBEAT_OK, "begin");
    offbeat_message message = message_of(group, k % 2 == 0 ? size - 1 : OFFBEAT_ANY_RANK, k, &values[8 + k]);
    message.done = note_end;
    message.done_state = &ends[1];
    require(begin_receive(&message, NULL) == OFFBEAT_OK, "begin to receive");
  }
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
  receive_in_order(group);
  MPI_Barrier(MPI_COMM_WORLD); /* the failure of the next call must reach nobody in the one before */
  receive_too_little(group);
  release(&group);
  if (rank == 0) leave_under_way(another);
  alarm(60); /* a hang is a failure */
  MPI_Finalize();
  const int expected = rank == 0 ? 8 : 0;
  if (atomic_load(&ends[0]) != expected || atomic_load(&ends[1]) != expected) {
    fprintf(stderr, "FAIL: rank %d: %d calls and %d messages have failed instead of %d\n", rank, ends[0],
            ends[1], expected);
    return 1;
  }
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
