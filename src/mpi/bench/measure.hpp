// SPDX-License-Identifier: BSD-3-Clause
//
// Timing of a collective under an arrival pattern, all algorithms in turn.
//
// Rank 0 announces a start in the near future; each rank waits for that instant
// plus its own delay, notes its arrival, calls, and notes its exit. Announcing
// an instant instead of leaving a barrier makes the arrivals exact: a barrier
// lets ranks out at different times, and its messages meet those of the call.
//
// Where ranks share cores, a rank that waits inside its call may keep the core
// from one whose time has come. Then delays count from the instants that the
// pattern asked for: from the arrivals, the time that a call steals would be
// missing from its own delay.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "buffers.hpp"
#include "clock.hpp"
#include "clock/clock.hpp"
#include "gate.hpp"
#include "library.hpp"
#include "options.hpp"
#include "records.hpp"

namespace offbeat::bench {

// The facts on which all ranks agree, and the rank itself.
struct Job {
  int rank = 0;
  int ranks = 1;
  bool yield = false;  // ranks share cores
  Library library;
  std::unique_ptr<Gate> gate;
  clock::Model clock;            // from this host's clock to that of rank 0
  RecordFile records;            // of rank 0
  Nanoseconds alive_ns = 0;      // when rank 0 last said so
  Nanoseconds lead_ns = 50'000;  // from announcing a start to the start; adapts (rank 0)
};

struct Cell {
  const Arrival* arrival = nullptr;  // null: balanced
  Nanoseconds skew_ns = 0;
  Nanoseconds expected_ns = 0;       // of one call, to size the blocks; 0: unknown
  Nanoseconds deadline_ns = kNever;  // when it should be done
  Nanoseconds end_ns = kNever;       // when it has to be, however few samples there are
  int max_iterations = 1000;
};

struct Sample {
  double last_delay_us;   // last exit - last arrival (or when that was due, where ranks share cores)
  double total_delay_us;  // last exit - first arrival (the same)
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

// Correctness of one algorithm on these buffers, and in place where the runner can.
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
