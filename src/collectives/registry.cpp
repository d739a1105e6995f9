// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/barrier/barrier.hpp"
#include "collectives/repertoire.hpp"

namespace offbeat {
namespace {

Task copy_only(Endpoint net, Call call) { co_await net.copy(call.output, call.input); }

}  // namespace

const Repertoire& repertoire(Collective collective) {
  static constexpr Repertoire nothing;
  switch (collective) {
    case Collective::allreduce:
      return allreduce;
    case Collective::barrier:
      return barrier;
    default:
      return nothing;
  }
}

Task carry_out(Endpoint net, Call call, const Expression& expression) {
  if (net.size == 1) return copy_only(net, call);
  if (net.board() != nullptr && is_immediate(*expression.algorithm, net.size, call.output.bytes()))
    return expression.algorithm->immediate->run_in_steps(net, call);
  return expression.algorithm->run(net, call, expression);
}

}  // namespace offbeat
