// SPDX-License-Identifier: BSD-3-Clause
#include "options.hpp"

#include <fstream>
#include <stdexcept>
#include <string_view>

namespace offbeat::bench {

Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--yield") {
      options.yield = true;
      continue;
    }
    if (i + 1 == argc) throw std::runtime_error("missing value for " + std::string(name));
    const std::string value = argv[++i];
    if (name == "--output") {
      options.output = value;
    } else if (name == "--arrivals") {
      options.arrivals = value;
    } else if (name == "--size") {
      options.sizes_bytes.push_back(std::stoull(value));
    } else if (name == "--algorithm") {
      options.algorithms.push_back(value);
    } else if (name == "--skew-factor") {
      options.skew_factor = std::stod(value);
    } else if (name == "--skew-us") {
      options.skew_us = std::stod(value);
    } else if (name == "--budget-s") {
      options.budget_s = std::stod(value);
    } else if (name == "--max-iterations") {
      options.max_iterations = std::stoi(value);
    } else {
      throw std::runtime_error("unknown option " + std::string(name));
    }
  }
  if (options.output.empty() || options.arrivals.empty() || options.sizes_bytes.empty() ||
      options.algorithms.empty()) {
    throw std::runtime_error("--output, --arrivals, --size and --algorithm are required");
  }
  if (options.algorithms.front() != "native")
    throw std::runtime_error("the first --algorithm must be native");
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

}  // namespace offbeat::bench
