// SPDX-License-Identifier: BSD-3-Clause
// The requests of `offbeat bench` (python/offbeat/bench/runner.py) to the ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace offbeat::bench {

// An arrival pattern: for each round, how late each rank is, as a fraction of the skew. Where there are more
// iterations than rounds, the rounds repeat from the first.
struct Arrival {
  std::string name;
  std::size_t ranks = 0;
  std::vector<double> fractions;  // rounds x ranks

  [[nodiscard]] double fraction(std::size_t round, std::size_t rank) const {
    const std::size_t rounds = fractions.size() / ranks;
    return fractions[(round % rounds) * ranks + rank];
  }
};

// One cell of the result: all algorithms at one size under one arrival pattern.
struct CellRequest {
  std::string collective;
  std::size_t size_bytes = 0;
  std::string pattern;
  std::string skew;        // as the user says it, for the record
  double skew_factor = 0;  // the skew is this many times native's balanced median ...
  double skew_us = 0;      // ... and this
  double native_us = 0;    // native's balanced median where it is known; else it is measured first
};

// How long ranks compute between a non-blocking call and its wait: so many times native's balanced median,
// and so many microseconds.
struct Computing {
  double factor = 0;
  double us = 0;
};

struct Options {
  std::string output;                   // JSON lines, written by rank 0
  std::string arrivals;                 // file of the patterns, see read_arrivals
  std::string cells;                    // file of the cells, see read_cells
  std::string gate;                     // file of one page, see gate.hpp
  std::vector<std::string> algorithms;  // the first stands for native where native's time is unknown
  double deadline_s = 0;                // Unix time; cells not measured by then are left out
  int max_iterations = 1000;
  bool same_buffers = false;           // in every call, instead of several in turn
  bool yield = false;                  // ranks share cores: give the core away while waiting
  std::optional<Computing> computing;  // non-blocking calls; none: blocking ones
  bool asleep = false;                 // sleep instead of computing
};

// Whether the host runs it, by its own choice or as its own variables say.
[[nodiscard]] inline bool is_native(const std::string& algorithm) { return algorithm.starts_with("native"); }

// What offbeat chooses by itself: the algorithm of the preload that nobody told anything.
inline constexpr std::string_view built_in_choice = "default";

// Throws std::runtime_error with one line.
[[nodiscard]] Options parse_options(int argc, char** argv);

// The file holds, for each pattern, "NAME ROUNDS" and then ROUNDS x ranks numbers.
[[nodiscard]] std::vector<Arrival> read_arrivals(const std::string& path, std::size_t ranks);

// The file holds, for each cell, "COLLECTIVE BYTES PATTERN SKEW SKEW_FACTOR SKEW_US NATIVE_US"; those of a
// collective and size are together. No size has more floats than an int can count.
[[nodiscard]] std::vector<CellRequest> read_cells(const std::string& path);

}  // namespace offbeat::bench
