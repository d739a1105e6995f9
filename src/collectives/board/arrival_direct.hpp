// SPDX-License-Identifier: BSD-3-Clause
// Idea: direct exchange on the board. Each rank puts its blocks into its own window. It takes each block that
// it needs from the giver's window as soon as that block is there. This serves every collective in which
// blocks go from rank to rank, among the ranks of one node.
//
//     allgather   window of 0: A       rank 1 and 2 copy A
//                 window of 1: B       rank 0 and 2 copy B
//     alltoall    window of 0: A1 A2   rank 1 copies A1, rank 2 copies A2
//
// A rank leaves when it has put and taken everything. It waits for no other rank, unless its next call needs
// a window that others still read.
//
// If no block goes to several ranks, a giver's window has a channel for each of its takers. Chunks go through
// a channel as fast as its two ranks allow. Other long vectors go in rounds that fit the windows: in one
// round a rank's window holds one piece for all takers, or a piece of each block to be combined. A piece is
// cut into chunks, which are announced one by one.
//
// Cost: after the last arrival, the last rank's data once into its window, and once out of it by each taker;
// and whatever the last rank takes itself.
// Order: a reduce-scatter combines the pieces of a block in rank order, so the bits never depend on arrival.
#pragma once

#include "collectives/algorithm.hpp"
#include "collectives/board/arrival_direct/in_slots.hpp"
#include "collectives/board/arrival_direct/lists_at_root.hpp"
#include "collectives/board/arrival_direct/lists_in_slots.hpp"
#include "collectives/board/bruck_in_slots.hpp"
#include "collectives/board/immediate.hpp"
#include "collectives/board/tree_form.hpp"

namespace offbeat::direct {

// Runs a call of any length of one of these collectives, all but reduce and allreduce. A window must have
// room for one element for each rank.
[[nodiscard]] Task run(Endpoint net, Call call, const Expression& self);
// See Algorithm::lease.
[[nodiscard]] std::size_t lease(const Call& call, int rank, int ranks);

// Returns the immediate form for one collective.
template <Collective collective>
[[nodiscard]] constexpr const Immediate* immediate_form_of() {
  constexpr bool has_tree = collective == Collective::bcast || collective == Collective::gather ||
                            collective == Collective::scatter;
  if constexpr (collective == Collective::alltoallv) {
    return &immediate<ListsInSlots>;
  } else if constexpr (collectives_with_lists_at_root.contain(collective)) {
    return &immediate<ListsAtRoot>;
  } else if constexpr (collective == Collective::allgather) {
    return &immediate<InSlots<collective>, &allgather_algorithms::bruck_in_slots>;
  } else if constexpr (has_tree) {
    return &immediate<InSlots<collective>, form_for_many_ranks<collective>>;
  } else {
    return &immediate<InSlots<collective>>;
  }
}

// Returns the algorithm arrival_direct for one collective.
template <Collective collective>
[[nodiscard]] constexpr Algorithm arrival_direct_of() {
  return {
      .name = "arrival_direct",
      .summary =
          "each rank takes what it needs from the others' windows as soon as it is there; ranks on one node",
      .cost = "n bytes into a window and out of it, at memory speed, after the last arrival",
      .serves = {collective},
      .needs = {.board = OnBoard::one_node},
      .source = "offbeat",
      .immediate = immediate_form_of<collective>(),
      .lease = lease,
      .run = run,
  };
}

}  // namespace offbeat::direct
