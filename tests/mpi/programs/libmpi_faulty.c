/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A library that lets things fail for offbeat, and for nobody else:
 *
 *   faulty_arm(MESSAGES, n, lasting)   posting the n-th message fails; with `lasting` also every later one
 *   faulty_arm(MEMORY, n, lasting)     the same for its n-th piece of memory: from malloc, a mapping, a file in memory
 *   faulty_arm(BROADCASTS, n, lasting) the n-th MPI_Bcast of the MPI fails after it has delivered its data
 *   faulty_arm(NOTHING, 0, 0)          no more
 *
 * It has to be preloaded behind offbeat. Its name begins with libmpi, and it is linked to the MPI: so offbeat takes it
 * for the MPI, and finds here what is here, and the rest in the MPI behind.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "faulty.h"

static enum faulty_kind armed = NOTHING;
static long left;
static int lasts;
static __thread int deep;

long faulty_arm(enum faulty_kind kind, long n, int lasting) {
  const long before = left;
  left = n;
  lasts = lasting;
  armed = kind;
  return before;
}

static int fails(enum faulty_kind kind) {
  if (armed != kind) return 0;
  --left;
  return lasts ? left <= 0 : left == 0;
}

/* The next function of this name, behind us. */
static void *behind(const char *name) {
  ++deep;
  void *found = dlsym(RTLD_NEXT, name);
  --deep;
  return found;
}

int PMPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm communicator,
               MPI_Request *request) {
  if (fails(MESSAGES)) return MPI_ERR_OTHER;
  static int (*next)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
  if (!next) next = behind("PMPI_Isend");
  return next(data, count, type, to, tag, communicator, request);
}

int PMPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm communicator,
               MPI_Request *request) {
  if (fails(MESSAGES)) return MPI_ERR_OTHER;
  static int (*next)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
  if (!next) next = behind("PMPI_Irecv");
  return next(data, count, type, from, tag, communicator, request);
}

int PMPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm communicator) {
  static int (*next)(void *, int, MPI_Datatype, int, MPI_Comm);
  if (!next) next = behind("PMPI_Bcast");
  const int code = next(data, count, type, root, communicator);
  if (!fails(BROADCASTS)) return code;
  MPI_Comm_call_errhandler(communicator, MPI_ERR_OTHER);
  return MPI_ERR_OTHER;
}

/* Memory: only what offbeat asks for itself. */

static int is_offbeat(const void *caller) {
  Dl_info info;
  if (deep || armed != MEMORY) return 0;
  ++deep;
  const int found = dladdr(caller, &info) != 0 && info.dli_fname && strstr(info.dli_fname, "liboffbeat") != NULL;
  --deep;
  return found;
}

static int refused(const void *caller) { return is_offbeat(caller) && fails(MEMORY) ? (errno = ENOMEM, 1) : 0; }

extern void *__libc_malloc(size_t);
extern void *__libc_memalign(size_t, size_t);

void *malloc(size_t bytes) { return refused(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes); }

void *aligned_alloc(size_t alignment, size_t bytes) {
  return refused(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, bytes);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
  if (refused(__builtin_return_address(0))) return MAP_FAILED;
  static void *(*next)(void *, size_t, int, int, int, off_t);
  if (!next) next = behind("mmap");
  return next(at, bytes, protection, flags, file, offset);
}

int memfd_create(const char *name, unsigned flags) {
  if (refused(__builtin_return_address(0))) return -1;
  static int (*next)(const char *, unsigned);
  if (!next) next = behind("memfd_create");
  return next(name, flags);
}
