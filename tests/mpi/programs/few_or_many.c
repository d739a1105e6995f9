/* SPDX-License-Identifier: BSD-3-Clause
 *
 * few_or_many: makes long lists of requests and drains them by each function that completes some or all of
 * them. Between the requests are messages and requests of persistent collectives, active and inactive. Every
 * request must be completed once, and be complete when MPI says so. Under libmpi_counting the last line but
 * one says how many completions the host was told of.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "check.h"
#include "counting.h"
#include "persistent.h"

enum { MANY = 300 };
enum { WAITALL, WAITANY, WAITSOME, TESTALL, TESTANY, TESTSOME, TEST, WAYS };

static int sent[MANY], received[MANY];
static MPI_Request requests[MANY], kept[MANY];
static char is_done[MANY];

static void done(int i, const char *what) {
  CHECK(i >= 0 && i < MANY && !is_done[i], "%s: request %d is complete again", what, i);
  if (i >= 0 && i < MANY) is_done[i] = 1;
}

static void drain(int way, int left) {
  int indices[MANY], count = 0, flag = 0, index = -1;
  MPI_Status statuses[MANY];
  within(60, "way %d", way);
  switch (way) {
    case WAITALL:
      MPI_Waitall(MANY, requests, statuses);
      break;
    case TESTALL:
      while (!flag) MPI_Testall(MANY, requests, &flag, MPI_STATUSES_IGNORE);
      break;
    case TEST:
      for (int i = 0; i < MANY; ++i)
        for (flag = 0; !flag;) MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
      break;
    case WAITANY:
      for (; left > 0; --left) {
        MPI_Waitany(MANY, requests, &index, MPI_STATUS_IGNORE);
        done(index, "waitany");
      }
      MPI_Waitany(MANY, requests, &index, MPI_STATUS_IGNORE);
      CHECK(index == MPI_UNDEFINED, "waitany of none: %d", index);
      break;
    case TESTANY:
      for (; left > 0; left -= flag) {
        MPI_Testany(MANY, requests, &index, &flag, MPI_STATUS_IGNORE);
        if (flag) done(index, "testany");
      }
      MPI_Testany(MANY, requests, &index, &flag, MPI_STATUS_IGNORE);
      CHECK(flag && index == MPI_UNDEFINED, "testany of none: %d", index);
      break;
    default:
      while (left > 0) {
        if (way == WAITSOME)
          MPI_Waitsome(MANY, requests, &count, indices, statuses);
        else
          MPI_Testsome(MANY, requests, &count, indices, statuses);
        CHECK(way == TESTSOME || count > 0, "waitsome: %d", count);
        for (int k = 0; k < count; ++k) done(indices[k], "some");
        left -= count;
      }
      MPI_Waitsome(MANY, requests, &count, indices, statuses);
      CHECK(count == MPI_UNDEFINED, "waitsome of none: %d", count);
  }
}

/* Every fourth request is a message. Any other is persistent if its number is a multiple of 5, and is not started if that
 * number is odd. */
enum kind { COLLECTIVE, MESSAGE, ACTIVE, INACTIVE };
static enum kind kind_of(int i, int with_messages, int with_persistent) {
  if (with_messages && i % 4 == 3) return MESSAGE;
  if (with_persistent && i % 5 == 0) return i % 2 ? INACTIVE : ACTIVE;
  return COLLECTIVE;
}

static void once(int way, int with_messages, int with_persistent) {
  const int next = (world_rank + 1) % world_size, before = (world_rank + world_size - 1) % world_size;
  MPI_Request sends[MANY];
  int left = 0, sends_left = 0;
  memset(is_done, 0, sizeof is_done);
  for (int i = 0; i < MANY; ++i) {
    const enum kind kind = kind_of(i, with_messages, with_persistent);
    sent[i] = i, received[i] = -1;
    left += kind != INACTIVE;
    if (kind == MESSAGE) {
      MPI_Irecv(&received[i], 1, MPI_INT, before, i, MPI_COMM_WORLD, &requests[i]);
      MPI_Isend(&sent[i], 1, MPI_INT, next, i, MPI_COMM_WORLD, &sends[sends_left++]);
    } else if (kind == COLLECTIVE) {
      ++check_calls;
      MPI_Iallreduce(&sent[i], &received[i], 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &requests[i]);
    } else {
      requests[i] = kept[i];
      check_calls += kind == ACTIVE;
      if (kind == ACTIVE) MPI_Start(&requests[i]);
    }
  }
  drain(way, left);
  MPI_Waitall(sends_left, sends, MPI_STATUSES_IGNORE);
  for (int i = 0; i < MANY; ++i) {
    const enum kind kind = kind_of(i, with_messages, with_persistent);
    const int is_kept = kind == ACTIVE || kind == INACTIVE;
    CHECK(requests[i] == (is_kept ? kept[i] : MPI_REQUEST_NULL), "way %d: request %d is left", way, i);
    CHECK(received[i] == (kind == INACTIVE ? -1 : i), "way %d: %d is %d", way, i, received[i]);
  }
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  int one = 1, most;
  allreduce(&one, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  for (int i = 0; i < MANY && has_persistent; ++i)
    if (kind_of(i, 1, 1) == ACTIVE || kind_of(i, 1, 1) == INACTIVE)
      MPI_Allreduce_init(&sent[i], &received[i], 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL, &kept[i]);
  for (int way = 0; way < WAYS; ++way)
    for (int with_messages = 0; with_messages < 2; ++with_messages)
      once(way, with_messages, has_persistent && with_messages);
  within(60, "the end");
  host_calls_function *host_calls = (host_calls_function *)dlsym(RTLD_DEFAULT, "host_calls");
  if (host_calls != NULL && world_rank == 0) printf("completed by the host: %ld\n", host_calls().completed);
  for (int i = 0; i < MANY && has_persistent; ++i)
    if (kind_of(i, 1, 1) == ACTIVE || kind_of(i, 1, 1) == INACTIVE) MPI_Request_free(&kept[i]);
  return check_finish();
}
