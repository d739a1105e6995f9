/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Finds the boards of this process, as the kernel sees them.
 */
#ifndef MAPPED_H
#define MAPPED_H

#include <stdio.h>
#include <string.h>

struct mapped {
  int boards;
  long virtual_kib;
  long resident_kib;
};

static struct mapped mapped_boards(void) {
  struct mapped all = {0, 0, 0};
  char line[512];
  int is_board = 0;
  long kib = 0;
  FILE *maps = fopen("/proc/self/smaps", "r");
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    unsigned long first, last;
    if (sscanf(line, "%lx-%lx ", &first, &last) == 2) {
      is_board = strstr(line, "memfd:offbeat") != NULL;
      if (is_board) {
        ++all.boards;
        all.virtual_kib += (long)((last - first) / 1024);
      }
    } else if (is_board && sscanf(line, "Rss: %ld kB", &kib) == 1) {
      all.resident_kib += kib;
    }
  }
  if (maps != NULL) fclose(maps);
  return all;
}

#endif
