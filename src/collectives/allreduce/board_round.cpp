// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/allreduce/board_round.hpp"

namespace offbeat {
namespace {

Task one_round(const BoardRound& round, NodePhase contribute) {
  Uncollected results(round);
  co_await contribute(round, &results);
  round.board.contributed(round.number);
  while (!results.empty()) {
    Patience::Wait wait(round.board.patience);
    while (!results.find_ready()) co_await round.board.pause(wait);
    co_await results.take();
  }
}

}  // namespace

Task run_on_one_node(Endpoint net, Call call, const Expression& self) {
  const NodePhase contribute = self.algorithm->node_phase;
  return in_rounds(net, call, net.board()->at_once,
                   [contribute](const BoardRound& round) { return one_round(round, contribute); });
}

}  // namespace offbeat
