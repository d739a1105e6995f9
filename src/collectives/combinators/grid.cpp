// SPDX-License-Identifier: BSD-3-Clause
// Grid: the ranks form a grid of two or more dimensions; an allreduce of the whole message along the first
// dimension, then along the second, and so on.
//
//   grid(4x2, A, B)   rows of consecutive ranks by A:   0 1 2 3 | 4 5 6 7
//                     then columns by B:                0 4 | 1 5 | 2 6 | 3 7
//
// Cost: T_A(d1) + T_B(d2) + ...: latency linear in the dimensions instead of p.
// More ranks than the grid has are folded into it; fewer cannot run it.
// Order: each row in the order of A, then rows in the order of B.
// Source: Nuriyev et al. 2024 (SUARA), section 3; more than two dimensions are ours.
#include <algorithm>
#include <functional>
#include <numeric>

#include "collectives/allreduce/allreduce.hpp"
#include "collectives/combinators/fold.hpp"

namespace offbeat::allreduce_algorithms {
namespace {

constexpr Parameter parameters[] = {Parameter::dimensions, Parameter::algorithms};

int grid_size(const Expression& self) {
  return std::accumulate(self.dimensions.begin(), self.dimensions.end(), 1, std::multiplies<>());
}

const Expression& part_of(const Expression& self, std::size_t dimension) {
  return self.parts[self.parts.size() == 1 ? 0 : dimension];
}

Task on_grid(Endpoint net, Allreduce args, const Expression& self) {
  int stride = 1;
  for (std::size_t k = 0; k < self.dimensions.size(); ++k) {
    const int size = self.dimensions[k];
    const int member = net.rank / stride % size;
    const Endpoint line = net.part({.first = net.rank - member * stride, .stride = stride}, member, size);
    co_await allreduce(line, args, part_of(self, k));
    args.input = args.output;
    stride *= size;
  }
}

Task run(Endpoint net, Allreduce args, const Expression& self) {
  const int core = grid_size(self);
  return core == net.size ? on_grid(net, args, self) : folded(net, args, self, core, on_grid);
}

std::string unsuitable(const Expression& self, const Placement& placement) {
  if (const int core = grid_size(self); placement.ranks < core) {
    return "needs at least " + std::to_string(core) + " ranks";
  }
  for (std::size_t k = 0; k < self.dimensions.size(); ++k) {
    if (std::string reason = part_of(self, k).unsuitable({self.dimensions[k]}); !reason.empty())
      return reason;
  }
  return {};
}

}  // namespace

const Algorithm grid{
    .name = "grid",
    .summary = "an allreduce along each dimension of a grid of ranks in turn",
    .cost = "T_1(d1) + T_2(d2) + ...",
    .needs = "at least d1 x d2 x ... ranks",
    .source = "Nuriyev et al. 2024 (SUARA)",
    .parameters = parameters,
    .run = run,
    .unsuitable = unsuitable,
};

}  // namespace offbeat::allreduce_algorithms
