/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a library caches per communicator must go with the communicator.
 *
 *   lifecycle init        MPI_Init, then the checks below
 *   lifecycle thread      MPI_Init_thread
 *   lifecycle unused      MPI_Init and MPI_Finalize, one call in between
 *   lifecycle leftover    a communicator that is never freed
 *   --rounds N            communicators made and freed
 */
#include <dirent.h>
#include <unistd.h>

#include "check.h"

/* Memory of this process in KiB, now. */
static long resident_kib(void) {
  long pages = 0, ignored;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld %ld", &ignored, &pages) != 2) pages = -1;
  if (file) fclose(file);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static int open_files(void) {
  int count = 0;
  DIR *folder = opendir("/proc/self/fd");
  while (folder && readdir(folder)) ++count;
  if (folder) closedir(folder);
  return count;
}

static void sum_ranks(MPI_Comm communicator, const char *when) {
  int rank, size, sum = -1;
  MPI_Comm_rank(communicator, &rank);
  MPI_Comm_size(communicator, &size);
  int mine = rank + 1;
  allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, communicator);
  CHECK(sum == size * (size + 1) / 2, "%s: sum %d over %d ranks", when, sum, size);
}

/* An MPI gives a freed handle to the next communicator, here with other members. */
static void reuse_handles(void) {
  for (int i = 0; i < 6; ++i) {
    MPI_Comm communicator;
    int colour = i % 3 == 0 ? 0 : i % 3 == 1 ? world_rank % 2 : world_rank;
    MPI_Comm_split(MPI_COMM_WORLD, colour, i % 2 ? -world_rank : world_rank, &communicator);
    sum_ranks(communicator, "reused handle");
    sum_ranks(communicator, "reused handle, second call");
    MPI_Comm_free(&communicator);
  }
}

static void make_and_free(long rounds) {
  long before_kib = 0;
  int before_files = 0;
  for (long i = 0; i < rounds; ++i) {
    MPI_Comm communicator;
    MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
    sum_ranks(communicator, "made and freed");
    MPI_Comm_free(&communicator);
    if (i == rounds / 2) {
      before_kib = resident_kib();
      before_files = open_files();
    }
  }
  /* A communicator's state is some KiB at least; what the MPI itself leaves is far below. */
  long grown_kib = resident_kib() - before_kib, allowed_kib = 1024 + 2 * (rounds - rounds / 2);
  CHECK(grown_kib <= allowed_kib, "%ld KiB more after %ld communicators", grown_kib, rounds / 2);
  CHECK(open_files() == before_files, "%d open files, before %d", open_files(), before_files);
}

/* A dup inherits no stale state, and freeing the original leaves the dup in order. */
static void dup_outlives_original(void) {
  MPI_Comm original, copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &original);
  sum_ranks(original, "original");
  MPI_Comm_dup(original, &copy);
  sum_ranks(copy, "copy");
  MPI_Comm_free(&original);
  sum_ranks(copy, "copy, original freed");
  MPI_Comm_free(&copy);
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "init";
  if (strcmp(mode, "thread") == 0) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  } else {
    check_start(&argc, &argv);
  }
  sum_ranks(MPI_COMM_WORLD, "world");
  if (strcmp(mode, "leftover") == 0) {
    MPI_Comm never_freed;
    MPI_Comm_dup(MPI_COMM_WORLD, &never_freed);
    sum_ranks(never_freed, "never freed");
  } else if (strcmp(mode, "unused") != 0) {
    reuse_handles();
    dup_outlives_original();
    make_and_free(option(argc, argv, "--rounds", 200));
  }
  return check_finish();
}
