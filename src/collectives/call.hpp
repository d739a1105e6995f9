// SPDX-License-Identifier: BSD-3-Clause
// Call describes one call of a collective on one rank, as an algorithm sees it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/collective.hpp"
#include "reduction/reduction.hpp"
#include "transport/vector.hpp"

namespace offbeat {

// A Stripe selects elements [first, first + length) of a vector, or fewer if the vector ends earlier.
struct Stripe {
  std::size_t first = 0;
  std::size_t length = std::numeric_limits<std::size_t>::max();

  template <class AnyVector>
  [[nodiscard]] AnyVector part_of(const AnyVector& vector) const {
    const std::size_t begin = std::min(first, vector.count);
    return vector.slice(begin, std::min(length, vector.count - begin));
  }
  // Returns the stripe `inner` of the elements that this stripe selects.
  [[nodiscard]] Stripe part_of(const Stripe& inner) const {
    const std::size_t begin = std::min(inner.first, length);
    return {first + begin, std::min(inner.length, length - begin)};
  }
};

// BlockList says where each rank's block lies in a vector. Without `counts` the blocks follow one another in
// rank order and have equal lengths. If the vector cannot be cut evenly, the first blocks are one element
// longer.
struct BlockList {
  const std::size_t* counts = nullptr;     // elements in each block
  const std::ptrdiff_t* begins = nullptr;  // offset of each block, in elements; may be negative
  Stripe stripe{};                         // which part of each block

  // Returns the block of `rank` in `vector`, which has the blocks of `ranks` ranks.
  template <class AnyVector>
  [[nodiscard]] AnyVector block_of(const AnyVector& vector, int rank, int ranks) const {
    const auto index = static_cast<std::size_t>(rank);
    if (counts == nullptr) return stripe.part_of(vector.block(ranks, rank));
    const std::ptrdiff_t begin = begins[index] * static_cast<std::ptrdiff_t>(vector.width);
    return stripe.part_of(
        AnyVector{vector.data == nullptr ? nullptr : vector.data + begin, counts[index], vector.width});
  }

  // Returns the first element of the block of `rank` among `count` elements, without a stripe.
  [[nodiscard]] std::size_t begin_of_block(std::size_t count, int rank, int ranks) const {
    return begins != nullptr ? static_cast<std::size_t>(begins[rank]) : block_begin(count, ranks, rank);
  }

  // Returns blocks [first, first + number) as one view. They must follow one another, without stripes.
  template <class AnyVector>
  [[nodiscard]] AnyVector consecutive_blocks(const AnyVector& vector, int first, int number,
                                             int ranks) const {
    if (counts == nullptr) return vector.blocks(ranks, first, number);
    if (number == 0) return vector.slice(0, 0);
    AnyVector all = block_of(vector, first, ranks);
    for (int rank = first + 1; rank < first + number; ++rank) all.count += counts[rank];
    return all;
  }

  // Returns the number of elements in the longest block. Only valid if there are `counts`.
  [[nodiscard]] std::size_t longest(int ranks) const { return *std::max_element(counts, counts + ranks); }

  // Returns the view from the first element of any block to the last one, including what lies between blocks.
  template <class AnyVector>
  [[nodiscard]] AnyVector span_of_blocks(const AnyVector& vector, int ranks) const {
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

// One call, as one rank sees it. If the collective combines nothing, the vectors are bytes: elements of
// width 1.
//
//     collective               input                             output
//     allreduce                n                                 n
//     reduce                   n                                 n; has memory on the root only
//     scan                     n                                 n
//     exscan                   n                                 n; has memory on all ranks but rank 0
//     bcast                    n on the root: the output itself  n
//     gather                   a block                           a block of each rank, on the root
//     scatter                  a block for each rank, on root    a block
//     allgather, allgatherv    a block                           a block of each rank
//     alltoall, alltoallv      a block for each rank             a block of each rank
//     reduce_scatter(_block)   a block for each rank             its own block, combined
//
// gatherv and scatterv are as gather and scatter, with blocks of any lengths. Only the root has their lists.
// As a part of another collective, a gather or scatter may have `counts`, which are then equal on all ranks.
//
// In a scatter the root's output may have no memory: the root then does not want its block. An input block
// and the output block that it becomes are the same memory (in place) or do not overlap. An algorithm may use
// the output for partial results before it is final.
struct Call {
  Collective collective;
  ConstVector input;
  Vector output;
  const Reduction* op;  // null if the collective combines nothing
  int root;
  // Unless a collective has_unknown_length(), these are equal on all ranks, but for the `begins` of outputs.
  BlockList input_blocks;
  BlockList output_blocks;

  // GCC clears an aggregate of this size by `rep stos`, which takes longer than a short call has for it.
  constexpr Call(Collective which = {}, const ConstVector& from = {}, const Vector& to = {},
                 const Reduction* reduction = nullptr, int root_rank = 0, const BlockList& from_blocks = {},
                 const BlockList& to_blocks = {})
      : collective(which),
        input(from),
        output(to),
        op(reduction),
        root(root_rank),
        input_blocks(from_blocks),
        output_blocks(to_blocks) {}

  // Returns this call with other vectors: parts of its own, or intermediate results.
  [[nodiscard]] Call with_input_and_output(ConstVector other_input, Vector other_output) const {
    Call other = *this;
    other.input = other_input;
    other.output = other_output;
    return other;
  }

  // Returns true if the blocks may differ in length. All ranks get the same answer.
  [[nodiscard]] bool has_lists() const {
    return input_blocks.counts != nullptr || output_blocks.counts != nullptr;
  }

  // Returns the bytes by which algorithms are chosen; equal on all ranks. This is the length of the vector,
  // or of one block if all blocks are equal. If blocks differ, it is the length of all blocks together, and
  // in gather and scatter that of the longest block. It is 0 if it is unknown (has_unknown_length()).
  [[nodiscard]] std::size_t length(int ranks) const {
    switch (collective) {
      case Collective::gather:
        if (output_blocks.counts != nullptr) return output_blocks.longest(ranks) * output.width;
        return input.bytes();
      case Collective::scatter:
        if (input_blocks.counts != nullptr) return input_blocks.longest(ranks) * output.width;
        return output.bytes();
      case Collective::allgather:
        return input.bytes();
      case Collective::alltoall:
        return input.bytes() / static_cast<std::size_t>(ranks);
      case Collective::reduce_scatter:
        return input.bytes();
      case Collective::alltoallv:
      case Collective::gatherv:
      case Collective::scatterv:
        return 0;
      default:
        return output.bytes();
    }
  }
};

}  // namespace offbeat
