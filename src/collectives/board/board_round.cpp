// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/board/board_round.hpp"

#include "collectives/board/relay.hpp"

namespace offbeat {

Task contribute_only(const BoardRound& round, NodePhase contribute) {
  co_await contribute(round, nullptr);
  round.board.announce_contribution(round.number);
}

Task contribute_and_collect(const BoardRound& round, NodePhase contribute) {
  UncollectedResults results(round);
  co_await contribute(round, &results);
  round.board.announce_contribution(round.number);
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

Task contribute_and_relay(const BoardRound& round, NodePhase contribute) {
  co_await contribute(round, nullptr);
  const Relay relay(round.net, 0, round.call.output, round.chunk_length(), round.past_cache);
  if (!relay.tree().has_children()) round.board.announce_contribution(round.number);
  for (std::size_t chunk = 0; chunk < round.chunks; ++chunk) {
    if (round.net.rank > 0) {
      co_await relay.take(chunk);
      continue;
    }
    Patience::Wait wait(round.board.patience);
    const Board::Word& result = round.result_of(chunk);
    const auto is_there = [&] { return round.is_marked(result); };
    while (!is_there()) co_await round.board.pause(wait, is_there);
    co_await round.board.charge_fetch(round.holder(result), &result, sizeof result);
    co_await relay.take(chunk, round.holder(result));
  }
  round.board.announce_contribution(round.number);
}

Task run_on_one_node(Endpoint net, Call call, const Expression& self) {
  const NodePhase contribute = self.algorithm->node_phase;
  return run_in_rounds(net, call, net.board()->concurrent_ranks, [contribute](const BoardRound& round) {
    return round.net.size > most_ranks_without_tree ? contribute_and_relay(round, contribute)
                                                    : contribute_and_collect(round, contribute);
  });
}

}  // namespace offbeat
