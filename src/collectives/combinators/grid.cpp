// SPDX-License-Identifier: BSD-3-Clause
// Idea: the ranks form a grid of two or more dimensions. The whole message is allreduced along the first
// dimension, then along the second, and so on.
//
//   grid(4x2, A, B)   rows of consecutive ranks by A:   0 1 2 3 | 4 5 6 7
//                     then columns by B:                0 4 | 1 5 | 2 6 | 3 7
//
// Cost: T_A(d1) + T_B(d2) + ..., so the latency grows with the dimensions instead of with p.
// Other sizes: surplus ranks are folded into the grid. Fewer ranks than the grid has cannot run it.
// A grid of native needs exactly its ranks; src/mpi runs it.
// Order: each row in the order of A, then the rows in the order of B.
// Source: Nuriyev et al. 2024 (SUARA), section 3; more than two dimensions are ours.
#include <algorithm>
#include <functional>
#include <numeric>

#include "collectives/combinators/combinators.hpp"
#include "collectives/phases/fold.hpp"

namespace offbeat::combinators {
namespace {

constexpr Parameter parameters[] = {Parameter::dimensions, Parameter::algorithms};

int grid_size(const Expression& self) {
  return std::accumulate(self.dimensions.begin(), self.dimensions.end(), 1, std::multiplies<>());
}

Task run_on_grid(Endpoint net, Call call, const Expression& self) {
  int stride = 1;
  for (std::size_t k = 0; k < self.dimensions.size(); ++k) {
    const int size = self.dimensions[k];
    const int member = net.rank / stride % size;
    const Endpoint line = net.part({.first = net.rank - member * stride, .stride = stride}, member, size);
    co_await carry_out(line, call, self.part_of_dimension(k));
    call.input = call.output;
    stride *= size;
  }
}

Task run(Endpoint net, Call call, const Expression& self) {
  const int core = grid_size(self);
  return core == net.size ? run_on_grid(net, call, self) : run_folded(net, call, self, core, run_on_grid);
}

std::string why_unsuitable(const Expression& self, const Placement& placement) {
  if (self.is_host_grid() && placement.ranks != grid_size(self))
    return "needs exactly " + std::to_string(grid_size(self)) +
           " ranks, because a grid of native does not fold surplus ranks";
  for (std::size_t k = 0; k < self.dimensions.size(); ++k) {
    if (std::string reason = self.part_of_dimension(k).why_unsuitable({self.dimensions[k]}); !reason.empty())
      return reason;
  }
  return {};
}

}  // namespace

const Algorithm grid{
    .name = "grid",
    .summary = "an allreduce along each dimension of a grid of ranks in turn",
    .cost = "sum(d in dimensions: T(d, n)) + fold(D), D ranks in the grid",
    .serves = {Collective::allreduce},
    .needs = {.ranks = grid_size, .ranks_text = "d1 x d2 x ..."},
    .source = "Nuriyev et al. 2024 (SUARA)",
    .parameters = parameters,
    .run = run,
    .why_unsuitable = why_unsuitable,
};

}  // namespace offbeat::combinators
