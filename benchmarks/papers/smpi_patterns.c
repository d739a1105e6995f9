// SPDX-License-Identifier: BSD-3-Clause
// A collective of SimGrid's SMPI under arrival patterns; paper_4.py compiles and runs it.
//
//     smpi_patterns COLLECTIVE FILE
//
// A line of FILE is one call: its bytes (of a vector, or of one block of an alltoall), and how many
// microseconds late each rank is. For each call this prints the last delay in microseconds. SMPI runs all
// ranks in one thread, and without privatization they share the static variables.
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { slot_seconds = 1000, most_calls = 1000 };  // a call has ended long before the next one begins

static int calls;
static int bytes_of[most_calls];
static double* lateness_of[most_calls];  // by rank, in microseconds
static double last_exit;

static void give_up(const char* what) {
  fprintf(stderr, "smpi_patterns: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 2);
}

static void read_calls(const char* path, int ranks) {
  FILE* file = fopen(path, "r");
  if (file == NULL) give_up("cannot read the file of calls");
  for (; calls < most_calls && fscanf(file, "%d", &bytes_of[calls]) == 1; ++calls) {
    lateness_of[calls] = malloc((size_t)ranks * sizeof(double));
    for (int rank = 0; rank < ranks; ++rank)
      if (fscanf(file, "%lf", &lateness_of[calls][rank]) != 1) give_up("a line of the file is too short");
  }
  fclose(file);
}

static void wait_until(double time) {
  const long long nanoseconds = llround((time - MPI_Wtime()) * 1e9);
  const struct timespec length = {(time_t)(nanoseconds / 1000000000), (long)(nanoseconds % 1000000000)};
  nanosleep(&length, NULL);
}

static void call(const char* collective, const void* input, void* output, int bytes) {
  const int count = bytes / (int)sizeof(float);
  if (strcmp(collective, "reduce") == 0)
    MPI_Reduce(input, output, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
  else if (strcmp(collective, "allreduce") == 0)
    MPI_Allreduce(input, output, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  else if (strcmp(collective, "alltoall") == 0)
    MPI_Alltoall(input, bytes, MPI_BYTE, output, bytes, MPI_BYTE, MPI_COMM_WORLD);
  else
    give_up("the collective is none of reduce, allreduce and alltoall");
}

// The time from the last arrival to the last exit. Returns it at rank 0, in microseconds.
static double last_delay(const char* collective, int number, double begin) {
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const size_t blocks = strcmp(collective, "alltoall") == 0 ? (size_t)size : 1;
  double latest = 0;
  for (int each = 0; each < size; ++each) latest = fmax(latest, lateness_of[number][each]);
  // Contents do not count, so all ranks share this memory.
  void* input = SMPI_SHARED_MALLOC(blocks * (size_t)bytes_of[number]);
  void* output = SMPI_SHARED_MALLOC(blocks * (size_t)bytes_of[number]);
  wait_until(begin);
  last_exit = begin;
  if (lateness_of[number][rank] > 0) wait_until(begin + 1e-6 * lateness_of[number][rank]);
  call(collective, input, output, bytes_of[number]);
  last_exit = fmax(last_exit, MPI_Wtime());
  wait_until(begin + slot_seconds / 2);
  SMPI_SHARED_FREE(input);
  SMPI_SHARED_FREE(output);
  return 1e6 * (last_exit - begin) - latest;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 3) give_up("expected a collective and a file");
  if (rank == 0) read_calls(argv[2], size);
  wait_until(slot_seconds);
  last_delay(argv[1], 0, 2 * slot_seconds);  // the first call of an algorithm may make communicators
  for (int number = 0; number < calls; ++number) {
    const double microseconds = last_delay(argv[1], number, (3.0 + number) * slot_seconds);
    if (rank == 0) printf("%.12g\n", microseconds);
  }
  MPI_Finalize();
  return 0;
}
