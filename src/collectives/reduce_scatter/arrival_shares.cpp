// SPDX-License-Identifier: BSD-3-Clause
// Idea: the shares of an allreduce. When they are combined, each rank copies its block from those who have
// it. A vector that fits a slot goes the way of a short allreduce, and each rank keeps its block. In
// arrival_direct each rank reads from all others, which among many takes longer than the whole allreduce.
//
// Cost: a rank puts n bytes, reads n of its group's inputs, n/4, n/16 ... from larger groups, and n/p of the
// result. So few bytes move also if ranks share cores.
// Order: that of the allreduce, so each rank gets the bits that an allreduce gives.
// Source: ours.
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/reduce_scatter/reduce_scatter.hpp"
#include "node/board_shape.hpp"

namespace offbeat::reduce_scatter_algorithms {
namespace {

Task by_short_allreduce(Endpoint net, Call call) {
  const Scratch memory = net.scratch(call.input.count, call.input.width);
  Expression allreduce;
  allreduce.algorithm = &allreduce_algorithms::arrival_shares;
  co_await carry_out(net, {call.collective, call.input, memory.vector(), call.op}, allreduce);
  co_await net.copy(call.output,
                    call.input_blocks.block_of(ConstVector(memory.vector()), net.rank, net.size));
}

Task by_shares(Endpoint net, Call call) {
  const std::size_t count = call.output.count;
  const auto begin =
      static_cast<std::ptrdiff_t>(call.input_blocks.begin_of_block(call.input.count, net.rank, net.size));
  const BlockList own{&count, &begin};
  co_await allreduce_algorithms::scatter_by_shares(net, call, own, 1);
}

Task run(Endpoint net, Call call, const Expression&) {
  return call.input.bytes() <= BoardShape::inline_bytes ? by_short_allreduce(net, call)
                                                        : by_shares(net, call);
}

}  // namespace

const Algorithm arrival_shares{
    .name = "arrival_shares",
    .summary = "groups of ranks combine a share each, level by level; ranks on one node, any size",
    .cost = "3n at memory speed after the last arrival, most of it near",
    .serves = {Collective::reduce_scatter, Collective::reduce_scatter_block},
    .needs = {.board = OnBoard::one_node},
    .source = "offbeat",
    .lease = [](const Call& call, int, int) { return call.input.bytes(); },
    .run = run,
};

}  // namespace offbeat::reduce_scatter_algorithms
