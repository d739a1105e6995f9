// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/board/arrival_direct.hpp"

#include <algorithm>

#include "base/copy.hpp"
#include "collectives/board/arrival_direct/channels.hpp"
#include "collectives/board/arrival_direct/pieces.hpp"
#include "collectives/board/relayed_bcast.hpp"
#include "collectives/board/round_beginning.hpp"
#include "node/board_awaitables.hpp"

namespace offbeat::direct {

namespace {

// Moves the blocks that are too long for slots. The immediate form has begun the round.
Task run_lists_at_root(Endpoint net, const BlockExchange& exchanged) {
  Board& board = *net.board();
  co_await net.end_round();
  co_await begin_round(board, AllRanks(board, board.round));
  const Call& call = exchanged.call();
  WindowRound round(net, exchanged, 0, board.shape().window_bytes / call.output.width);
  round.past_cache = 2 * exchanged.estimated_total_bytes() >= last_level_cache_bytes();
  const ListsAtRoot lists(board, call);
  co_await run_through_channels(round, &lists);
}

}  // namespace

// Each of several pieces may begin anywhere in a page, so each needs up to a page more.
std::size_t lease(const Call& call, int rank, int ranks) {
  if (call.collective == Collective::bcast && ranks > most_ranks_without_tree) return call.output.bytes();
  const BlockExchange exchanged(call, rank, ranks);
  if (exchanged.has_lists_at_root()) {
    const std::size_t own = exchanged.gives_others() ? call.input.bytes() : call.output.bytes();
    return rank != call.root && BlockExchange::is_past_slot(own) ? own : 0;
  }
  if (!exchanged.gives_others()) return 0;
  const std::size_t piece = exchanged.longest_own_block() * call.output.width;
  const auto pieces = static_cast<std::size_t>(exchanged.pieces());
  return pieces == 1 || piece == 0 ? piece : pieces * (piece + BoardShape::smallest_chunk);
}

Task run(Endpoint net, Call call, const Expression& self) {
  if (call.collective == Collective::bcast && net.size > most_ranks_without_tree) {
    co_await relayed_bcast(net, call, self);
    co_return;
  }
  Board& board = *net.board();
  const BlockExchange exchanged(call, net.rank, net.size);
  if (exchanged.has_lists_at_root()) {
    co_await run_lists_at_root(net, exchanged);
    co_return;
  }
  const std::size_t window = board.shape().window_bytes / call.output.width;
  const std::size_t share = window / static_cast<std::size_t>(exchanged.pieces());
  // If all that the ranks read and write takes half of the cache, little of a result would be found in the
  // cache later.
  const bool past_cache = 2 * exchanged.estimated_total_bytes() >= last_level_cache_bytes();
  if (exchanged.has_channels() && board_has_channels(board, exchanged.pieces())) {
    co_await net.end_round();
    board.round.next(call.collective, synchronising_collectives.contain(call.collective));
    if (!board.may_begin(board.round)) co_await begin_round(board, AllRanks(board, board.round));
    WindowRound round(net, exchanged, 0, share);
    round.past_cache = past_cache;
    co_await run_through_channels(round);
    if (call.collective == Collective::alltoallv) co_await all_slots_have_arrived(board, call);
    co_return;
  }
  if (call.collective == Collective::alltoallv) co_await all_slots_have_arrived(board, call);
  const std::size_t longest = call.collective == Collective::alltoallv
                                  ? ListsInSlots::longest_of_all(board, exchanged.longest())
                                  : exchanged.longest();
  for (std::size_t first = 0; first < longest; first += share) {
    co_await net.end_round();
    board.round.next(call.collective, synchronising_collectives.contain(call.collective));
    if (!board.may_begin(board.round)) co_await begin_round(board, AllRanks(board, board.round));
    WindowRound round(net, exchanged, first, std::min(share, longest - first));
    round.past_cache = past_cache;
    if (exchanged.gives_others()) co_await put_pieces(round);
    board.announce_contribution();
    // This rank copies its own block now, because others may not have arrived yet.
    if (first == 0 && exchanged.keeps_own_block()) {
      Computation own = net.copy(exchanged.place_of_block_from(net.rank), exchanged.block_to(net.rank));
      own.past_cache = past_cache;
      own.source_is_stable = true;
      co_await own;
    }
    if (exchanged.takes(net.rank)) co_await take_or_combine_pieces(round);
  }
}

}  // namespace offbeat::direct
