// SPDX-License-Identifier: BSD-3-Clause
// Timing of a collective under an arrival pattern, all algorithms in turn.
//
// Rank 0 announces a start in the near future. Each rank waits for that instant plus its own delay, notes its
// arrival, calls, and notes its exit. A barrier instead of the announcement would let ranks out at different
// times, and its messages would meet those of the call.
//
// A non-blocking call is measured from its arrival to the exit from its wait. What the rank computes between
// the two is subtracted, as long as it took with nothing under way: what remains is not hidden behind it.
//
// Where ranks share cores, a rank that waits inside its call may keep the core from one whose time has come.
// Delays then count from the instants that the pattern asks for: counted from the arrivals, a call would not
// be charged with the time that it steals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "mpi/bench/buffers.hpp"
#include "mpi/bench/clock.hpp"
#include "mpi/bench/computation.hpp"
#include "mpi/bench/job.hpp"
#include "mpi/bench/options.hpp"

namespace offbeat::bench {

enum class Mode : std::uint8_t { blocking, waiting, computing };  // the last two: non-blocking

// One of those that take turns.
struct Variant {
  std::string algorithm;
  Mode mode = Mode::blocking;
};

struct Cell {
  const Arrival* arrival = nullptr;  // null: balanced
  Nanoseconds skew_ns = 0;
  Nanoseconds computing_ns = 0;     // of the variants that compute
  bool asleep = false;              // they sleep instead of computing
  Nanoseconds expected_ns = 0;      // of one call, to size the blocks; 0: unknown
  Nanoseconds deadline_ns = never;  // when it should be done
  Nanoseconds end_ns = never;       // when it must be done, however few samples there are
  int max_iterations = 1000;
};

struct Sample {
  double last_delay_us;   // last exit - last arrival (or when that was due, where ranks share cores)
  double total_delay_us;  // last exit - first arrival (the same)
  bool on_time;           // every rank arrived as the pattern says
};

// A mismatch and the first rank that saw it; -1: none did.
struct Wrong {
  Mismatch mismatch;
  int rank = -1;
};

// Complete on rank 0, empty elsewhere.
struct Measurement {
  std::vector<Sample> samples;
  Wrong wrong;
  std::string stopped;  // by "precision", "budget", "iterations" or "wrong result"
};

// Whether one algorithm is correct on these buffers; complete on rank 0.
struct Check {
  std::string error;  // not usable at all: the benchmark is meaningless
  bool served = false;
  Wrong wrong;
};

// These three are collective over MPI_COMM_WORLD.
// If the runner can, also checks in place.
[[nodiscard]] Check check(Job& job, const Variant& variant, Buffers& buffers);
[[nodiscard]] std::vector<Measurement> measure(Job& job, const Cell& cell,
                                               const std::vector<Variant>& variants, Buffers& buffers);
// For each of these mismatches the first rank that has one; complete on rank 0, empty elsewhere.
[[nodiscard]] std::vector<Wrong> first_wrong(const Job& job, const std::vector<Mismatch>& mine);

// Whether every variant has enough on-time samples to use only these. One answer for all, so that like is
// compared with like.
[[nodiscard]] bool mostly_on_time(const std::vector<Measurement>& measurements);

[[nodiscard]] std::vector<double> last_delays_us(const Measurement& measurement, bool only_on_time);
[[nodiscard]] std::vector<double> total_delays_us(const Measurement& measurement, bool only_on_time);

}  // namespace offbeat::bench
