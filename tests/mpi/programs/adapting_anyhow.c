/* SPDX-License-Identifier: BSD-3-Clause
 *
 * adapting_anyhow --rounds N [--seed S]: communicators that live for a random time, while their trials run. All
 * ranks draw from one sequence which communicator is duplicated, split or freed, and which calls it makes; how
 * late a rank is, it draws by itself. Some communicators make ten calls of a length, some have another length in
 * each call, and some are freed while a non-blocking call is under way. Each result is checked.
 *
 * The ranks compare, call by call, what offbeat ran.
 */
#include <dlfcn.h>
#include <stdint.h>

#include "check.h"

enum { MOST_LIVE = 12, MOST_INTS = 6000, MOST_SIZE = 16, CALLS_OF_FEW = 10 };

static int most_calls, seen_calls;
static const char* (*last_algorithm)(void);
static uint64_t shared, own; /* the states of two sequences: of all ranks, and of this one */

static unsigned draw(uint64_t* state, unsigned below) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(*state >> 33) % below;
}

struct life {
  MPI_Comm communicator;
  int rank, size;
  int style; /* 0: ten calls of one length; 1: another length in each call; 2: two lengths in turns */
  uint64_t ran;
};

static struct life lives[MOST_LIVE];
static int live;
static int input[MOST_INTS], output[MOST_INTS * MOST_SIZE];

static void delay(void) {
  const unsigned what = draw(&own, 30);
  if (what == 0) usleep(draw(&own, 2000));
  if (what > 5) return;
  const double end = MPI_Wtime() + draw(&own, 80) * 1e-6;
  while (MPI_Wtime() < end) continue;
}

static void note(struct life* life) {
  const char* ran = last_algorithm != NULL ? last_algorithm() : NULL;
  for (const char* letter = ran != NULL ? ran : "native"; *letter; ++letter)
    life->ran = (life->ran ^ (unsigned char)*letter) * 1099511628211u;
  ++seen_calls;
}

static void call_once(struct life* life, int n, int id) {
  const int kind = (int)draw(&shared, 4), root = (int)draw(&shared, (unsigned)life->size);
  const int blocks = draw(&shared, 3) != 0;
  const MPI_Comm on = life->communicator;
  MPI_Request request = MPI_REQUEST_NULL;
  long wrong = 0;
  for (int i = 0; i < n; ++i) input[i] = id + i * (life->rank + 1);
  delay();
  if (kind == 0) {
    for (int i = 0; i < n; ++i) output[i] = life->rank == root ? id - i : -1;
    blocks ? MPI_Bcast(output, n, MPI_INT, root, on) : MPI_Ibcast(output, n, MPI_INT, root, on, &request);
  } else if (kind == 1) {
    blocks ? MPI_Allgather(input, n, MPI_INT, output, n, MPI_INT, on)
           : MPI_Iallgather(input, n, MPI_INT, output, n, MPI_INT, on, &request);
  } else if (kind == 2) {
    blocks ? MPI_Allreduce(input, output, n, MPI_INT, MPI_SUM, on)
           : MPI_Iallreduce(input, output, n, MPI_INT, MPI_SUM, on, &request);
  } else {
    blocks ? MPI_Barrier(on) : MPI_Ibarrier(on, &request);
  }
  note(life);
  delay();
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; i < n && kind != 3; ++i) {
    if (kind == 0) wrong += output[i] != id - i;
    if (kind == 2) wrong += output[i] != life->size * id + i * life->size * (life->size + 1) / 2;
    for (int from = 0; from < life->size && kind == 1; ++from)
      wrong += output[from * n + i] != id + i * (from + 1);
  }
  CHECK(wrong == 0, "call %d, kind %d of %d ints: %ld wrong", id, kind, n, wrong);
}

static void use(struct life* life, int id) {
  const int calls = life->style == 0 ? CALLS_OF_FEW : 1 + (int)draw(&shared, (unsigned)most_calls);
  const int usual = 1 + (int)draw(&shared, MOST_INTS);
  for (int k = 0; k < calls; ++k) {
    int n = usual;
    if (life->style == 1) n = 1 + (int)draw(&shared, MOST_INTS);
    if (life->style == 2 && k % 2 == 1) n = 2;
    call_once(life, n, id + k);
  }
}

static void release(int at) {
  struct life* life = &lives[at];
  uint64_t least = 0, most = 0;
  MPI_Reduce(&life->ran, &least, 1, MPI_UINT64_T, MPI_MIN, 0, life->communicator);
  MPI_Reduce(&life->ran, &most, 1, MPI_UINT64_T, MPI_MAX, 0, life->communicator);
  CHECK(life->rank != 0 || least == most, "ranks of a communicator of %d ran different algorithms", life->size);
  MPI_Request request = MPI_REQUEST_NULL;
  if (draw(&shared, 2) == 0) MPI_Ibcast(output, MOST_INTS, MPI_INT, 0, life->communicator, &request);
  delay();
  MPI_Comm_free(&life->communicator);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  lives[at] = lives[--live];
}

static void open_life(MPI_Comm communicator) {
  struct life* life = &lives[live++];
  life->communicator = communicator;
  MPI_Comm_rank(communicator, &life->rank);
  MPI_Comm_size(communicator, &life->size);
  life->style = (int)draw(&shared, 3);
  life->ran = 0;
}

static void make(int id) {
  MPI_Comm made;
  if (draw(&shared, 3) == 0) {
    MPI_Comm_split(MPI_COMM_WORLD, (world_rank + id) % 2, id % 3 == 0 ? -world_rank : world_rank, &made);
  } else {
    MPI_Comm_dup(MPI_COMM_WORLD, &made);
  }
  open_life(made);
}

/* Duplicates that make no call, and others that make one. */
static void storm(int id) {
  MPI_Comm all[20];
  for (int k = 0; k < 20; ++k) {
    MPI_Comm_dup(MPI_COMM_WORLD, &all[k]);
    if (draw(&shared, 2) == 0) MPI_Bcast(output, 1 + id % 7, MPI_INT, 0, all[k]);
  }
  const int backwards = (int)draw(&shared, 2);
  for (int k = 0; k < 20; ++k) MPI_Comm_free(&all[backwards ? 19 - k : k]);
}

int main(int argc, char** argv) {
  check_start(&argc, &argv);
  const int rounds = (int)option(argc, argv, "--rounds", 60);
  const unsigned seed = (unsigned)option(argc, argv, "--seed", 1);
  most_calls = (int)option(argc, argv, "--most", 60);
  last_algorithm = (const char* (*)(void))dlsym(RTLD_DEFAULT, "offbeat_last_algorithm");
  CHECK(last_algorithm != NULL, "offbeat is not loaded");
  shared = seed;
  own = seed * 77u + (unsigned)world_rank * 1013u;
  for (int round = 0; round < rounds; ++round) {
    within(100, "round %d", round);
    if (live == 0 || (live < MOST_LIVE && draw(&shared, 3) == 0)) make(round);
    use(&lives[draw(&shared, (unsigned)live)], round * 1000);
    if (draw(&shared, 6) == 0) release((int)draw(&shared, (unsigned)live));
    if (draw(&shared, 20) == 0) storm(round);
  }
  while (live > 0) release(live - 1);
  if (world_rank == 0) printf("calls: %d\n", seen_calls);
  return check_finish();
}
