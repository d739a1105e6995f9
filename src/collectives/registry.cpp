// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/combinators/combinators.hpp"

namespace offbeat {
namespace {

using namespace allreduce_algorithms;
using namespace combinators;

constexpr const Algorithm* allreduce_list[] = {
    &native,       &arrival_tree, &arrival_leader, &arrival_chain, &recursive_doubling,
    &rabenseifner, &ring,         &ring_segmented, &binomial,      &linear,
    &pipeline,     &grid,         &hierarchy,
};

Task copy_only(Endpoint net, Call call) { co_await net.copy(call.output, call.input); }

}  // namespace

std::span<const Algorithm* const> algorithms(Collective collective) {
  switch (collective) {
    case Collective::allreduce:
      return allreduce_list;
    default:
      return {};
  }
}

Task carry_out(Endpoint net, Call call, const Expression& expression) {
  if (net.size == 1) return copy_only(net, call);
  if (net.board() != nullptr && is_immediate(*expression.algorithm, net.size, call.output.bytes()))
    return expression.algorithm->immediate->run_in_steps(net, call);
  return expression.algorithm->run(net, call, expression);
}

}  // namespace offbeat
