// SPDX-License-Identifier: BSD-3-Clause
// What `offbeat doctor` wants to know of each rank: whether the preload reaches it and serves its calls, and
// what the rank finds on its host.
#pragma once

#include <string>
#include <vector>

#include "mpi/bench/job.hpp"

namespace offbeat::bench {

// Rank 0 writes one record for each rank. All ranks must call this. `hosts` and `cpus` are of all ranks, on
// rank 0. Works without liboffbeat, too.
void probe(Job& job, const std::vector<std::string>& hosts, const std::vector<std::string>& cpus);

}  // namespace offbeat::bench
