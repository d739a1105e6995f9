// SPDX-License-Identifier: BSD-3-Clause
// How a long vector that stands in one window of the board gets to many ranks: along a binary tree
// (RangeTree), chunk by chunk.
//
// A rank waits for a chunk of its parent, copies it into its own window, where its children find it, and then
// to its output. So at most two ranks wait for a word or read a window, and the chunks follow one another
// down the tree as through a pipeline. With few ranks this is not worth the second copy.
//
// Cost: 2n out of each window, and log2(p) chunks.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/task.hpp"
#include "node/board_awaitables.hpp"
#include "patterns/range_tree.hpp"
#include "transport/endpoint.hpp"

namespace offbeat {

class Relay {
 public:
  // In the present round, from `root`. `chunk`: in elements. Every rank names the same ones, and a vector of
  // its own of the same length.
  Relay(const Endpoint& net, int root, Vector output, std::size_t chunk, bool past_cache)
      : net_(net),
        board_(*net.board()),
        round_(board_.round.present),
        tree_(net.rank, net.size, root),
        output_(output),
        chunk_(chunk),
        past_cache_(past_cache) {}

  [[nodiscard]] const RangeTree& tree() const { return tree_; }
  [[nodiscard]] std::size_t chunks() const { return (output_.count + chunk_ - 1) / chunk_; }
  template <class AnyVector>
  [[nodiscard]] AnyVector of(const AnyVector& vector, std::size_t chunk) const {
    return vector.slice(chunk * chunk_, std::min(chunk_, output_.count - chunk * chunk_));
  }
  [[nodiscard]] Vector on_board(int owner, std::size_t chunk) const {
    return of(Vector{board_.window(round_, owner), output_.count, output_.width}, chunk);
  }

  // On the root, when the chunk stands in its own window.
  [[nodiscard]] Task announce(std::size_t chunk) const;
  // On the root, from the window of any other rank, who does not need it any more.
  [[nodiscard]] Task take(std::size_t chunk, int holder) const;
  // On the others, from the parent.
  [[nodiscard]] Task take(std::size_t chunk) const;

 private:
  [[nodiscard]] Board::Word& word(int owner, std::size_t chunk) const {
    return board_.relay_word(round_, owner, chunk);
  }

  Endpoint net_;
  Board& board_;
  const std::uint64_t round_;
  const RangeTree tree_;
  const Vector output_;
  const std::size_t chunk_;
  const bool past_cache_;
};

}  // namespace offbeat
