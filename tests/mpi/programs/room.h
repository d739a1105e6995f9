/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How much further address space a test program may have.
 */
#ifndef ROOM_H
#define ROOM_H

#include <sys/resource.h>

#include "check.h"

static inline long address_space_kib(void) {
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld", &pages) != 1) pages = -1;
  if (file) fclose(file);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static inline void limit_address_space(rlim_t bytes) {
  struct rlimit limit;
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = bytes;
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "the limit cannot be set");
}

static inline void leave_room(long bytes) { limit_address_space((rlim_t)address_space_kib() * 1024 + (rlim_t)bytes); }
static inline void leave_all_room(void) { limit_address_space(RLIM_INFINITY); }

#endif
