/* SPDX-License-Identifier: BSD-3-Clause
 *
 * requests: non-blocking and persistent collectives as programs use them: among other requests, with types
 * and communicators that are freed meanwhile, started again and again, many at once, and completed by another
 * thread than the one that began them (which needs MPI_THREAD_MULTIPLE and an argument "threads").
 */
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "check.h"
#include "persistent.h"

enum { FEW = 100, MANY = 1 << 18, AT_ONCE = 64 };

static void expect(const int* data, int count, int first, const char* what) {
  int wrong = 0;
  for (int i = 0; i < count; ++i) wrong += data[i] != first + i;
  CHECK(wrong == 0, "%s: %d of %d wrong, the first is %d", what, wrong, count, count > 0 ? data[0] : 0);
}
static void fill(int* data, int count, int first) {
  for (int i = 0; i < count; ++i) data[i] = first + i;
}

/* Beside messages, in every list of requests. */
static void among_messages(MPI_Comm communicator, const char* name) {
  const int next = (world_rank + 1) % world_size, before = (world_rank + world_size - 1) % world_size;
  for (int round = 0; round < 20; ++round) {
    int from[FEW], to[FEW], sent[FEW], received[FEW], all[FEW], done = 0, left = 5;
    MPI_Request requests[5];
    MPI_Status statuses[5];
    within(20, "%s, among messages", name);
    fill(from, FEW, round), fill(sent, FEW, world_rank), fill(all, FEW, round);
    MPI_Irecv(received, FEW, MPI_INT, before, round, communicator, &requests[0]);
    MPI_Ibcast(world_rank == 0 ? from : to, FEW, MPI_INT, 0, communicator, &requests[1]);
    MPI_Isend(sent, FEW, MPI_INT, next, round, communicator, &requests[2]);
    MPI_Iallreduce(MPI_IN_PLACE, all, FEW, MPI_INT, MPI_MAX, communicator, &requests[3]);
    MPI_Ibarrier(communicator, &requests[4]);
    ++check_calls;
    switch (round % 4) {
      case 0:
        MPI_Waitall(5, requests, statuses);
        CHECK(statuses[0].MPI_SOURCE == before && statuses[0].MPI_TAG == round, "status of a message");
        break;
      case 1:
        for (; left > 0; --left) {
          MPI_Waitany(5, requests, &done, statuses);
          CHECK(done >= 0 && done < 5 && requests[done] == MPI_REQUEST_NULL, "waitany: %d", done);
          int count = -1;
          MPI_Get_count(statuses, MPI_INT, &count);
          if (done == 0)
            CHECK(count == FEW && statuses[0].MPI_SOURCE == before, "count of a message: %d", count);
        }
        MPI_Waitany(5, requests, &done, MPI_STATUS_IGNORE);
        CHECK(done == MPI_UNDEFINED, "waitany of none: %d", done);
        break;
      case 2:
        while (left > 0) {
          int indices[5];
          MPI_Waitsome(5, requests, &done, indices, statuses);
          CHECK(done > 0, "waitsome: %d", done);
          left -= done;
        }
        break;
      default:
        while (done == 0) MPI_Testall(5, requests, &done, MPI_STATUSES_IGNORE);
    }
    for (int k = 0; k < 5; ++k) CHECK(requests[k] == MPI_REQUEST_NULL, "request %d is left", k);
    expect(world_rank == 0 ? from : to, FEW, round, "bcast");
    expect(received, FEW, before, "message");
    expect(all, FEW, round, "allreduce");
  }
}

