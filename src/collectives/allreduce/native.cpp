// SPDX-License-Identifier: BSD-3-Clause
// The host MPI's own choice: the baseline, the fallback and the oracle. It has no coroutine: src/mpi hands
// the untouched call over to the host.
#include "collectives/allreduce/allreduce.hpp"

namespace offbeat::allreduce_algorithms {

const Algorithm native{
    .name = "native",
    .summary = "the host MPI's own allreduce, untouched",
    .cost = "the host's",
    .serves = {Collective::allreduce},
    .source = "",
    .every_run = false,  // the host does not say
};

}  // namespace offbeat::allreduce_algorithms
