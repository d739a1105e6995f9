/* SPDX-License-Identifier: BSD-3-Clause
 *
 * refused RANK WHAT...: from MPI_Init on the system refuses things to this rank, or to all with -1.
 *
 *   memfd    memfd_create is not permitted
 *   proc     no file can be opened for reading and writing through /proc (by its flags: nobody else here uses these)
 *   socket   no socket can be given a name
 *   shm      no unnamed file can be made
 *   space    no space can be reserved in a file
 *   memory   16 MiB more, and the address space ends
 *   files    no file longer than 1 MiB can be written
 */
#define _GNU_SOURCE /* O_TMPFILE */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

#define SYSTEM_CALL offsetof(struct seccomp_data, nr)
#define FLAGS_OF_OPENAT offsetof(struct seccomp_data, args[2])

static const int proc_flags = O_RDWR | O_CLOEXEC;

static void install(struct sock_filter *filter, unsigned short length) {
  const struct sock_fprog program = {.len = length, .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0) return;
  printf("seccomp is not to be had here\n");
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 77);
}

/* System call `number` fails with `code`; where `mask` is not 0, only if the flags of openat under it are `flags`. */
static void refuse(int number, int code, unsigned mask, unsigned flags) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, SYSTEM_CALL),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FLAGS_OF_OPENAT),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, flags, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)code),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  install(filter, sizeof filter / sizeof *filter);
}

static void limit_files(void) {
  struct rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = 1 << 20;
  setrlimit(RLIMIT_FSIZE, &limit);
}

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
      refuse(SYS_openat, EACCES, ~0u, (unsigned)proc_flags);
      CHECK(open("/proc/self/comm", proc_flags) == -1 && errno == EACCES, "/proc was not refused");
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
      limit_files();
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
  MPI_Comm_free(&copy);
  return check_finish();
}
