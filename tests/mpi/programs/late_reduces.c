/* SPDX-License-Identifier: BSD-3-Clause
 *
 * late_reduces RANK MILLISECONDS: reduces, before the second of which this rank sleeps. The other ranks but the
 * root go ahead.
 */
#include <unistd.h>

#include "check.h"

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int late = atoi(argv[1]);
  for (int call = 0; call < 100; ++call) {
    if (call == 1 && world_rank == late) usleep((useconds_t)atoi(argv[2]) * 1000);
    int mine = world_rank + call, sum = -1;
    ++check_calls;
    MPI_Reduce(&mine, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    const int expected = world_size * call + world_size * (world_size - 1) / 2;
    CHECK(world_rank != 0 || sum == expected, "reduce %d: %d, not %d", call, sum, expected);
  }
  return check_finish();
}
