// SPDX-License-Identifier: BSD-3-Clause
// What `offbeat bench` (python/offbeat/bench/runner.py) asks of the ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace offbeat::bench {

// An arrival pattern: for each round, how late each rank is, as a fraction of the skew. After the last round
// it begins again with the first.
struct Arrival {
  std::string name;
  std::size_t ranks = 0;
  std::vector<double> fractions;  // rounds x ranks

  [[nodiscard]] double delay_fraction(std::size_t round, std::size_t rank) const {
    const std::size_t rounds = fractions.size() / ranks;
    return fractions[(round % rounds) * ranks + rank];
  }
};

// The call that a cell measures.
struct CallRequest {
  std::string collective;
  std::size_t size_bytes = 0;
  std::string type;       // see elements.hpp
  std::string operation;  // see elements.hpp
  int root = 0;
  bool in_place = false;

  [[nodiscard]] bool operator==(const CallRequest&) const = default;
};

// One cell to measure: all algorithms in one call under one arrival pattern.
struct CellRequest {
  CallRequest call;
  std::string pattern;
  std::string skew;        // as the user wrote it, for the record
  double skew_factor = 0;  // the skew is this many times native's balanced median ...
  double skew_us = 0;      // ... plus this
  double native_us = 0;    // native's balanced median; 0: not known, measured first
};

// How long ranks compute between a non-blocking call and its wait: `factor` times native's balanced median,
// plus `us` microseconds.
struct Computing {
  double factor = 0;
  double us = 0;
};

struct Options {
  std::string output;                   // path of the JSON lines that rank 0 writes
  std::string arrivals;                 // path of the patterns, see read_arrivals
  std::string cells;                    // path of the cells, see read_cells
  std::string gate;                     // path of a file of one page, see gate.hpp
  std::vector<std::string> algorithms;  // the first one measures native's time if that is not known
  double deadline_s = 0;                // Unix time; cells that are not measured by then are left out
  int max_iterations = 1000;
  bool all_iterations = false;         // measure exactly max_iterations calls, however precise fewer are
  std::optional<int> warm_up;          // uncounted calls before the counted ones of a turn
  bool same_buffers = false;           // use the same buffers in every call, instead of several in turn
  bool yield = false;                  // ranks share cores, so a waiting rank gives its core away
  std::optional<Computing> computing;  // non-blocking calls; none: blocking calls
  bool sleeps = false;                 // sleep instead of computing
  bool probe = false;                  // measure nothing, see probe.hpp; only `output` is needed
};

// Returns true if the host runs this algorithm, by its own choice or as its own variables say.
[[nodiscard]] inline bool is_native(const std::string& algorithm) { return algorithm.starts_with("native"); }

// The name of offbeat's own choice: what the preload runs without any setting.
inline constexpr std::string_view built_in_choice = "default";

// Throws std::runtime_error, whose text is one line.
[[nodiscard]] Options parse_options(int argc, char** argv);

// Reads the patterns. The file has, for each pattern, "NAME ROUNDS" and then ROUNDS x ranks numbers.
[[nodiscard]] std::vector<Arrival> read_arrivals(const std::string& path, std::size_t ranks);

// Reads the cells. The file has, for each cell, "COLLECTIVE BYTES PATTERN SKEW SKEW_FACTOR SKEW_US NATIVE_US
// TYPE OPERATION ROOT IN_PLACE". Cells with the same call must follow one another. Throws if a size has more
// elements than an int can count.
[[nodiscard]] std::vector<CellRequest> read_cells(const std::string& path);

}  // namespace offbeat::bench
