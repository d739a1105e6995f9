/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Children of MPI_Comm_spawn_multiple, the second of which gets a variable from the program, print what they were
 * started with:
 *
 *     child 1: LD_PRELOAD=...
 *     child 1: OFFBEAT_ALLREDUCE=...
 *     child 1: OFFBEAT_STALL_S=7
 */
#include "check.h"

static void print_variable(const char *name) {
  const char *value = getenv(name);
  printf("child %d: %s=%s\n", world_rank, name, value != NULL ? value : "");
}

int main(int argc, char **argv) {
  MPI_Comm jobs;
  check_start(&argc, &argv);
  MPI_Comm_get_parent(&jobs);
  if (jobs == MPI_COMM_NULL) {
    char *commands[] = {argv[0], argv[0]};
    const int most[] = {1, 1};
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    if (world_rank == 0) {
      MPI_Info_create(&infos[1]);
      MPI_Info_set(infos[1], "PMIX_ENVAR", "OFFBEAT_STALL_S=7"); /* Open MPI 5's; the others know no such key */
    }
    /* What describes the children is read on the root only. */
    const int is_root = world_rank == 0;
    MPI_Comm_spawn_multiple(2, is_root ? commands : NULL, MPI_ARGVS_NULL, is_root ? most : NULL,
                            is_root ? infos : NULL, 0, MPI_COMM_WORLD, &jobs, MPI_ERRCODES_IGNORE);
    if (is_root) {
      char value[64] = "";
      int is_there = 0;
      MPI_Info_get(infos[1], "PMIX_ENVAR", sizeof value - 1, value, &is_there);
      CHECK(is_there && strcmp(value, "OFFBEAT_STALL_S=7") == 0, "the program's info has become %s", value);
      MPI_Info_free(&infos[1]);
    }
  } else {
    print_variable("LD_PRELOAD");
    print_variable("OFFBEAT_ALLREDUCE");
    print_variable("OFFBEAT_STALL_S");
  }
  MPI_Barrier(jobs); /* MPICH's MPI_Comm_spawn fails if children end before all parents have connected */
  MPI_Comm_disconnect(&jobs);
  if (check_failures != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  fflush(NULL);
  MPI_Finalize();
  return 0;
}
