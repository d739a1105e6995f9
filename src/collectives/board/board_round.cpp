// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/board/board_round.hpp"

namespace offbeat {

Task contribute_only(const BoardRound& round, NodePhase contribute) {
  co_await contribute(round, nullptr);
  round.board.announce_contribution();
}

Task contribute_and_collect(const BoardRound& round, NodePhase contribute) {
  UncollectedResults results(round);
  co_await contribute(round, &results);
  round.board.announce_contribution();
  while (!results.empty()) {
    Patience::Wait wait(round.board.patience);
    const auto is_ready = [&] { return results.find_ready(); };
    while (!is_ready()) co_await round.board.pause(wait, is_ready);
    round.prefetch_next_input();  // a result of all ranks is there, so all have begun the round
    co_await results.charge_fetch_of_word();
    co_await results.charge_fetch();
    co_await results.copy_found_chunk();
  }
}

Task run_on_one_node(Endpoint net, Call call, NodePhase contribute) {
  const std::size_t chunk_bytes = chunk_bytes_among(call, net.board()->concurrent_ranks);
  return run_in_rounds(net, call, chunk_bytes, [contribute](const BoardRound& round) {
    return contribute_and_collect(round, contribute);
  });
}

Task run_on_one_node(Endpoint net, Call call, const Expression& self) {
  return run_on_one_node(net, call, self.algorithm->node_phase);
}

}  // namespace offbeat
