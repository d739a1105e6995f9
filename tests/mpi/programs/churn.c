/* SPDX-License-Identifier: BSD-3-Clause
 *
 * churn CALLS: CALLS small allreduces over 64 communicators, which are made, used and freed again and again. Memory,
 * open files and mappings of the process must not grow.
 */
#include <dirent.h>
#include <unistd.h>

#include "check.h"

enum { COMMUNICATORS = 64 };

struct holdings {
  long resident_kib, files, mappings;
};

static long entries(const char *folder_name) {
  long count = 0;
  DIR *folder = opendir(folder_name);
  while (folder && readdir(folder)) ++count;
  if (folder) closedir(folder);
  return count;
}

static struct holdings holdings(void) {
  struct holdings now = {0, entries("/proc/self/fd"), 0};
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1) pages = -1;
  if (file) fclose(file);
  now.resident_kib = pages * (sysconf(_SC_PAGESIZE) / 1024);
  file = fopen("/proc/self/maps", "r");
  for (int c; file && (c = fgetc(file)) != EOF;) now.mappings += c == '\n';
  if (file) fclose(file);
  return now;
}

static void generation(long calls) {
  MPI_Comm communicators[COMMUNICATORS];
  for (int k = 0; k < COMMUNICATORS; ++k) {
    if (k % 2) MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &communicators[k]);
    else MPI_Comm_dup(MPI_COMM_WORLD, &communicators[k]);
  }
  long wrong = 0;
  for (long call = 0; call < calls; ++call) {
    long input[8], output[8];
    for (int i = 0; i < 8; ++i) input[i] = call + i * world_rank;
    allreduce(input, output, 8, MPI_LONG, MPI_SUM, communicators[call % COMMUNICATORS]);
    for (int i = 0; i < 8; ++i) wrong += output[i] != world_size * call + i * (world_size * (world_size - 1L) / 2);
  }
  CHECK(wrong == 0, "%ld wrong elements", wrong);
  for (int k = 0; k < COMMUNICATORS; ++k) MPI_Comm_free(&communicators[k]);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  enum { GENERATIONS = 20, WARM = 5 };
  const long calls = atol(argv[1]) / GENERATIONS;
  struct holdings before = {0, 0, 0};
  for (int k = 0; k < GENERATIONS; ++k) {
    if (k == WARM) before = holdings();
    generation(calls);
  }
  const struct holdings after = holdings();
  if (world_rank == 0)
    printf("grown: %ld KiB, %ld files, %ld mappings\n", after.resident_kib - before.resident_kib,
           after.files - before.files, after.mappings - before.mappings);
  /* A board that is forgotten is a mapping and 16 KiB at least, 960 times; an MPI keeps a little of its own. */
  CHECK(after.resident_kib - before.resident_kib < 4096, "%ld KiB more", after.resident_kib - before.resident_kib);
  /* A rank that waits for long opens a file for each rank that it waits for. MPI_COMM_WORLD keeps those files. */
  CHECK(after.files < before.files + world_size, "%ld files more", after.files - before.files);
  CHECK(after.mappings <= before.mappings + 16, "%ld mappings more", after.mappings - before.mappings);
  return check_finish();
}
