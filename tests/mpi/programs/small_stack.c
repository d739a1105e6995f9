/* SPDX-License-Identifier: BSD-3-Clause
 *
 * small_stack KIB: a thread with a stack of KIB KiB makes collectives, first and later ones, on a communicator that no
 * collective has used. Rank 0 prints how many bytes of the stack were used at most, on any rank:
 *
 *     used: 9184
 */
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

#include "check.h"

enum { ELEMENTS = 40000, UNUSED = 0x5a };

static const int lengths[] = {1, 200, ELEMENTS};
static MPI_Comm on;
static int *mine, *all;

static void sum(int length, int is_begun) {
  MPI_Request request;
  for (int k = 0; k < length; ++k) mine[k] = world_rank + k;
  if (is_begun) {
    MPI_Iallreduce(mine, all, length, MPI_INT, MPI_SUM, on, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    MPI_Allreduce(mine, all, length, MPI_INT, MPI_SUM, on);
  }
  CHECK(all[length - 1] == world_size * (world_size - 1) / 2 + world_size * (length - 1), "a sum of %d", length);
}

static void *work(void *unused) {
  for (int round = 0; round < 20; ++round) {
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; ++k) {
      const int length = lengths[k], share = length / world_size;
      sum(length, 0);
      sum(length, 1);
      MPI_Bcast(mine, length, MPI_INT, 0, on);
      MPI_Reduce(mine, all, length, MPI_INT, MPI_MAX, 0, on);
      MPI_Gather(mine, share, MPI_INT, all, share, MPI_INT, 0, on);
      MPI_Allgather(mine, share, MPI_INT, all, share, MPI_INT, on);
      MPI_Alltoall(mine, share, MPI_INT, all, share, MPI_INT, on);
      MPI_Reduce_scatter_block(mine, all, share, MPI_INT, MPI_SUM, on);
      MPI_Scan(mine, all, length, MPI_INT, MPI_SUM, on);
      MPI_Barrier(on);
    }
  }
  return unused;
}

int main(int argc, char **argv) {
  const size_t bytes = (size_t)atoi(argv[1]) << 10;
  int provided, used, most;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  MPI_Comm_dup(MPI_COMM_WORLD, &on);
  mine = allocate(sizeof(int) * ELEMENTS);
  all = allocate(sizeof(int) * ELEMENTS);
  /* There is nothing below the stack, so what needs more crashes. */
  const size_t guard = 1 << 20;
  char *const memory = mmap(NULL, guard + bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *const stack = memory + guard;
  mprotect(stack, bytes, PROT_READ | PROT_WRITE);
  memset(stack, UNUSED, bytes);
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  CHECK(pthread_attr_setstack(&attributes, stack, bytes) == 0, "a stack of %zu bytes", bytes);
  CHECK(pthread_create(&thread, &attributes, work, NULL) == 0, "no thread");
  pthread_join(thread, NULL);
  size_t lowest = 0;
  while (lowest < bytes && stack[lowest] == UNUSED) ++lowest;
  used = (int)(bytes - lowest);
  MPI_Reduce(&used, &most, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
  if (world_rank == 0) printf("used: %d\n", most);
  MPI_Comm_free(&on);
  return check_finish();
}
