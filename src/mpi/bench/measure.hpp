// SPDX-License-Identifier: BSD-3-Clause
//
// Timing of MPI_Allreduce under an arrival pattern, all algorithms in turn.
//
// Rank 0 announces a start in the near future; each rank waits for that instant
// plus its own delay, notes its arrival, calls, and notes its exit. Announcing
// an instant instead of leaving a barrier makes the arrivals exact: a barrier
// lets ranks out at different times, and its messages meet those of the call.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "buffers.hpp"
#include "clock.hpp"
#include "library.hpp"
#include "options.hpp"

namespace offbeat::bench {

// What every rank knows and all agree on, but for the rank itself.
struct Job {
  int rank = 0;
  int ranks = 1;
  bool yield = false;
  Library library;
  Nanoseconds lead_ns = 50'000;  // from announcing a start to the start; adapts (rank 0)
};

struct Cell {
  const Arrival* arrival = nullptr;  // null: balanced
  Nanoseconds skew_ns = 0;
  Nanoseconds expected_ns = 0;  // of one call, to size the blocks; 0: unknown
  double budget_s = 1.0;
  int max_iterations = 1000;
};

struct Sample {
  double last_delay_us;   // last exit - last arrival
  double total_delay_us;  // last exit - first arrival
  bool on_time;           // every rank arrived as the pattern says
};

// A mismatch and the first rank that saw it.
struct Wrong {
  Mismatch mismatch;
  int rank = -1;
};

struct Measurement {  // complete on rank 0, empty elsewhere
  std::vector<Sample> samples;
  Wrong wrong;
  std::string stopped;  // "precision", "budget" or "iterations"
};

// Correctness of one algorithm on these buffers, out of place and in place.
struct Check {        // complete on rank 0
  std::string error;  // not usable at all: the benchmark is meaningless
  bool served = false;
  Wrong wrong;
};

// Both are collective over MPI_COMM_WORLD.
Check check(Job& job, const std::string& algorithm, Buffers& buffers);
std::vector<Measurement> measure(Job& job, const Cell& cell, const std::vector<std::string>& algorithms,
                                 Buffers& buffers);

// Whether every algorithm has enough samples that were on time to use these only.
// One answer for all, so that like is compared with like.
bool mostly_on_time(const std::vector<Measurement>& measurements);

std::vector<double> last_delays_us(const Measurement& measurement, bool only_on_time);
std::vector<double> total_delays_us(const Measurement& measurement, bool only_on_time);

}  // namespace offbeat::bench
