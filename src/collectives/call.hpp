// SPDX-License-Identifier: BSD-3-Clause
// One call of a collective on one rank, as an algorithm sees it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/collective.hpp"
#include "reduction/reduction.hpp"
#include "transport/vector.hpp"

namespace offbeat {

// The elements [first, first + length) of a vector, as far as it has them.
struct Stripe {
  std::size_t first = 0;
  std::size_t length = std::numeric_limits<std::size_t>::max();

  template <class AnyVector>
  [[nodiscard]] AnyVector of(const AnyVector& vector) const {
    const std::size_t begin = std::min(first, vector.count);
    return vector.slice(begin, std::min(length, vector.count - begin));
  }
  // A stripe of what this stripe leaves.
  [[nodiscard]] Stripe of(const Stripe& inner) const {
    const std::size_t begin = std::min(inner.first, length);
    return {first + begin, std::min(inner.length, length - begin)};
  }
};

// The blocks of all ranks in a vector. Without lists they follow one another and are equal, or nearly so
// where a vector cannot be cut evenly.
struct BlockList {
  const std::size_t* counts = nullptr;     // elements of each
  const std::ptrdiff_t* begins = nullptr;  // elements before each; may be negative, and in any order
  Stripe stripe{};                         // what of each block is meant

  // Block `rank` of `ranks` in `vector`.
  template <class AnyVector>
  [[nodiscard]] AnyVector of(const AnyVector& vector, int rank, int ranks) const {
    const auto index = static_cast<std::size_t>(rank);
    if (counts == nullptr) return stripe.of(vector.block(ranks, rank));
    const std::ptrdiff_t begin = begins[index] * static_cast<std::ptrdiff_t>(vector.width);
    return stripe.of(
        AnyVector{vector.data == nullptr ? nullptr : vector.data + begin, counts[index], vector.width});
  }

  // Blocks [first, first + number), which must follow one another; not stripes of them.
  template <class AnyVector>
  [[nodiscard]] AnyVector several(const AnyVector& vector, int first, int number, int ranks) const {
    if (counts == nullptr) return vector.blocks(ranks, first, number);
    if (number == 0) return vector.slice(0, 0);
    AnyVector all = of(vector, first, ranks);
    for (int rank = first + 1; rank < first + number; ++rank) all.count += counts[rank];
    return all;
  }

  // The elements of the longest block; there are lists.
  [[nodiscard]] std::size_t longest(int ranks) const { return *std::max_element(counts, counts + ranks); }

  // From the first element of all blocks to behind the last one: those between blocks are in it, too.
  template <class AnyVector>
  [[nodiscard]] AnyVector span(const AnyVector& vector, int ranks) const {
    if (counts == nullptr || vector.count == 0) return vector;
    std::ptrdiff_t first = std::numeric_limits<std::ptrdiff_t>::max();
    std::ptrdiff_t last = std::numeric_limits<std::ptrdiff_t>::min();
    for (std::size_t k = 0; k < static_cast<std::size_t>(ranks); ++k) {
      if (counts[k] == 0) continue;
      first = std::min(first, begins[k]);
      last = std::max(last, begins[k] + static_cast<std::ptrdiff_t>(counts[k]));
    }
    return {vector.data + first * static_cast<std::ptrdiff_t>(vector.width),
            static_cast<std::size_t>(last - first), vector.width};
  }
};

// The vectors of a rank. Bytes where nothing is combined: elements of width 1.
//
//     collective               input                             output
//     allreduce                n                                 n
//     reduce                   n                                 n; without memory but on the root
//     bcast                    n on the root, the output itself  n
//     gather                   a block                           a block of each rank, on the root
//     scatter                  a block for each rank, root       a block
//     allgather, allgatherv    a block                           a block of each rank
//     alltoall, alltoallv      a block for each rank             a block of each rank
//     reduce_scatter(_block)   a block for each rank             its own block, combined
//     gatherv, scatterv        as gather and scatter, with lists on every rank; parts of other collectives
//     only
//
// In a scatter the root's output may have no memory: it does not want its block.
// A block of the input and the block that it becomes are either the same memory (in place) or do not overlap.
// An output may be used for partial results before it is final.
struct Call {
  Collective collective;
  ConstVector input{};
  Vector output{};
  const Reduction* op = nullptr;  // null: the collective has none
  int root = 0;
  BlockList input_blocks{};   // equal on all ranks, but in alltoallv
  BlockList output_blocks{};  // their counts likewise

  // The same call on other vectors: a part of these, or intermediate results.
  [[nodiscard]] Call with(ConstVector other_input, Vector other_output) const {
    Call other = *this;
    other.input = other_input;
    other.output = other_output;
    return other;
  }

  // The same on all ranks.
  [[nodiscard]] bool has_lists() const {
    return input_blocks.counts != nullptr || output_blocks.counts != nullptr;
  }

  // The bytes by which algorithms are chosen, the same on all ranks: those of the vector, of a block where
  // all are equal, of all blocks where they are not, of the longest one in gatherv and scatterv; 0 where
  // ranks do not know that of one another.
  [[nodiscard]] std::size_t length(int ranks) const {
    switch (collective) {
      case Collective::allgather:
      case Collective::gather:
        return input.bytes();
      case Collective::alltoall:
        return input.bytes() / static_cast<std::size_t>(ranks);
      case Collective::reduce_scatter:
        return input.bytes();
      case Collective::alltoallv:
        return 0;
      case Collective::gatherv:
        return output_blocks.longest(ranks) * output.width;
      case Collective::scatterv:
        return input_blocks.longest(ranks) * output.width;
      default:
        return output.bytes();
    }
  }
};

}  // namespace offbeat
