// SPDX-License-Identifier: BSD-3-Clause
// Predicts times without a simulation.
#include <cstddef>
#include <optional>
#include <string>

#include "answer.hpp"
#include "collectives/automatic_grid.hpp"
#include "collectives/cost.hpp"

using namespace offbeat::python;

extern "C" {

// Evaluates the cost formula of an expression; null if the cost of a part is only words.
int offbeat_python_cost(Text collective, Text expression, int ranks, std::size_t size_bytes, double a,
                        double b, double c, double o, double v, int nodes, double a_within, double b_within,
                        std::size_t eager_bytes) {
  return answer([&] {
    const auto known = known_collective(collective);
    if (ranks < 1 || nodes < 0 || nodes > ranks)
      throw offbeat::UsageError("a cost is of at least one rank, and of at most as many nodes as ranks");
    const auto model =
        offbeat::CostModel::for_expression(known, offbeat::parse_expression(known, expression));
    std::optional<double> cost;
    if (model) {
      cost = (*model)({.ranks = ranks,
                       .nodes = nodes,
                       .bytes = static_cast<double>(size_bytes),
                       .a = a,
                       .b = b,
                       .c = c,
                       .o = o,
                       .v = v,
                       .a_within = a_within,
                       .b_within = b_within,
                       .eager_bytes = static_cast<double>(eager_bytes)});
    }
    return json(cost);
  });
}

// Reads a machine file as grid(auto) does, and returns its name.
int offbeat_python_machine_name(Text path) {
  return answer([&] { return json(offbeat::read_machine(std::string(path)).name); });
}

// Returns the grid that an allreduce by grid(auto) has, and its time in seconds. `machine` and `mpi` may be
// empty.
int offbeat_python_cheapest_grid(int ranks, std::size_t size_bytes, int ranks_per_node, Text machine,
                                 Text mpi) {
  return answer([&] {
    if (ranks < 2 || ranks > 1 << 30 || ranks_per_node < 1 || ranks % ranks_per_node != 0)
      throw offbeat::UsageError("a grid is of 2 to 2^30 ranks, on nodes of equally many");
    const std::string file(machine);
    const offbeat::Machine read = file.empty() ? offbeat::built_in_machine() : offbeat::read_machine(file);
    const offbeat::Placement placement{.ranks = ranks, .nodes = ranks / ranks_per_node};
    const offbeat::ChosenGrid grid = offbeat::choose_grid(read, placement, size_bytes, mpi);
    Json written;
    {
      const auto both = written.list();
      written.add(grid.expression);
      written.add(grid.seconds);
    }
    return std::move(written).text();
  });
}

}  // extern "C"
