/* SPDX-License-Identifier: BSD-3-Clause
 *
 *     leases COMMUNICATORS MOST_KIB
 *
 * Makes COMMUNICATORS duplicates of a communicator. On each of them, twice in turn, it makes a long call of
 * each collective, with a block for each rank or with one vector. After each collective the boards of a rank
 * must have at most MOST_KIB of memory.
 */
#include "check.h"
#include "mapped.h"

enum { block = 1 << 20, most_ranks = 8 };

static unsigned char *input, *output;
static int counts[most_ranks], begins[most_ranks];

static void call(int which, MPI_Comm communicator) {
  switch (which) {
    case 0: allreduce(input, output, block, MPI_SIGNED_CHAR, MPI_MAX, communicator); break;
    case 1: MPI_Reduce(input, output, block, MPI_SIGNED_CHAR, MPI_MAX, 0, communicator); break;
    case 2: MPI_Bcast(output, block, MPI_BYTE, 0, communicator); break;
    case 3: MPI_Allgather(input, block, MPI_BYTE, output, block, MPI_BYTE, communicator); break;
    case 4: MPI_Allgatherv(input, block, MPI_BYTE, output, counts, begins, MPI_BYTE, communicator); break;
    case 5: MPI_Alltoall(input, block, MPI_BYTE, output, block, MPI_BYTE, communicator); break;
    case 6: MPI_Alltoallv(input, counts, begins, MPI_BYTE, output, counts, begins, MPI_BYTE, communicator); break;
    case 7: MPI_Gather(input, block, MPI_BYTE, output, block, MPI_BYTE, 0, communicator); break;
    case 8: MPI_Scatter(input, block, MPI_BYTE, output, block, MPI_BYTE, 0, communicator); break;
    case 9: MPI_Reduce_scatter(input, output, counts, MPI_SIGNED_CHAR, MPI_MAX, communicator); break;
    case 10: MPI_Reduce_scatter_block(input, output, block, MPI_SIGNED_CHAR, MPI_MAX, communicator); break;
    case 11: MPI_Scan(input, output, block, MPI_SIGNED_CHAR, MPI_MAX, communicator); break;
    case 12: MPI_Exscan(input, output, block, MPI_SIGNED_CHAR, MPI_MAX, communicator); break;
  }
}

static const char *const names[] = {"allreduce", "reduce",    "bcast",  "allgather", "allgatherv",     "alltoall",
                                    "alltoallv", "gather",    "scatter", "reduce_scatter", "reduce_scatter_block",
                                    "scan",      "exscan"};

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int communicators = atoi(argv[1]);
  const long most_kib = atol(argv[2]);
  input = allocate((size_t)block * (size_t)world_size);
  output = allocate((size_t)block * (size_t)world_size);
  memset(input, 1, (size_t)block * (size_t)world_size);
  memset(output, 1, (size_t)block * (size_t)world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    counts[rank] = block;
    begins[rank] = rank * block;
  }
  MPI_Comm *all = allocate(sizeof(MPI_Comm) * (size_t)communicators);
  for (int k = 0; k < communicators; ++k) MPI_Comm_dup(MPI_COMM_WORLD, &all[k]);
  for (int which = 0; which < (int)(sizeof names / sizeof *names); ++which) {
    for (int turn = 0; turn < 2 * communicators; ++turn) {
      within(60, "%s", names[which]);
      call(which, all[turn / 2]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const struct mapped now = mapped_boards();
    CHECK(now.boards >= communicators, "%s: %d boards", names[which], now.boards);
    CHECK(now.resident_kib <= most_kib, "%s: %ld KiB", names[which], now.resident_kib);
  }
  for (int k = 0; k < communicators; ++k) MPI_Comm_free(&all[k]);
  free(all);
  free(output);
  free(input);
  return check_finish();
}
