// SPDX-License-Identifier: BSD-3-Clause
// grid(auto) stands for the grid, with its algorithms, that costs least on a machine (models/suara.hpp). A
// plan has the grid instead, so offbeat chooses it when it sets up a communicator, never in a call.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/algorithm.hpp"
#include "models/machine.hpp"
#include "models/suara.hpp"

namespace offbeat {

// Returns true for grid(auto), which has neither dimensions nor parts. It cannot run.
[[nodiscard]] bool is_automatic_grid(const Expression& expression);
// Returns true for grid(auto), and if a part is one.
[[nodiscard]] bool has_automatic_grid(const Expression& expression);

// An algorithm that a grid can be made of, as an expression and as the optimiser needs it.
struct GridPart {
  std::string expression;
  suara::Candidate candidate;
};

// Returns the algorithms that grid(auto) chooses from on this machine. Those that the machine file has
// parameters for use them; the others use the costs of messages. If `mpi` names a host, returns that host's
// native(NAME) for which the file has parameters instead.
[[nodiscard]] std::vector<GridPart> grid_parts(const Machine& machine, std::string_view mpi = {});

// The cheapest grid as an expression: one algorithm if splitting the ranks does not pay. If `mpi` names a
// host, it may be a grid of the host's own algorithms.
struct ChosenGrid {
  std::string expression;
  double seconds;
};
[[nodiscard]] ChosenGrid choose_grid(const Machine& machine, const Placement& placement, std::size_t bytes,
                                     std::string_view mpi = {});

// Returns the time of what choose_grid() has returned for some length.
[[nodiscard]] double grid_seconds(const Expression& chosen, const Machine& machine,
                                  const Placement& placement, std::size_t bytes);

// Returns `expression` with a grid instead of each grid(auto). All values are equal on all ranks, so the
// result is, too.
[[nodiscard]] Expression replace_automatic_grids(const Expression& expression, const Machine& machine,
                                                 const Placement& placement, std::size_t bytes);

// Returns the length for which calls of `least` bytes and a little more get their grids. Powers of two are
// often whole numbers of segments, and therefore cheaper than what is near them.
[[nodiscard]] constexpr std::size_t typical_length(std::size_t least) { return least + least / 8; }

// Returns the largest length, at most `most`, up to which the grids of calls of `least` bytes are within 3%
// of the cheapest. It looks at four lengths between two powers of two, so that a plan has few rows.
[[nodiscard]] std::size_t longest_with_same_grids(const Expression& expression, const Machine& machine,
                                                  const Placement& placement, std::size_t least,
                                                  std::size_t most);

}  // namespace offbeat
