// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/bench/probes.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace offbeat::bench {
namespace {

constexpr std::array<std::pair<std::string_view, ProbeKind>, 10> kinds = {{
    {"round_trip", ProbeKind::round_trip},
    {"exchange", ProbeKind::exchange},
    {"fan_out", ProbeKind::fan_out},
    {"fan_in", ProbeKind::fan_in},
    {"late", ProbeKind::late},
    {"eager", ProbeKind::eager},
    {"combine", ProbeKind::combine},
    {"copy", ProbeKind::copy},
    {"line", ProbeKind::line},
    {"window", ProbeKind::window},
}};

}  // namespace

std::string_view name_of(ProbeKind kind) { return kinds[static_cast<std::size_t>(kind)].first; }

std::vector<Probe> parse_probes(const std::string& text, int ranks) {
  std::vector<Probe> probes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind;
    Probe probe;
    double lead_us = 0;
    words >> kind >> probe.round >> probe.bytes >> lead_us;
    probe.lead_ns = static_cast<Nanoseconds>(lead_us * 1e3);
    const auto* const known = std::ranges::find(kinds, kind, &std::pair<std::string_view, ProbeKind>::first);
    for (int rank = 0; words >> rank;) {
      if (rank < 0 || rank >= ranks)
        throw std::runtime_error("no rank " + std::to_string(rank) + ": " + line);
      probe.ranks.push_back(rank);
    }
    if (known == kinds.end() || probe.ranks.empty() || !words.eof())
      throw std::runtime_error("not a probe: " + line);
    probe.kind = known->second;
    const bool alone = probe.kind == ProbeKind::combine || probe.kind == ProbeKind::copy;
    const bool in_pairs = probe.kind == ProbeKind::round_trip;
    if ((!alone && probe.ranks.size() < 2) || (in_pairs && probe.ranks.size() % 2 != 0))
      throw std::runtime_error("too few ranks: " + line);
    probes.push_back(std::move(probe));
  }
  return probes;
}

}  // namespace offbeat::bench