/* Freed as soon as the call has begun. */
static void freed_meanwhile(void) {
  static int data[2 * MANY];
  MPI_Comm communicator;
  MPI_Datatype every_other;
  MPI_Request request;
  within(20, "a type and a communicator are freed meanwhile");
  MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
  MPI_Type_vector(MANY, 1, 2, MPI_INT, &every_other);
  MPI_Type_commit(&every_other);
  for (int i = 0; i < 2 * MANY; ++i) data[i] = world_rank == 0 ? i : -1;
  MPI_Ibcast(data, 1, every_other, 0, communicator, &request);
  MPI_Type_free(&every_other);
  /* The host's progress may end the collective before its communicator is freed. */
  for (int look = 0, is_there; world_rank != 0 && look < 10; ++look) {
    usleep(1000);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &is_there, MPI_STATUS_IGNORE);
  }
  MPI_Comm_free(&communicator);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  int wrong = 0;
  for (int i = 0; i < 2 * MANY; ++i) wrong += data[i] != (world_rank == 0 || i % 2 == 0 ? i : -1);
  CHECK(wrong == 0, "bcast with gaps: %d wrong", wrong);
}

/* Addresses in the type, which older MPIs do not pack. */
static void at_the_bottom(void) {
  static int first[FEW], second[FEW];
  const int lengths[] = {FEW, FEW};
  MPI_Aint addresses[2];
  MPI_Datatype both;
  MPI_Request request;
  within(20, "MPI_BOTTOM");
  MPI_Get_address(first, &addresses[0]);
  MPI_Get_address(second, &addresses[1]);
  MPI_Type_create_hindexed(2, lengths, addresses, MPI_INT, &both);
  MPI_Type_commit(&both);
  for (int is_blocking = 0; is_blocking < 2; ++is_blocking) {
    fill(first, FEW, world_rank == 0 ? 10 + is_blocking : -1), fill(second, FEW, world_rank == 0 ? 500 : -1);
    if (is_blocking) {
      MPI_Bcast(MPI_BOTTOM, 1, both, 0, MPI_COMM_WORLD);
    } else {
      MPI_Ibcast(MPI_BOTTOM, 1, both, 0, MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    expect(first, FEW, 10 + is_blocking, "MPI_BOTTOM");
    expect(second, FEW, 500, "MPI_BOTTOM");
  }
  MPI_Type_free(&both);
}

/* Inactive requests are complete, although the host has never started offbeat's. */
static void all_are_inactive(MPI_Request requests[3]) {
  int index = 0, count = 0, done[3], flag = 0;
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
  MPI_Waitany(3, requests, &index, MPI_STATUS_IGNORE);
  CHECK(index == MPI_UNDEFINED, "waitany of inactive ones: %d", index);
  MPI_Waitsome(3, requests, &count, done, MPI_STATUSES_IGNORE);
  CHECK(count == MPI_UNDEFINED, "waitsome of inactive ones: %d", count);
  MPI_Testall(3, requests, &flag, MPI_STATUSES_IGNORE);
  CHECK(flag == 1, "testall of inactive ones: %d", flag);
  index = flag = count = 0;
  MPI_Testsome(3, requests, &count, done, MPI_STATUSES_IGNORE);
  CHECK(count == MPI_UNDEFINED, "testsome of inactive ones: %d", count);
  MPI_Testany(3, requests, &index, &flag, MPI_STATUS_IGNORE);
  CHECK(flag == 1 && index == MPI_UNDEFINED, "testany of inactive ones: %d, %d", flag, index);
  flag = 0;
  MPI_Request_get_status(requests[0], &flag, MPI_STATUS_IGNORE);
  CHECK(flag == 1, "the status of an inactive one: %d", flag);
}

static void persistent(MPI_Comm communicator) {
  static int input[MANY], output[MANY];
  int small = 0, letter = 0, flag;
  MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Status status;
  if (!has_persistent) return;
  within(20, "persistent");
  MPI_Allreduce_init(input, output, MANY, MPI_INT, MPI_SUM, communicator, MPI_INFO_NULL, &requests[0]);
  MPI_Bcast_init(&small, 1, MPI_INT, 0, communicator, MPI_INFO_NULL, &requests[1]);
  MPI_Recv_init(&letter, 1, MPI_INT, world_rank, 1, MPI_COMM_WORLD, &requests[2]);
  MPI_Comm_free(&communicator); /* the requests keep it */
  const MPI_Request kept[3] = {requests[0], requests[1], requests[2]};
  for (int round = 0; round < 30; ++round) {
    for (int i = 0; i < MANY; ++i) input[i] = i + round;
    small = world_rank == 0 ? round : -1;
    /* What is inactive is complete. */
    flag = 0;
    MPI_Test(&requests[0], &flag, &status);
    CHECK(flag == 1 && status.MPI_SOURCE == MPI_ANY_SOURCE, "an inactive request: %d, source %d", flag,
          status.MPI_SOURCE);
    all_are_inactive(requests);
    MPI_Startall(2, requests);
    check_calls += 1;
    int index = -1, done[3];
    switch (round % 5) {
      case 0:
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        break;
      case 1:
        for (int k = 0; k < 2; ++k) {
          MPI_Waitany(3, requests, &index, MPI_STATUS_IGNORE);
          CHECK(index == 0 || index == 1, "waitany: %d", index);
        }
        break;
      case 2:
        for (int left = 2; left > 0; left -= index) {
          MPI_Waitsome(3, requests, &index, done, MPI_STATUSES_IGNORE);
          CHECK(index > 0, "waitsome: %d", index);
        }
        break;
      case 3:
        for (flag = 0; flag == 0;) MPI_Request_get_status(requests[0], &flag, MPI_STATUS_IGNORE);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        break;
      default:
        for (flag = 0; flag == 0;) MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE);
        for (flag = 0; flag == 0;) MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
    }
    for (int k = 0; k < 3; ++k) CHECK(requests[k] == kept[k], "request %d has changed", k);
    int wrong = small != round;
    for (int i = 0; i < MANY; ++i) wrong += output[i] != (i + round) * world_size;
    CHECK(wrong == 0, "persistent, round %d: %d wrong", round, wrong);
  }
  for (int k = 0; k < 3; ++k) MPI_Request_free(&requests[k]);
  for (int k = 0; k < 3; ++k) CHECK(requests[k] == MPI_REQUEST_NULL, "request %d is left", k);
}

/* Ranks make persistent requests in one order, and start them in any: beside blocking calls, of several lengths,
 * and more of them than there are stages on a board. */
static void started_in_any_order(MPI_Comm communicator) {
  enum { SEVERAL = 7 };
  static int input[SEVERAL][MANY], output[SEVERAL][MANY];
  MPI_Request requests[SEVERAL];
  if (!has_persistent) return;
  within(30, "started in any order");
  for (int k = 0; k < SEVERAL; ++k) {
    const int count = k % 2 == 0 ? FEW : MANY / (k + 1);
    MPI_Allreduce_init(input[k], output[k], count, MPI_INT, MPI_SUM, communicator, MPI_INFO_NULL,
                       &requests[k]);
  }
  for (int round = 0; round < 40; ++round) {
    int all = world_rank == 0 ? round : -1;
    for (int k = 0; k < SEVERAL; ++k) {
      const int next = (k * (1 + round % (SEVERAL - 1)) + world_rank * (1 + round % 3)) % SEVERAL;
      for (int i = 0; i < MANY / (next + 1); ++i) input[next][i] = i + next + round;
      if (k == round % SEVERAL) MPI_Bcast(&all, 1, MPI_INT, 0, communicator);
      MPI_Start(&requests[next]);
      check_calls += 1;
    }
    MPI_Waitall(SEVERAL, requests, MPI_STATUSES_IGNORE);
    CHECK(all == round, "a bcast meanwhile: %d", all);
    for (int k = 0; k < SEVERAL; ++k) {
      const int count = k % 2 == 0 ? FEW : MANY / (k + 1);
      int wrong = 0;
      for (int i = 0; i < count; ++i) wrong += output[k][i] != (i + k + round) * world_size;
      CHECK(wrong == 0, "request %d, round %d: %d of %d wrong", k, round, wrong, count);
    }
    if (round % 8 != 7) continue;
    /* A rank may free its requests before others do. */
    const int k = round / 8 % SEVERAL;
    MPI_Request_free(&requests[k]);
    MPI_Allreduce_init(input[k], output[k], k % 2 == 0 ? FEW : MANY / (k + 1), MPI_INT, MPI_SUM, communicator,
                       MPI_INFO_NULL, &requests[k]);
  }
  for (int k = 0; k < SEVERAL; ++k) MPI_Request_free(&requests[(k + world_rank) % SEVERAL]);
}

static long shared_kib(void) {
  char line[200];
  long kib = 0;
  FILE* file = fopen("/proc/self/status", "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) sscanf(line, "RssShmem: %ld", &kib);
  if (file != NULL) fclose(file);
  return kib;
}

static void many_at_once(void) {
  static int input[MANY];
  const long before = shared_kib();
  int* output = allocate(sizeof(int) * MANY * AT_ONCE);
  MPI_Request requests[AT_ONCE];
  fill(input, MANY, 1);
  for (int round = 0; round < 3; ++round) {
    within(60, "%d of 1 MiB at once", AT_ONCE);
    for (int k = 0; k < AT_ONCE; ++k)
      MPI_Iallreduce(input, output + (long)k * MANY, MANY, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &requests[k]);
    check_calls += AT_ONCE;
    MPI_Waitall(AT_ONCE, requests, MPI_STATUSES_IGNORE);
    for (int k = 0; k < AT_ONCE; ++k) expect(output + (long)k * MANY, MANY, 1, "one of many");
  }
  /* MPICH 5.0 lets nothing out in MPI_Finalize of what it has taken for sent. */
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank == 0) printf("shared before: %ld\nshared after: %ld\n", before, shared_kib());
  free(output);
}

/* Rank and thread take part in the order of the calls on each communicator. */
static pthread_barrier_t handover;
static MPI_Request handed;
static int handed_output[MANY];

static void* complete(void* rounds) {
  for (int round = 0; round < *(int*)rounds; ++round) {
    pthread_barrier_wait(&handover);
    MPI_Wait(&handed, MPI_STATUS_IGNORE);
    pthread_barrier_wait(&handover);
  }
  return NULL;
}

static void by_another_thread(void) {
  static int input[MANY];
  int rounds = 200, sum = 0;
  MPI_Comm communicator;
  pthread_t thread;
  within(60, "completed by another thread");
  MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
  MPI_Barrier(communicator);
  pthread_barrier_init(&handover, NULL, 2);
  pthread_create(&thread, NULL, complete, &rounds);
  for (int round = 0; round < rounds; ++round) {
    const int count = round % 3 == 0 ? MANY : FEW;
    fill(input, count, round);
    MPI_Iallreduce(input, handed_output, count, MPI_INT, MPI_MAX, communicator, &handed);
    ++check_calls;
    pthread_barrier_wait(&handover);
    allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); /* while the other thread waits */
    CHECK(sum == world_size, "beside another thread: %d", sum);
    pthread_barrier_wait(&handover);
    CHECK(handed == MPI_REQUEST_NULL, "a request is left");
    expect(handed_output, count, round, "completed by another thread");
  }
  pthread_join(thread, NULL);
  MPI_Comm_free(&communicator);
}

int main(int argc, char** argv) {
  int provided;
  const int has_threads = argc > 1 && strcmp(argv[1], "threads") == 0;
  MPI_Init_thread(&argc, &argv, has_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  allreduce(&(int){1}, &(int){0}, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (has_threads) {
    if (provided == MPI_THREAD_MULTIPLE) by_another_thread();
    return check_finish();
  }
  among_messages(MPI_COMM_WORLD, "MPI_COMM_WORLD");
  MPI_Comm duplicate;
  MPI_Comm_dup(MPI_COMM_WORLD, &duplicate);
  among_messages(duplicate, "a duplicate without blocking calls");
  freed_meanwhile();
  at_the_bottom();
  started_in_any_order(duplicate);
  persistent(duplicate);
  many_at_once();
  return check_finish();
}
