/* SPDX-License-Identifier: BSD-3-Clause
 *
 * late RANK MILLISECONDS: three allreduces; the named rank is late to the second.
 */
#include <unistd.h>

#include "check.h"

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int late_rank = atoi(argv[1]);
  const int milliseconds = atoi(argv[2]);
  static float input[1000], sum[1000];
  for (int call = 0; call < 3; ++call) {
    for (int k = 0; k < 1000; ++k) input[k] = (float)(world_rank + k);
    if (call == 1 && world_rank == late_rank) usleep((useconds_t)milliseconds * 1000);
    allreduce(input, sum, 1000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int k = 0; k < 1000; ++k)
      CHECK(sum[k] == (float)(world_size * (world_size - 1) / 2 + world_size * k), "call %d, element %d", call, k);
  }
  return check_finish();
}
