/* SPDX-License-Identifier: BSD-3-Clause
 *
 * System calls that a test program takes away from itself. Not before MPI_Init: the MPI may need them.
 */
#ifndef REFUSE_H
#define REFUSE_H

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

#define SYSTEM_CALL offsetof(struct seccomp_data, nr)
#define FLAGS_OF_OPENAT offsetof(struct seccomp_data, args[2])

static inline void install(struct sock_filter *filter, unsigned short length) {
  const struct sock_fprog program = {.len = length, .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0) return;
  printf("seccomp is not to be had here\n");
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 77);
}

/* System call `number` fails with `code`; where `mask` is not 0, only if the flags of openat under it are `flags`. */
static inline void refuse(int number, int code, unsigned mask, unsigned flags) {
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

/* Files cannot be opened for reading and writing through /proc: told by the flags, which nobody else here uses. */
static inline void refuse_proc(void) {
  const int flags = O_RDWR | O_CLOEXEC;
  refuse(SYS_openat, EACCES, ~0u, (unsigned)flags);
  CHECK(open("/proc/self/comm", flags) == -1 && errno == EACCES, "/proc was not refused");
}

/* Nor can the descriptors of another process be had without a path. */
static inline void refuse_pidfd(void) {
  const long pidfd_getfd = 438; /* too new for some headers, the same on every architecture but Alpha */
  refuse((int)pidfd_getfd, EPERM, 0, 0);
  CHECK(syscall(pidfd_getfd, -1, 0, 0) == -1 && errno == EPERM, "pidfd_getfd was not refused");
}

/* No file can be longer. */
static inline void limit_files(unsigned mib) {
  struct rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = (rlim_t)mib << 20;
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0, "the limit cannot be set");
}

#endif
