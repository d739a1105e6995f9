// SPDX-License-Identifier: BSD-3-Clause
// Measures a collective under an arrival pattern. All algorithms take turns.
//
// Rank 0 announces a start in the near future. Each rank waits for that instant plus its own delay, notes its
// arrival, makes the call, and notes its exit. A barrier instead of the announcement would let ranks out at
// different times, and its messages would collide with those of the call.
//
// A non-blocking call is measured from its arrival to the exit from its wait. The time that the rank computes
// in between is subtracted, as measured with nothing under way. What remains is the part that the computation
// does not hide.
//
// If ranks share cores, a rank that waits inside its call may keep the core from a rank whose time has come.
// Delays then count from the instants that the pattern asks for. If they counted from the arrivals, a call
// would not be charged for the time that it steals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mpi/bench/buffers.hpp"
#include "mpi/bench/clock.hpp"
#include "mpi/bench/computation.hpp"
#include "mpi/bench/job.hpp"
#include "mpi/bench/options.hpp"

namespace offbeat::bench {

enum class Mode : std::uint8_t {
  blocking,
  waiting,
  computing
};  // `waiting` and `computing` use the non-blocking call

// One of the alternatives that take turns.
struct MeasuredVariant {
  std::string algorithm;
  Mode mode = Mode::blocking;
};

struct Cell {
  const Arrival* arrival = nullptr;  // null: all ranks arrive together
  Nanoseconds skew_ns = 0;
  Nanoseconds computing_ns = 0;     // for the variants that compute
  bool sleeps = false;              // sleep instead of computing
  Nanoseconds expected_ns = 0;      // of one call, to size the blocks; 0: unknown
  Nanoseconds deadline_ns = never;  // when the measurement should end
  Nanoseconds end_ns = never;       // when it must end, even with few samples
  int max_iterations = 1000;
  bool all_iterations = false;  // measure exactly max_iterations calls, however precise fewer are
  std::optional<int> warm_up;   // uncounted calls of a turn; none: depends on how long a call takes
};

struct Sample {
  double last_delay_us;   // last exit - last arrival (if ranks share cores: when that arrival was due)
  double total_delay_us;  // last exit - first arrival (if ranks share cores: when that was due)
  bool on_time;           // true if every rank arrived as the pattern says
};

// A wrong result, and the first rank that saw it. Rank -1 means that no rank did.
struct WrongResult {
  Mismatch mismatch;
  int rank = -1;
};

// The result for one variant. It is complete on rank 0 and empty elsewhere.
struct Measurement {
  std::vector<Sample> samples;
  // For each rank, its time in all these calls together, and in those in which all ranks were on time.
  std::vector<double> rank_us, rank_on_time_us;
  WrongResult wrong;
  std::string stop_reason;  // why it stopped: "precision", "budget", "iterations" or "wrong result"
};

// Says whether one algorithm is correct on these buffers. It is complete on rank 0.
struct CorrectnessCheck {
  std::string error;  // not empty: the algorithm cannot be measured at all
  bool served = false;
  WrongResult wrong;
};

// All ranks of MPI_COMM_WORLD must call the next three functions.

// Makes one call and checks its result. A blocking call that has a form in place is checked in both forms.
[[nodiscard]] CorrectnessCheck check(Job& job, const MeasuredVariant& variant, Buffers& buffers);
[[nodiscard]] std::vector<Measurement> measure(Job& job, const Cell& cell,
                                               const std::vector<MeasuredVariant>& variants,
                                               Buffers& buffers);
// Returns, on rank 0, for each element of `mine` the first rank that has this mismatch. On other ranks the
// list is empty.
[[nodiscard]] std::vector<WrongResult> first_wrong_results(const Job& job, const std::vector<Mismatch>& mine);

// Returns true if every variant has enough on-time samples to use only these. There is one answer for all
// variants, so that like is compared with like.
[[nodiscard]] bool enough_on_time_samples(const std::vector<Measurement>& measurements);

[[nodiscard]] std::vector<double> last_delays_us(const Measurement& measurement, bool only_on_time);
[[nodiscard]] std::vector<double> total_delays_us(const Measurement& measurement, bool only_on_time);

// The mean time of a call on the fastest rank, on the average one, and on the slowest.
struct RankTimes {
  double min_us;
  double mean_us;
  double max_us;
};
[[nodiscard]] RankTimes rank_times(const Measurement& measurement, bool only_on_time);

}  // namespace offbeat::bench
