// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/bench/options.hpp"

#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "mpi/bench/elements.hpp"

namespace offbeat::bench {

Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--yield") {
      options.yield = true;
      continue;
    }
    if (name == "--same-buffers") {
      options.same_buffers = true;
      continue;
    }
    if (name == "--asleep") {
      options.sleeps = true;
      continue;
    }
    if (name == "--probe") {
      options.probe = true;
      continue;
    }
    if (name == "--all-iterations") {
      options.all_iterations = true;
      continue;
    }
    if (i + 1 == argc) throw std::runtime_error("missing value for " + std::string(name));
    const std::string value = argv[++i];
    if (name == "--output") {
      options.output = value;
    } else if (name == "--arrivals") {
      options.arrivals = value;
    } else if (name == "--cells") {
      options.cells = value;
    } else if (name == "--gate") {
      options.gate = value;
    } else if (name == "--algorithm") {
      options.algorithms.push_back(value);
    } else if (name == "--deadline") {
      options.deadline_s = std::stod(value);
    } else if (name == "--computing") {
      Computing computing;
      if (!(std::istringstream(value) >> computing.factor >> computing.us))
        throw std::runtime_error("--computing needs \"FACTOR US\"");
      options.computing = computing;
    } else if (name == "--warm-up") {
      options.warm_up = std::stoi(value);
    } else if (name == "--max-iterations") {
      options.max_iterations = std::stoi(value);
    } else {
      throw std::runtime_error("unknown option " + std::string(name));
    }
  }
  if (options.probe && !options.output.empty()) return options;
  if (options.output.empty() || options.arrivals.empty() || options.cells.empty() || options.gate.empty() ||
      options.algorithms.empty() || options.deadline_s <= 0) {
    throw std::runtime_error(
        "--output, --arrivals, --cells, --gate, --algorithm and --deadline are required");
  }
  return options;
}

std::vector<Arrival> read_arrivals(const std::string& path, std::size_t ranks) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<Arrival> arrivals;
  Arrival arrival;
  std::size_t rounds = 0;
  while (file >> arrival.name >> rounds) {
    arrival.ranks = ranks;
    arrival.fractions.assign(rounds * ranks, 0.0);
    for (double& fraction : arrival.fractions) {
      if (!(file >> fraction)) throw std::runtime_error(path + ": too few numbers for " + arrival.name);
    }
    if (rounds == 0) throw std::runtime_error(path + ": no rounds for " + arrival.name);
    arrivals.push_back(arrival);
  }
  if (arrivals.empty()) throw std::runtime_error(path + ": no arrival pattern");
  return arrivals;
}

std::vector<CellRequest> read_cells(const std::string& path) {
  std::ifstream file(path);
  std::vector<CellRequest> cells;
  CellRequest cell;
  CallRequest& call = cell.call;
  while (file >> call.collective >> call.size_bytes >> cell.pattern >> cell.skew >> cell.skew_factor >>
         cell.skew_us >> cell.native_us >> call.type >> call.operation >> call.root >> call.in_place) {
    if (call.size_bytes / element_type(call.type).width > std::numeric_limits<int>::max()) {
      throw std::runtime_error(std::to_string(call.size_bytes) +
                               " bytes are more elements than an MPI call counts");
    }
    cells.push_back(cell);
  }
  if (cells.empty()) throw std::runtime_error(path + ": no cells");
  return cells;
}

}  // namespace offbeat::bench
