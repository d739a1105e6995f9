// SPDX-License-Identifier: BSD-3-Clause
// Arrival tree, as in an allreduce, for the root alone: whoever is not the root gives and leaves, and a late
// root finds all that can be combined without it combined. One that is there waits for its neighbour, where
// that one has begun, and combines into its result; so of two ranks that come together the root puts nothing
// on the board.
//
// Cost of the last arrival and order: those of the allreduce, so the root has the bits that an allreduce has.
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/board/arrival_direct.hpp"
#include "collectives/board/board_round.hpp"
#include "collectives/board/tree_form.hpp"
#include "collectives/reduce/reduce.hpp"

namespace offbeat::reduce_algorithms {
namespace {

Task one_round(const BoardRound& round) {
  const NodePhase contribute = allreduce_algorithms::arrival_tree.node_phase;
  if (round.net.rank == round.call.root) return contribute_and_collect(round, contribute);
  return contribute_only(round, contribute);
}

Task run(Endpoint net, Call call, const Expression&) {
  return in_rounds(net, call, net.board()->at_once, one_round);
}

}  // namespace

const Algorithm arrival_tree{
    .name = "arrival_tree",
    .summary = "a tree fixed by rank, its work done by who arrives second; ranks on one node, any size",
    .cost = "n bytes at memory speed for each of log2(p) levels after the last arrival",
    .serves = {Collective::reduce},
    .needs = {.board = OnBoard::one_node},
    .source = "offbeat",
    .immediate = &immediate<direct::InSlots<Collective::reduce>, for_many_ranks<Collective::reduce>>,
    .run = run,
};

}  // namespace offbeat::reduce_algorithms
