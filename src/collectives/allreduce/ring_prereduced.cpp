// SPDX-License-Identifier: BSD-3-Clause
// Idea: rank RANK is late and is the last on the ring. Every block begins at the ring's first rank, instead
// of each at a different one. So the others have combined all their data when the late rank comes.
//
//   4 ranks, 3 is late    0 --> 1 --> 2 ..> 3     blocks 0, 1, 2, 3: sums, which wait before the late rank
//                         3 --> 0 --> 1 --> 2     the results
//
// Cost: after the late rank 2p (a + n/p b) + n c, as ring: what leaves it goes around once. If all come at
// once, (p-2)(a + n/p (b + c)) in addition.
// Order: the ranks behind RANK, modulo p, up to RANK; this is equal for all blocks.
// Prediction: none. In the paper a thread on each rank predicts its arrival, and the ring is sorted by that,
// with as many steps before the late ranks as there will be time for. Here the late rank is named, and all
// steps that do not need it come before it.
// Source: Proficz, Journal of Supercomputing 74(7), 2018.
#include "collectives/allreduce/allreduce.hpp"

namespace offbeat::allreduce_algorithms {
namespace {

// Runs the algorithm if the late rank is the last one.
Task run_with_last_rank_late(Endpoint net, Call call) {
  const int p = net.size;
  const int right = (net.rank + 1) % p;
  const int left = (net.rank + p - 1) % p;
  const auto block = [&](const auto& vector, int k, bool is_there) {
    return is_there && k >= 0 && k < p ? vector.block(p, k) : vector.slice(0, 0);
  };
  const bool is_first = net.rank == 0;
  const ConstVector sums = is_first ? call.input : ConstVector(call.output);
  const Scratch theirs = net.scratch(block(call.output, 0, true).count, call.output.width);
  for (int step = 0; step <= p; ++step) {
    const ConstVector mine = block(call.input, step, !is_first);
    co_await net.exchange(right, block(sums, step - 1, true), left, theirs.first(mine.count));
    co_await net.reduce(*call.op, block(call.output, step, !is_first), theirs.first(mine.count), mine);
  }
  if (net.rank == p - 1) co_return;
  const bool passes_on = net.rank < p - 2;
  for (int step = 0; step <= p; ++step) {
    co_await net.exchange(right, block(call.output, step - 1, passes_on), left,
                          block(call.output, step, true));
  }
}

Task run(Endpoint net, Call call, const Expression& self) {
  const Endpoint turned = rotated_to_late_rank_last(net, self);
  co_await run_with_last_rank_late(turned, call);
}

constexpr Parameter parameters[] = {Parameter::late_rank};

}  // namespace

const Algorithm ring_prereduced{
    .name = "ring_prereduced",
    .summary = "ring on which every block ends at rank RANK, which is late; large messages",
    .cost = "2p (a + n/p b) + nc, after RANK",
    .serves = {Collective::allreduce},
    .needs = {.ranks = least_ranks_with_late_rank, .ranks_text = "RANK + 1"},
    .source = "Proficz 2018",
    .parameters = parameters,
    .run = run,
};

}  // namespace offbeat::allreduce_algorithms
