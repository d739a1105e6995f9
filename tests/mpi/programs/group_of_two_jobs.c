/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A group with a rank of each of two jobs: group_of_two_jobs FOLDER RANK. Rank RANK of the job is rank RANK
 * of the group. The ranks meet through files in the folder.
 */
#include <stdlib.h>
#include <unistd.h>

#include "interface.h"

enum { ranks = 2 };

struct meeting {
  const char* folder;
  int rank;
  int exchanges;
};

static FILE* open_file(const struct meeting* me, int rank, const char* suffix, const char* mode) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%d.%d%s", me->folder, me->exchanges, rank, suffix);
  return fopen(path, mode);
}

static int exchange(void* state, const void* mine, size_t bytes, void* all) {
  struct meeting* me = state;
  FILE* file = open_file(me, me->rank, "", "w");
  if (file == NULL || fwrite(mine, 1, bytes, file) != bytes || fclose(file) != 0) return 1;
  file = open_file(me, me->rank, ".complete", "w");
  if (file == NULL || fclose(file) != 0) return 1;
  for (int rank = 0; rank < ranks; ++rank) {
    while ((file = open_file(me, rank, ".complete", "r")) == NULL) usleep(1000);
    fclose(file);
    file = open_file(me, rank, "", "r");
    if (file == NULL || fread((char*)all + (size_t)rank * bytes, 1, bytes, file) != bytes) return 1;
    fclose(file);
  }
  ++me->exchanges;
  return 0;
}

int main(int argc, char** argv) {
  int rank = 0, level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  alarm(60); /* a hang is a failure */
  if (argc == 3 && rank == atoi(argv[2])) {
    __typeof__(&offbeat_group_make) make = function("offbeat_group_make");
    __typeof__(&offbeat_group_free) release = function("offbeat_group_free");
    __typeof__(&offbeat_run) run = function("offbeat_run");
    __typeof__(&offbeat_error_text) text = function("offbeat_error_text");
    struct meeting me = {argv[1], rank, 0};
    offbeat_group* group = NULL;
    float value = (float)(rank + 1);
    offbeat_call call = OFFBEAT_CALL_INIT;
    int is_right = make(rank, ranks, exchange, &me, &group) == OFFBEAT_OK;
    call.group = group;
    call.collective = "allreduce";
    call.output = &value;
    call.count = 1;
    call.type = OFFBEAT_FLOAT32;
    is_right = is_right && run(&call) == OFFBEAT_OK && value == 3;
    if (!is_right) {
      fprintf(stderr, "FAIL: rank %d: %s\n", rank, text());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    release(&group);
    printf("a group of two jobs\n");
  }
  MPI_Finalize();
  return 0;
}
