// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/allreduce/allreduce.hpp"

namespace offbeat {
namespace {

using namespace allreduce_algorithms;

constexpr const Algorithm* allreduce_list[] = {
    &native,       &arrival_tree, &arrival_leader, &arrival_chain, &recursive_doubling,
    &rabenseifner, &ring,         &ring_segmented, &binomial,      &linear,
    &pipeline,     &grid,         &hierarchy,
};

Task copy_only(Endpoint net, Allreduce args) { co_await net.copy(args.output, args.input); }

}  // namespace

std::span<const Algorithm* const> algorithms(std::string_view collective) {
  if (collective == "allreduce") return allreduce_list;
  return {};
}

Task allreduce(Endpoint net, Allreduce args, const Expression& expression) {
  if (net.size == 1) return copy_only(net, args);
  return expression.algorithm->run(net, args, expression);
}

}  // namespace offbeat
