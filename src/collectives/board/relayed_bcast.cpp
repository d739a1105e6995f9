// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/board/relayed_bcast.hpp"

#include <algorithm>

#include "base/copy.hpp"
#include "collectives/board/readers.hpp"
#include "collectives/board/relay.hpp"

namespace offbeat {

Task relayed_bcast(Endpoint net, Call call, const Expression&) {
  // A vector of 16 chunks takes at most twice the time of its own data, because the last chunk still goes
  // down the tree after the others.
  constexpr std::size_t pieces = 16;
  constexpr std::size_t longest_chunk = std::size_t{64} << 10;
  Board& board = *net.board();
  const bool is_root = net.rank == call.root;
  const std::size_t width = call.output.width;
  const std::size_t window = board.shape().window_bytes / width;
  const bool past_cache =
      2 * static_cast<std::size_t>(net.size) * call.output.bytes() >= last_level_cache_bytes();
  for (std::size_t first = 0; first < call.output.count; first += window) {
    co_await net.end_round();
    board.round.next(call.collective, false);
    co_await begin_round(board, ReadersBefore(board, board.round, board.window_readers));
    const Vector output = call.output.slice(first, std::min(window, call.output.count - first));
    const std::size_t bytes = std::clamp(output.bytes() / pieces, BoardShape::smallest_chunk, longest_chunk);
    const Relay relay(net, call.root, output, (bytes + width - 1) / width, past_cache);
    if (is_root) net.prefetch({board.window(board.round.present, net.rank), output.count, width}, output);
    note_readers(board.round, board.window_readers, {.single_readers = relay.tree().children()});
    for (std::size_t chunk = 0; chunk < relay.chunks(); ++chunk) {
      if (is_root) {
        co_await net.put(relay.chunk_on_board(net.rank, chunk), relay.chunk_of(ConstVector(output), chunk));
        co_await relay.announce(chunk);
      } else {
        co_await relay.take(chunk);
      }
    }
    board.announce_contribution();
  }
}

}  // namespace offbeat
