// SPDX-License-Identifier: BSD-3-Clause
// `native` has no coroutine: src/mpi passes the untouched call to the host.
#include "collectives/native.hpp"

namespace offbeat {

const Algorithm native{
    .name = "native",
    .summary = "the host MPI's own collective, untouched",
    .cost = "the host's",
    .serves = served_collectives,
    .source = "",
    .same_bits_every_run = false,  // the host gives no such promise
};

}  // namespace offbeat
