/* SPDX-License-Identifier: BSD-3-Clause
 *
 * foreign looked-up|LIBRARY: begins requests by the functions that the program is linked to, and completes
 * them by other functions. With `looked-up`, the program finds these by dlsym in the MPI library, as bindings
 * of languages do. With a LIBRARY, that library finds them; it is loaded with RTLD_DEEPBIND, so they are the
 * MPI's own, past any preload.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>

#include "check.h"
#include "foreign.h"
#include "persistent.h"

enum { ROUNDS = 30, COUNT = 3000, AT_ONCE = 5 };

static struct completion foreign;

static int is_mpi(struct dl_phdr_info *object, size_t size, void *path) {
  const char *name = strrchr(object->dlpi_name, '/');
  (void)size;
  if (name != NULL && (!strncmp(name, "/libmpi.so", 10) || !strncmp(name, "/libmpich.so", 12) ||
                       !strncmp(name, "/libmpi_abi.so", 14)))
    strcpy(path, object->dlpi_name);
  return 0;
}

static void *find(void *library, const char *name) {
  void *function = dlsym(library, name);
  if (function == NULL) fprintf(stderr, "FAIL: %s is not there\n", name);
  return function;
}

static void find_all(const char *how) {
  char path[4096] = "";
  if (strcmp(how, "looked-up") != 0) {
    void *library = dlopen(how, RTLD_NOW | RTLD_DEEPBIND);
    if (library == NULL) fprintf(stderr, "FAIL: %s\n", dlerror());
    foreign = ((struct completion(*)(void))find(library, "foreign_completion"))();
    return;
  }
  dl_iterate_phdr(is_mpi, path);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fprintf(stderr, "FAIL: %s\n", dlerror());
  foreign.wait = find(library, "MPI_Wait");
  foreign.waitall = find(library, "MPI_Waitall");
  foreign.waitany = find(library, "MPI_Waitany");
  foreign.test = find(library, "MPI_Test");
  foreign.testall = find(library, "MPI_Testall");
}

static int input[COUNT], output[AT_ONCE][COUNT];

static void begin(MPI_Request *request, int k, int round) {
  for (int i = 0; i < COUNT; ++i) input[i] = i;
  memset(output[k], 0, sizeof output[k]);
  if (k % 2 == 1) {
    output[k][COUNT - 1] = world_size * (COUNT - 1);
    MPI_Ibarrier(MPI_COMM_WORLD, request);
  } else {
    ++check_calls;
    MPI_Iallreduce(input, output[k], round % 2 ? COUNT : 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD, request);
  }
}
static void expect(int k, int round, const char *what) {
  const int last = k % 2 == 1 || round % 2 ? COUNT - 1 : 1;
  CHECK(output[k][last] == world_size * last, "round %d, %s: %d", round, what, output[k][last]);
}

static void nonblocking(int round) {
  MPI_Request requests[AT_ONCE];
  int flag = 0, index = -1;
  for (int k = 0; k < AT_ONCE; ++k) begin(&requests[k], k, round);
  switch (round % 5) {
    case 0:
      for (int k = 0; k < AT_ONCE; ++k) foreign.wait(&requests[k], MPI_STATUS_IGNORE);
      break;
    case 1:
      foreign.waitall(AT_ONCE, requests, MPI_STATUSES_IGNORE);
      break;
    case 2:
      for (int k = 0; k < AT_ONCE; ++k)
        for (flag = 0; !flag;) foreign.test(&requests[k], &flag, MPI_STATUS_IGNORE);
      break;
    case 3:
      for (int k = 0; k < AT_ONCE; ++k) foreign.waitany(AT_ONCE, requests, &index, MPI_STATUS_IGNORE);
      break;
    default:
      while (!flag) foreign.testall(AT_ONCE, requests, &flag, MPI_STATUSES_IGNORE);
  }
  for (int k = 0; k < AT_ONCE; ++k) {
    CHECK(requests[k] == MPI_REQUEST_NULL, "round %d: request %d is left", round, k);
    expect(k, round, "non-blocking");
  }
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int has_all = strcmp(argv[1], "looked-up") == 0;
  find_all(argv[1]);
  int sum = 0;
  allreduce(&world_size, &sum, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  for (int round = 0; round < ROUNDS; ++round) {
    within(60, "round %d", round);
    nonblocking(round);
    MPI_Request own; /* and by the program's own functions in between */
    begin(&own, 0, round);
    MPI_Wait(&own, MPI_STATUS_IGNORE);
    expect(0, round, "own");
  }
  MPI_Request request;
  if (has_persistent && has_all) {
    for (int i = 0; i < COUNT; ++i) input[i] = i;
    MPI_Allreduce_init(input, output[0], COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int round = 0; round < ROUNDS; ++round) {
      within(60, "persistent, round %d", round);
      memset(output[0], 0, sizeof output[0]);
      if (world_rank == round % world_size) usleep(1000);
      ++check_calls;
      MPI_Start(&request);
      foreign.wait(&request, MPI_STATUS_IGNORE);
      expect(0, 1, "persistent");
      MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Request_free(&request);
  }
  within(60, "the end");
  return check_finish();
}
