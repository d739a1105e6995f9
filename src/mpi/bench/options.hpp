// SPDX-License-Identifier: BSD-3-Clause
//
// What `offbeat bench` (python/offbeat/bench.py) asks the ranks to measure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace offbeat::bench {

// An arrival pattern: for each round, how late each rank is, as a fraction of the skew.
// Rounds repeat from the first when there are more iterations than rounds.
struct Arrival {
  std::string name;
  std::size_t ranks = 0;
  std::vector<double> fractions;  // rounds x ranks

  double fraction(std::size_t round, std::size_t rank) const {
    const std::size_t rounds = fractions.size() / ranks;
    return fractions[(round % rounds) * ranks + rank];
  }
};

struct Options {
  std::string output;    // JSON lines, written by rank 0
  std::string arrivals;  // file of the patterns, see read_arrivals
  std::vector<std::size_t> sizes_bytes;
  std::vector<std::string> algorithms;  // the first is "native"
  double skew_factor = 1.0;             // of native's balanced median; unused when skew_us >= 0
  double skew_us = -1.0;
  double budget_s = 1.0;  // for each (size, pattern)
  int max_iterations = 1000;
  bool yield = false;  // ranks share cores: give the core away while waiting
};

// Throws std::runtime_error with one line.
Options parse_options(int argc, char** argv);

// The file holds, for each pattern, "NAME ROUNDS" and then ROUNDS x ranks numbers.
std::vector<Arrival> read_arrivals(const std::string& path, std::size_t ranks);

}  // namespace offbeat::bench
