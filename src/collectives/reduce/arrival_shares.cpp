// SPDX-License-Identifier: BSD-3-Clause
// Idea: the shares of an allreduce. On the way back, only those ranks pass results on from whom the root
// takes them: at most 4, then 16, and so on. All others leave when their shares are combined. Cost: a rank
// puts n bytes and reads n of its group's inputs, and n/4, n/16 ... from larger groups. The root reads n of
// results, most of them from its group. Order: that of the allreduce, so the root gets the bits that an
// allreduce gives. Source: ours.
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/board/arrival_direct.hpp"
#include "collectives/board/tree_form.hpp"
#include "collectives/reduce/reduce.hpp"

namespace offbeat::reduce_algorithms {
namespace {

Task run(Endpoint net, Call call, const Expression& self) {
  const Board& board = *net.board();
  if (board.concurrent_ranks < board.size) return arrival_tree.run(net, call, self);
  return allreduce_algorithms::run_by_shares(net, call);
}

}  // namespace

const Algorithm arrival_shares{
    .name = "arrival_shares",
    .summary = "groups of ranks combine a share each, level by level; ranks on one node, any size",
    .cost = "3n at memory speed after the last arrival, most of it near",
    .serves = {Collective::reduce},
    .needs = {.board = OnBoard::one_node},
    .source = "offbeat",
    .order = allreduce_algorithms::tree_order,
    .immediate =
        &immediate_and_longer<direct::InSlots<Collective::reduce>, form_for_many_ranks<Collective::reduce>>,
    .run = run,
};

}  // namespace offbeat::reduce_algorithms
