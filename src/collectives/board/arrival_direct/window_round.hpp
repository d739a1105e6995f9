// SPDX-License-Identifier: BSD-3-Clause
// WindowRound is one round of a long call: elements [first_in_block, first_in_block + most_elements) of every
// block, each at its place in a window.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "collectives/board/arrival_direct/block_exchange.hpp"
#include "node/board.hpp"
#include "transport/endpoint.hpp"

namespace offbeat::direct {

// Returns the elements [first, first + most) of a vector; if the vector ends earlier, the elements up to its
// end.
template <class AnyVector>
AnyVector clipped_slice(const AnyVector& vector, std::size_t first_element, std::size_t most_elements) {
  const std::size_t begin = std::min(first_element, vector.count);
  return vector.slice(begin, std::min(most_elements, vector.count - begin));
}

class WindowRound {
 public:
  WindowRound(const Endpoint& net, const BlockExchange& exchanged, std::size_t first_in_block,
              std::size_t most_elements)
      : net(net),
        exchanged(exchanged),
        board(*net.board()),
        tag(board.round.tag),
        first_in_block(first_in_block),
        most_elements(most_elements),
        pieces(exchanged.pieces()),
        width(exchanged.call().output.width) {
    // Short chunks let takers begin early; long chunks are announced less often.
    const std::size_t spread = window_elements() * width / 4;
    const std::size_t bytes =
        std::clamp<std::size_t>(spread, BoardShape::smallest_chunk, std::size_t{64} << 10);
    chunk_ = (bytes + width - 1) / width;
    windows_are_swapped_ = exchanged.every_rank_gives_and_takes() && pieces == net.size - 1 &&
                           (board.round.present >> 1 & 1) != 0;
  }

  // Returns the number of elements in a window.
  [[nodiscard]] std::size_t window_elements() const {
    return static_cast<std::size_t>(pieces) * most_elements;
  }
  // Returns where `giver` puts its piece for `taker`. A core writes fastest to memory that it has read last.
  // If each of two ranks reads what the other writes, they swap places in every other round.
  [[nodiscard]] Vector window_place(int giver, int taker) const {
    if (windows_are_swapped_) std::swap(giver, taker);
    const Vector window{board.window(tag, exchanged.window_owner(giver, taker)), window_elements(), width};
    return window.slice(begin_of(giver, taker), most_elements);
  }
  // Returns where the piece for `taker` begins among those of `giver`, in elements.
  [[nodiscard]] std::size_t begin_of(int giver, int taker) const {
    return exchanged.piece_of(giver, taker) * most_elements;
  }
  [[nodiscard]] int taker(int piece) const { return (net.rank + 1 + piece) % net.size; }

  [[nodiscard]] std::size_t chunk() const { return chunk_; }
  [[nodiscard]] std::size_t chunk_of(std::size_t element) const { return element / chunk_; }
  // Returns the number of elements from `element` to the end of its chunk.
  [[nodiscard]] std::size_t rest_of_chunk(std::size_t element) const { return chunk_ - element % chunk_; }
  [[nodiscard]] Board::Word& chunk_word(int giver, std::size_t chunk) const {
    return board.step(tag, chunk).word(giver);
  }
  [[nodiscard]] bool has_put(int giver, std::size_t element) const {
    const Board::Word& chunk_word = this->chunk_word(giver, chunk_of(element));
    return Board::Mark(chunk_word.load(std::memory_order_acquire)).round == tag;
  }

  const Endpoint& net;
  const BlockExchange& exchanged;
  Board& board;
  const std::uint64_t tag;
  const std::size_t first_in_block;
  const std::size_t most_elements;
  const int pieces;
  const std::size_t width;
  bool past_cache = false;

 private:
  std::size_t chunk_;
  bool windows_are_swapped_;
};

}  // namespace offbeat::direct
