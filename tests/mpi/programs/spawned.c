/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives of two jobs: the parents spawn children and call with them, on the inter-communicator between
 * the jobs and on the communicator that both are merged into. Before that, the halves of each job call
 * across an inter-communicator within the job. Every rank of both jobs counts its calls and prints
 *
 *     counted child 1: all=3 halves=4 jobs=14 merged=6
 *
 *   spawned CHILDREN [COMMAND ARGUMENTS...]    as the parents; the children are started by a command
 */
#include "check.h"

enum { WORLD_CALLS = 3, ROUNDS = 2 };

static long on_all, on_halves, on_jobs, on_merged;

/* Sum of rank + 1 over the other side. */
static int expected_sum(MPI_Comm inter) {
  int others;
  MPI_Comm_remote_size(inter, &others);
  return others * (others + 1) / 2;
}

static void call_across(MPI_Comm inter, int is_first_side, long *calls) {
  int rank, others;
  MPI_Comm_rank(inter, &rank);
  MPI_Comm_remote_size(inter, &others);
  for (int round = 0; round < ROUNDS; ++round) {
    int mine = rank + 1, sum = -1, told = is_first_side ? 42 + round : -1;
    int *all = allocate(others * sizeof *all);
    int root = !is_first_side ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    MPI_Barrier(inter);
    MPI_Bcast(&told, 1, MPI_INT, root, inter);
    CHECK(told == 42 + round, "broadcast %d", told);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, inter);
    CHECK(sum == expected_sum(inter), "sum %d of the other side", sum);
    MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, inter);
    CHECK(all[others - 1] == others, "gathered %d", all[others - 1]);
    MPI_Reduce(&mine, &sum, 1, MPI_INT, MPI_MAX, root, inter);
    CHECK(root != MPI_ROOT || sum == others, "maximum %d of the other side", sum);
    *calls += 5;
    free(all);
  }
}

static void call_halves(void) {
  if (world_size < 2) return;
  MPI_Comm half, inter;
  int is_upper = world_rank >= world_size / 2;
  MPI_Comm_split(MPI_COMM_WORLD, is_upper, world_rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_upper ? 0 : world_size / 2, 1, &inter);
  call_across(inter, !is_upper, &on_halves);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

static void call_merged(MPI_Comm jobs, int is_child) {
  MPI_Comm merged;
  int rank, size, sum = -1;
  MPI_Intercomm_merge(jobs, is_child, &merged);
  MPI_Comm_rank(merged, &rank);
  MPI_Comm_size(merged, &size);
  for (int round = 0; round < ROUNDS; ++round) {
    int mine = rank + 1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, merged);
    CHECK(sum == size * (size + 1) / 2, "sum %d of both jobs", sum);
    MPI_Bcast(&mine, 1, MPI_INT, size - 1, merged);
    MPI_Barrier(merged);
    on_merged += 3;
  }
  MPI_Comm_free(&merged);
}

int main(int argc, char **argv) {
  MPI_Comm jobs;
  check_start(&argc, &argv);
  MPI_Comm_get_parent(&jobs);
  const int is_child = jobs != MPI_COMM_NULL;
  const char *who = is_child ? "child" : "parent";
  within(20, "%s, on MPI_COMM_WORLD", who);
  for (int i = 0; i < WORLD_CALLS; ++i, ++on_all) {
    int sum = -1, mine = world_rank + 1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == world_size * (world_size + 1) / 2, "sum %d of the own job", sum);
  }
  call_halves();
  if (!is_child) {
    const int children = argc > 1 ? atoi(argv[1]) : 2;
    char **line = allocate(sizeof *line * (size_t)(argc + 1));
    int words = 0;
    for (int k = 2; k < argc; ++k) line[words++] = argv[k];
    line[words++] = argv[0];
    line[words] = NULL;
    MPI_Comm_spawn(line[0], line + 1, children, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &jobs,
                   MPI_ERRCODES_IGNORE);
    free(line);
  }
  within(20, "%s, across the jobs", who);
  call_across(jobs, !is_child, &on_jobs);
  within(20, "%s, on the merged communicator", who);
  call_merged(jobs, is_child);
  within(20, "%s, the end", who);
  printf("counted %s %d: all=%ld halves=%ld jobs=%ld merged=%ld\n", who, world_rank, on_all, on_halves,
         on_jobs, on_merged);
  MPI_Comm_disconnect(&jobs);
  if (check_failures != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  fflush(NULL);
  MPI_Finalize();
  return 0;
}
