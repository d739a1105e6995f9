// SPDX-License-Identifier: BSD-3-Clause
// What the ranks of `offbeat calibrate` measure: messages between chosen ranks, and the work of their cores.
//
// Rank 0 reads the probes from a file and writes one record for each. In a probe a few ranks take part; the
// first of them leads. Before each sample they meet at the leader, which tells them to go on or to stop. All
// other ranks nap, so that they do not take cores away from those that are measured.
#pragma once

#include "mpi/bench/job.hpp"

namespace offbeat::bench {

// Runs `--calibrate --probes FILE --output FILE --deadline UNIX_TIME [--yield]` on all ranks.
void run_calibration(Job& job, int argc, char** argv);

}  // namespace offbeat::bench
