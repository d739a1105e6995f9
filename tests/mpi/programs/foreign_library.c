/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A library that calls MPI. Loaded with RTLD_DEEPBIND, it calls the MPI that it is linked to, past any preload.
 */
#include "foreign.h"

struct completion foreign_completion(void) {
  const struct completion all = {MPI_Wait, MPI_Waitall, MPI_Waitany, MPI_Test, MPI_Testall};
  return all;
}
