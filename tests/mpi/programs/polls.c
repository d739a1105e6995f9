/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Trains nothing, but calls MPI as Horovod 0.28.1 does (mpi_controller.cc, response_cache.cc): every
 * millisecond an allreduce with MPI_BAND of a vector in which each rank sets a bit per tensor that is ready,
 * after three status bits. In the first step no tensor is known yet, so gathers and bcasts follow the polls.
 * Ready tensors are reduced together in one allreduce of floats.
 *
 *     polls STEPS TENSORS [RANK:CYCLES:FIRST:LAST ...]
 *
 * A cycle has one poll and takes 1 ms, or longer on a busy machine. The tensors of a rank are ready one after
 * the other, some cycles after a step begins, and CYCLES later in the steps FIRST to LAST of a slow rank. Steps
 * count from 1.
 */
#include <time.h>

#include "check.h"

enum { STATUS_BITS = 3, UNCACHED_BIT = 1, MOST_TENSORS = 509, MOST_RANKS = 64, CYCLE_NS = 1000000 };
enum { REDUCED = -1, IDLE_CYCLES = 3, BUSY_CYCLES = 4 };

static int tensors;
static long long vector[(MOST_TENSORS + STATUS_BITS + 63) / 64];
static int ready_in[MOST_TENSORS]; /* the cycle of the step, or REDUCED */
static float gradients[MOST_TENSORS * 500];

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void sleep_until(long long when) {
  const struct timespec time = {when / 1000000000, when % 1000000000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0) {
  }
}

static int elements_of(int tensor) { return 100 + 37 * tensor % 400; }

static void begin_step(int step, int count, char **slow) {
  int late = 0;
  for (int i = 0; i < count; ++i) {
    int rank, cycles, first, last;
    CHECK(sscanf(slow[i], "%d:%d:%d:%d", &rank, &cycles, &first, &last) == 4, "%s", slow[i]);
    if (rank == world_rank && step >= first && step <= last) late += cycles;
  }
  for (int t = 0; t < tensors; ++t) ready_in[t] = IDLE_CYCLES + late + t * BUSY_CYCLES / tensors;
}

static long long *word_of(int bit) { return &vector[bit / 64]; }
static long long mask_of(int bit) { return (long long)(1ULL << bit % 64); }

/* Tells rank 0 the names of tensors that are ready for the first time. Returns its answer: whether all ranks
 * have told them. */
static int ask(int is_ready) {
  static const char name[] = "a tensor";
  static char names[MOST_RANKS * sizeof name];
  int lengths[MOST_RANKS] = {0}, places[MOST_RANKS] = {0}, all = is_ready;
  const int mine = is_ready ? (int)sizeof name : 0;
  if (world_rank == 0) {
    MPI_Gather(MPI_IN_PLACE, 1, MPI_INT, lengths, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 1; i < world_size; ++i) {
      places[i] = places[i - 1] + lengths[i - 1];
      all = all && lengths[i] > 0;
    }
    MPI_Gatherv(NULL, 0, MPI_BYTE, names, lengths, places, MPI_BYTE, 0, MPI_COMM_WORLD);
  } else {
    MPI_Gather(&mine, 1, MPI_INT, NULL, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Gatherv(name, mine, MPI_BYTE, NULL, NULL, NULL, MPI_BYTE, 0, MPI_COMM_WORLD);
  }
  int length = all ? (int)sizeof name : 1;
  MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Bcast(names, length, MPI_BYTE, 0, MPI_COMM_WORLD);
  return length > 1;
}

/* One cycle of Horovod's thread. Returns how many tensors it reduced. */
static int run_cycle(int cycle, int are_known) {
  int mine = 0;
  memset(vector, 0, sizeof vector);
  *word_of(0) = (1 << STATUS_BITS) - 1;
  for (int t = 0; t < tensors; ++t) {
    if (ready_in[t] == REDUCED || ready_in[t] > cycle) continue;
    ++mine;
    if (are_known) *word_of(STATUS_BITS + t) |= mask_of(STATUS_BITS + t);
  }
  if (!are_known && mine == tensors) *word_of(UNCACHED_BIT) &= ~mask_of(UNCACHED_BIT);
  allreduce(MPI_IN_PLACE, vector, (tensors + STATUS_BITS + 63) / 64, MPI_LONG_LONG_INT, MPI_BAND, MPI_COMM_WORLD);
  const int is_asked = (*word_of(UNCACHED_BIT) & mask_of(UNCACHED_BIT)) == 0;
  const int all_are_ready = is_asked && ask(mine == tensors);
  int elements = 0, reduced = 0;
  for (int t = 0; t < tensors; ++t) {
    if (!all_are_ready && (*word_of(STATUS_BITS + t) & mask_of(STATUS_BITS + t)) == 0) continue;
    elements += elements_of(t);
    ready_in[t] = REDUCED;
    ++reduced;
  }
  if (reduced == 0) return 0;
  for (int i = 0; i < elements; ++i) gradients[i] = 1;
  allreduce(MPI_IN_PLACE, gradients, elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(gradients[elements - 1] == (float)world_size, "a sum of %d elements", elements);
  return reduced;
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int steps = atoi(argv[1]);
  tensors = atoi(argv[2]);
  CHECK(world_size <= MOST_RANKS && tensors <= MOST_TENSORS, "too many ranks or tensors");
  long long next = now();
  for (int step = 1; step <= steps; ++step) {
    begin_step(step, argc - 3, argv + 3);
    for (int cycle = 0, left = tensors; left > 0; ++cycle) {
      next = now() > next + CYCLE_NS ? now() : next + CYCLE_NS;
      sleep_until(next);
      left -= run_cycle(cycle, step > 1);
    }
  }
  return check_finish();
}
