// SPDX-License-Identifier: BSD-3-Clause
// The long form of bcast by arrival_direct for many ranks: if all of them read the root's window, the root's
// core would hand over every line as often as there are ranks. So ranks pass chunks on (relay.hpp).
//
// A round uses the windows of the one before the last. Who read this rank's window then are its children in
// the tree of that round, if it was one of these; so a rank looks at two signs, not at those of all.
#include <algorithm>

#include "base/copy.hpp"
#include "collectives/bcast/bcast.hpp"
#include "collectives/readers.hpp"
#include "collectives/relay.hpp"

namespace offbeat::bcast_algorithms {

Task relayed(Endpoint net, Call call, const Expression&) {
  // In so many chunks a vector is on its way for twice as long as in its pieces, or less.
  constexpr std::size_t pieces = 16;
  constexpr std::size_t longest_chunk = std::size_t{64} << 10;
  Board& board = *net.board();
  const bool is_root = net.rank == call.root;
  const std::size_t width = call.output.width;
  const std::size_t window = board.shape().window_bytes / width;
  const bool past_cache =
      2 * static_cast<std::size_t>(net.size) * call.output.bytes() >= last_level_cache_bytes();
  for (std::size_t first = 0; first < call.output.count; first += window) {
    board.round.next(false);
    co_await board.announce(board.signs(net.rank).round, {board.round.present, net.rank});
    if (board.round.follows_apart())
      co_await wait_for_readers_in_steps(board, board.round, board.window_readers);
    const Vector output = call.output.slice(first, std::min(window, call.output.count - first));
    const std::size_t bytes = std::clamp(output.bytes() / pieces, BoardShape::smallest_chunk, longest_chunk);
    const Relay relay(net, call.root, output, (bytes + width - 1) / width, past_cache);
    note_readers(board.round, board.window_readers, {.few = relay.tree().children()});
    for (std::size_t chunk = 0; chunk < relay.chunks(); ++chunk) {
      if (is_root) {
        co_await net.put(relay.on_board(net.rank, chunk), relay.of(ConstVector(output), chunk));
        co_await relay.announce(chunk);
      } else {
        co_await relay.take(chunk);
      }
    }
    board.contributed(board.round.present);
  }
}

}  // namespace offbeat::bcast_algorithms
