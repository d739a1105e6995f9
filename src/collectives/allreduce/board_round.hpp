// SPDX-License-Identifier: BSD-3-Clause
// What the algorithms on the board share: a message goes in rounds that fit the windows, a round in chunks.
#pragma once

#include <algorithm>

#include "collectives/algorithm.hpp"
#include "transport/node/board.hpp"

namespace offbeat {

class BoardRound {
 public:
  // The next round, for a message of at most a window. `chunk`: elements.
  BoardRound(const Endpoint& net, const Allreduce& args, std::size_t chunk)
      : net(net),
        board(*net.board()),
        args(args),
        chunks((args.input.count + chunk - 1) / chunk),
        number(++board.round),
        chunk_(chunk) {}

  template <class AnyVector>
  [[nodiscard]] AnyVector of(const AnyVector& vector, std::size_t chunk) const {
    return vector.slice(chunk * chunk_, std::min(chunk_, args.input.count - chunk * chunk_));
  }
  // Chunks [first, last).
  template <class AnyVector>
  [[nodiscard]] AnyVector of(const AnyVector& vector, std::size_t first, std::size_t last) const {
    const std::size_t begin = std::min(first * chunk_, args.input.count);
    return vector.slice(begin, std::min(last * chunk_, args.input.count) - begin);
  }
  [[nodiscard]] Vector on_board(int owner, std::size_t chunk) const {
    const Vector all{board.window(number, owner), args.input.count, args.input.width};
    return of(all, chunk);
  }
  [[nodiscard]] Board::Step step(std::size_t chunk) const { return board.step(number, chunk); }
  [[nodiscard]] bool is_marked(const Board::Word& word) const {
    return Board::Mark(word.load(std::memory_order_acquire)).round == number;
  }
  // Of a word that is_marked.
  [[nodiscard]] int holder(const Board::Word& word) const {
    return Board::Mark(word.load(std::memory_order_relaxed)).holder;
  }
  [[nodiscard]] Board::Mark mark() const { return {number, net.rank}; }

  // For algorithms that mark Step::result: the result of a chunk is there; copy it to the output; copy all as they get
  // there.
  [[nodiscard]] static bool has_result(const BoardRound& round, std::size_t chunk) {
    return round.is_marked(round.step(chunk).result());
  }
  [[nodiscard]] static Computation collect_result(const BoardRound& round, std::size_t chunk) {
    const int holder = round.holder(round.step(chunk).result());
    return round.net.copy(round.of(round.args.output, chunk), round.on_board(holder, chunk));
  }
  [[nodiscard]] Task collect_results() const;

  Endpoint net;
  Board& board;
  Allreduce args;
  std::size_t chunks;
  std::uint64_t number;

 private:
  std::size_t chunk_;
};

// Runs one(round) -> Task for each round of a message among `net`, the ranks of this node. `ranks`, which share the
// work, decide how the message is cut.
template <class One>
Task in_rounds(Endpoint net, Allreduce args, int ranks, One one) {
  // Large enough that a chunk costs more than its flags, small enough that several operands stay in a first-level cache.
  constexpr std::size_t best_chunk_bytes = 16 * 1024;
  const std::size_t width = args.input.width;
  const std::size_t window = net.board()->shape().window_bytes / width;
  // Several chunks for each rank, so that the work spreads; but no more than the board has steps for.
  const std::size_t spread = args.input.bytes() / (2 * static_cast<std::size_t>(ranks));
  const std::size_t chunk_bytes = std::clamp(spread, BoardShape::smallest_chunk, best_chunk_bytes);
  const std::size_t chunk = std::max<std::size_t>(1, (chunk_bytes + width - 1) / width);
  for (std::size_t first = 0; first < args.input.count; first += window) {
    const std::size_t length = std::min(window, args.input.count - first);
    BoardRound round(net, {args.input.slice(first, length), args.output.slice(first, length), args.op}, chunk);
    co_await one(round);
  }
}

}  // namespace offbeat
