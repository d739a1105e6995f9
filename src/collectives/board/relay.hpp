// SPDX-License-Identifier: BSD-3-Clause
// Idea: a long vector in one window of the board goes to many ranks along a binary tree (RangeTree), chunk by
// chunk.
//
// A rank waits for a chunk of its parent. It copies the chunk into its own window, where its children find
// it, and then to its output. So at most two ranks wait for a word or read a window, and the chunks follow
// one another down the tree as through a pipeline. With few ranks the second copy costs more than this saves.
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
  // Relays a vector from `root` in the present round. `chunk` is a number of elements. `root` and `chunk` are
  // equal on all ranks. Each rank passes its own output; all have one length.
  Relay(const Endpoint& net, int root, Vector output, std::size_t chunk, bool past_cache)
      : net_(net),
        board_(*net.board()),
        tag_(board_.round.tag),
        tree_(net.rank, net.size, root),
        output_(output),
        chunk_(chunk),
        past_cache_(past_cache) {}

  [[nodiscard]] const RangeTree& tree() const { return tree_; }
  [[nodiscard]] std::size_t chunks() const { return (output_.count + chunk_ - 1) / chunk_; }
  template <class AnyVector>
  [[nodiscard]] AnyVector chunk_of(const AnyVector& vector, std::size_t chunk) const {
    return vector.slice(chunk * chunk_, std::min(chunk_, output_.count - chunk * chunk_));
  }
  [[nodiscard]] Vector chunk_on_board(int owner, std::size_t chunk) const {
    return chunk_of(Vector{board_.window(tag_, owner), output_.count, output_.width}, chunk);
  }

  // Announces a chunk that is in the root's own window. Only the root calls this.
  [[nodiscard]] Task announce(std::size_t chunk) const;
  // Takes a chunk from the parent. All ranks but the root call this.
  [[nodiscard]] Task take(std::size_t chunk) const;

 private:
  [[nodiscard]] Board::Word& word(int owner, std::size_t chunk) const {
    return board_.relay_word(tag_, owner, chunk);
  }

  Endpoint net_;
  Board& board_;
  const std::uint64_t tag_;
  const RangeTree tree_;
  const Vector output_;
  const std::size_t chunk_;
  const bool past_cache_;
};

}  // namespace offbeat
