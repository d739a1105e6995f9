// SPDX-License-Identifier: BSD-3-Clause
// The part of offbeat._core that predicts times without a simulation.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <optional>
#include <string>
#include <utility>

#include "bindings.hpp"
#include "collectives/automatic_grid.hpp"
#include "collectives/cost.hpp"

using namespace nb::literals;

namespace {

std::optional<double> cost(std::string_view collective, std::string_view expression, int ranks,
                           std::size_t size_bytes, double a, double b, double c, double o, int nodes,
                           double a_within, double b_within, std::size_t eager_bytes) {
  const auto known = known_collective(collective);
  if (ranks < 1 || nodes < 0 || nodes > ranks)
    throw offbeat::UsageError("a cost is of at least one rank, and of at most as many nodes as ranks");
  const auto model = offbeat::CostModel::of(known, offbeat::parse_expression(known, expression));
  if (!model) return {};
  return (*model)({.ranks = ranks,
                   .nodes = nodes,
                   .bytes = static_cast<double>(size_bytes),
                   .a = a,
                   .b = b,
                   .c = c,
                   .o = o,
                   .a_within = a_within,
                   .b_within = b_within,
                   .eager_bytes = static_cast<double>(eager_bytes)});
}

std::pair<std::string, double> cheapest_grid(int ranks, std::size_t size_bytes, int ranks_per_node,
                                             const std::string& machine, std::string_view mpi) {
  if (ranks < 2 || ranks_per_node < 1 || ranks % ranks_per_node != 0)
    throw offbeat::UsageError("a grid is of at least two ranks, on nodes of equally many");
  const offbeat::Machine read =
      machine.empty() ? offbeat::built_in_machine() : offbeat::read_machine(machine);
  const offbeat::Placement placement{.ranks = ranks, .nodes = ranks / ranks_per_node};
  const offbeat::ChosenGrid grid = offbeat::choose_grid(read, placement, size_bytes, mpi);
  return {grid.expression, grid.seconds};
}

}  // namespace

void register_models(nb::module_& module) {
  module.def(
      "cost", cost, "collective"_a, "expression"_a, "ranks"_a, "size_bytes"_a, nb::kw_only(), "a"_a, "b"_a,
      "c"_a, "o"_a = 0.0, "nodes"_a = 0, "a_within"_a = 0.0, "b_within"_a = 0.0, "eager_bytes"_a = 8192,
      "Evaluates the cost formula of an expression (docs/explanation/models.md): the time in seconds if "
      "all ranks arrive together, or None if the cost of a part is only words.");
  module.def(
      "machine_name", [](const std::string& path) { return offbeat::read_machine(path).name; }, "path"_a,
      "Reads a machine file as grid(auto) does, and returns its name. Raises UsageError with one line.");
  module.def(
      "cheapest_grid", cheapest_grid, "ranks"_a, "size_bytes"_a, nb::kw_only(), "ranks_per_node"_a = 1,
      "machine"_a = "", "mpi"_a = "",
      "Returns the grid that an allreduce by grid(auto) has, as an expression, and its time in seconds "
      "(docs/explanation/models.md). It is one algorithm if splitting the ranks does not pay. `machine` is "
      "the path of a machine file; empty: the built-in one. `mpi`: algorithms of this MPI take part, too, if "
      "the "
      "file has parameters for its native(NAME).");
}
