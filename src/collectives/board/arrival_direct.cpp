// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/board/arrival_direct.hpp"

#include <algorithm>

#include "base/copy.hpp"
#include "collectives/board/arrival_direct/channels.hpp"
#include "collectives/board/arrival_direct/pieces.hpp"
#include "collectives/board/board_rounds.hpp"
#include "collectives/board/relayed_bcast.hpp"
#include "node/board_awaitables.hpp"

namespace offbeat::direct {

// Each of several pieces may begin anywhere in a page, so each needs up to a page more.
std::size_t lease(const Call& call, int rank, int ranks) {
  if (call.collective == Collective::bcast && ranks > few_ranks) return call.output.bytes();
  const Gifts gifts(call, rank, ranks);
  if (!gifts.gives_others()) return 0;
  const std::size_t piece = gifts.longest_here() * call.output.width;
  const auto pieces = static_cast<std::size_t>(gifts.pieces());
  return pieces == 1 || piece == 0 ? piece : pieces * (piece + BoardShape::smallest_chunk);
}

Task run(Endpoint net, Call call, const Expression& self) {
  if (call.collective == Collective::bcast && net.size > few_ranks) {
    co_await relayed_bcast(net, call, self);
    co_return;
  }
  Board& board = *net.board();
  const Gifts gifts(call, net.rank, net.size);
  const std::size_t window = board.shape().window_bytes / call.output.width;
  const std::size_t share = window / static_cast<std::size_t>(gifts.pieces());
  // If all that the ranks read and write takes half of the cache, little of a result would be found in the
  // cache later.
  const bool past_cache = 2 * gifts.bytes_of_all() >= last_level_cache_bytes();
  if (gifts.has_channels() && channels_fit(board, gifts.pieces())) {
    co_await net.end_round();
    board.round.next(meetings.contain(call.collective));
    if (!board.may_begin(board.round)) co_await begin_round(board, AllRanks(board, board.round));
    WindowRound round(net, gifts, 0, share);
    round.past_cache = past_cache;
    co_await run_through_channels(round);
    if (call.collective == Collective::alltoallv) co_await slots_have_come(board, call);
    co_return;
  }
  if (call.collective == Collective::alltoallv) co_await slots_have_come(board, call);
  const std::size_t longest = call.collective == Collective::alltoallv
                                  ? ListsInSlots::longest_of_all(board, gifts.longest())
                                  : gifts.longest();
  for (std::size_t first = 0; first < longest; first += share) {
    co_await net.end_round();
    board.round.next(meetings.contain(call.collective));
    if (!board.may_begin(board.round)) co_await begin_round(board, AllRanks(board, board.round));
    WindowRound round(net, gifts, first, std::min(share, longest - first));
    round.past_cache = past_cache;
    if (gifts.gives_others()) co_await give(round);
    board.contributed(round.number);
    // This rank copies its own block now, because others may not have arrived yet.
    if (first == 0 && gifts.keeps_own_block()) {
      Computation own = net.copy(gifts.receipt(net.rank), gifts.gift(net.rank));
      own.past_cache = past_cache;
      own.at_rest = true;
      co_await own;
    }
    if (gifts.takes(net.rank)) co_await take_or_combine(round);
  }
}

}  // namespace offbeat::direct
