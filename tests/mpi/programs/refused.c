/* SPDX-License-Identifier: BSD-3-Clause
 *
 * refused RANK WHAT...: from MPI_Init on the system refuses things to this rank, or to all with -1.
 *
 *   memfd    memfd_create is not permitted
 *   proc     no file can be opened for reading and writing through /proc
 *   pidfd    no descriptor of another process can be had by pidfd_getfd
 *   socket   no socket can be given a name
 *   shm      no unnamed file can be made
 *   space    no space can be reserved in a file
 *   memory   16 MiB more, and the address space ends
 *   files    nothing can be written to a file
 */
#define _GNU_SOURCE /* O_TMPFILE */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "refuse.h"

static void limit_memory(long more_mib) {
  struct rlimit limit;
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = limit.rlim_max;
  if (more_mib > 0) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%ld", &pages) == 1, "no /proc/self/statm");
    if (file) fclose(file);
    limit.rlim_cur = (rlim_t)(pages * sysconf(_SC_PAGESIZE) + (more_mib << 20));
  }
  setrlimit(RLIMIT_AS, &limit);
}

static void sum(MPI_Comm communicator, int count) {
  int *input = allocate(sizeof(int) * (size_t)count), *output = allocate(sizeof(int) * (size_t)count), wrong = 0;
  for (int i = 0; i < count; ++i) input[i] = i * (world_rank + 1);
  allreduce(input, output, count, MPI_INT, MPI_SUM, communicator);
  for (int i = 0; i < count; ++i) wrong += output[i] != i * (world_size * (world_size + 1) / 2);
  CHECK(wrong == 0, "%d of %d elements wrong", wrong, count);
  free(input);
  free(output);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  int limited = 0;
  for (int k = 2; k < argc && (atoi(argv[1]) == -1 || atoi(argv[1]) == world_rank); ++k) {
    if (strcmp(argv[k], "memfd") == 0) {
      refuse(SYS_memfd_create, EPERM, 0, 0);
      CHECK(syscall(SYS_memfd_create, "x", 0) == -1 && errno == EPERM, "memfd_create was not refused");
    } else if (strcmp(argv[k], "proc") == 0) {
      refuse_proc();
    } else if (strcmp(argv[k], "pidfd") == 0) {
      refuse_pidfd();
    } else if (strcmp(argv[k], "shm") == 0) {
      refuse(SYS_openat, EACCES, O_TMPFILE, O_TMPFILE);
      CHECK(open("/tmp", O_TMPFILE | O_RDWR, 0600) == -1 && errno == EACCES, "unnamed files were not refused");
    } else if (strcmp(argv[k], "socket") == 0) {
      refuse(SYS_bind, EACCES, 0, 0);
    } else if (strcmp(argv[k], "space") == 0) {
      refuse(SYS_fallocate, ENOSPC, 0, 0);
    } else if (strcmp(argv[k], "memory") == 0) {
      limited = 1;
    } else if (strcmp(argv[k], "files") == 0) {
      limit_files(0);
    } else {
      CHECK(0, "%s: not known", argv[k]);
    }
  }
  if (limited) limit_memory(16);
  sum(MPI_COMM_WORLD, 1);
  if (limited) limit_memory(0);
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  sum(MPI_COMM_WORLD, 1000);
  sum(copy, 1);
  sum(copy, 100000);
  MPI_Barrier(copy); /* MPICH makes files in the fifth of such calls: it must not count offbeat's */
  MPI_Comm_free(&copy);
  return check_finish();
}
