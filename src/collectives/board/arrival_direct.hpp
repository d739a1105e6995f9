// SPDX-License-Identifier: BSD-3-Clause
// Direct exchange on the board: each rank puts what it gives into its own window, and takes what it needs
// from the windows of the others, from each as soon as it is there. For every collective in which blocks go
// from rank to rank, among the ranks of one node.
//
//     allgather   window of 0: A       rank 1 and 2 copy A
//                 window of 1: B       rank 0 and 2 copy B
//     alltoall    window of 0: A1 A2   rank 1 copies A1, rank 2 copies A2
//
// A rank leaves when it has put and taken everything; it waits for nobody else, unless its next call needs a
// window that others still read. In a reduce-scatter it combines the pieces of its block in rank order, so
// the bits never depend on arrival.
//
// Where no block goes to several ranks, a giver's window has a channel for each of its takers, and chunks go
// through each as fast as these two ranks come along. Other long vectors go in rounds that fit the windows:
// in a round a rank's window has one piece for all takers, or a piece of each block to be combined, cut into
// chunks that are announced one by one.
//
// Cost of the last arrival: its own data once into its window, and once out of it by the others; what it
// takes.
#pragma once

#include "collectives/algorithm.hpp"
#include "collectives/board/arrival_direct/in_slots.hpp"
#include "collectives/board/arrival_direct/lists_in_slots.hpp"
#include "collectives/board/bruck_in_slots.hpp"
#include "collectives/board/immediate.hpp"
#include "collectives/board/tree_form.hpp"

namespace offbeat::direct {

// Any length; every collective in which a block goes from rank to rank, so not reduce and allreduce. A window
// has room for an element for each rank.
[[nodiscard]] Task run(Endpoint net, Call call, const Expression& self);
// See Algorithm::lease.
[[nodiscard]] std::size_t lease(const Call& call, int rank, int ranks);

// The immediate form for one collective.
template <Collective collective>
[[nodiscard]] constexpr const Immediate* immediate_of() {
  constexpr bool has_tree = collective == Collective::bcast || collective == Collective::gather ||
                            collective == Collective::scatter;
  if constexpr (collective == Collective::alltoallv) {
    return &immediate<ListsInSlots>;
  } else if constexpr (collective == Collective::allgather) {
    return &immediate<InSlots<collective>, &allgather_algorithms::bruck_in_slots>;
  } else if constexpr (has_tree) {
    return &immediate<InSlots<collective>, for_many_ranks<collective>>;
  } else {
    return &immediate<InSlots<collective>>;
  }
}

// arrival_direct for one collective.
template <Collective collective>
[[nodiscard]] constexpr Algorithm serving() {
  return {
      .name = "arrival_direct",
      .summary = "through windows, each rank taking what it needs as soon as it is there; ranks on one node",
      .cost = "n bytes into a window and out of it, at memory speed, after the last arrival",
      .serves = {collective},
      .needs = {.board = OnBoard::one_node},
      .source = "offbeat",
      .immediate = immediate_of<collective>(),
      .lease = lease,
      .run = run,
  };
}

}  // namespace offbeat::direct
