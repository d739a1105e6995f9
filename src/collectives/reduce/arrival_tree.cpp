// SPDX-License-Identifier: BSD-3-Clause
// Idea: the arrival tree of an allreduce, for the root alone. A rank that is not the root gives its data and
// leaves, and a late root finds everything combined that does not need its data. A root that is there waits
// for its neighbour, if that one has begun, and combines into its result. So of two ranks that come together
// the root puts nothing on the board.
// Cost: that of the allreduce after the last arrival.
// Order: that of the allreduce, so the root gets the bits that an allreduce gives.
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/board/arrival_direct.hpp"
#include "collectives/board/board_round.hpp"
#include "collectives/board/tree_form.hpp"
#include "collectives/reduce/reduce.hpp"

namespace offbeat::reduce_algorithms {
namespace {

Task run_round(const BoardRound& round) {
  const NodePhase contribute = allreduce_algorithms::arrival_tree.node_phase;
  if (round.net.rank == round.call.root) return contribute_and_collect(round, contribute);
  return contribute_only(round, contribute);
}

Task run(Endpoint net, Call call, const Expression&) {
  return run_in_rounds(net, call, chunk_bytes_among(call, net.board()->concurrent_ranks), run_round);
}

}  // namespace

const Algorithm arrival_tree{
    .name = "arrival_tree",
    .summary =
        "a tree fixed by rank, in which the second to arrive does the work; ranks on one node, any size",
    .cost = "n bytes at memory speed for each of log2(p) levels after the last arrival",
    .serves = {Collective::reduce},
    .needs = {.board = OnBoard::one_node},
    .source = "offbeat",
    .order = allreduce_algorithms::tree_order,
    .immediate =
        &immediate_and_longer<direct::InSlots<Collective::reduce>, form_for_many_ranks<Collective::reduce>>,
    .run = run,
};

}  // namespace offbeat::reduce_algorithms
