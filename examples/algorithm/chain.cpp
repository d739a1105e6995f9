// SPDX-License-Identifier: BSD-3-Clause
// Idea: the sum grows from rank to rank, and the result comes back the same way.
//
//   0 --x0--> 1 --x0+x1--> 2 --x0+x1+x2--> 3
//   0 <------ 1 <--------- 2 <------------ 3   the result
//
// Cost: (p-1)(2a + 2nb + nc), as linear; but each rank talks to two others only, and with many segments in
// flight, as in pipeline(64, chain), all of them work at once.
// Other sizes: any p.
// Order: rank order, left to right.
// Source: Open MPI's reduce and broadcast by chain (coll_base_reduce.c, coll_base_bcast.c).
#include "collectives/allreduce/allreduce.hpp"

namespace offbeat::allreduce_algorithms {
namespace {

Task run(Endpoint net, Call call, const Expression&) {
  const int previous = net.rank - 1;
  const int next = net.rank + 1;
  ConstVector sum = call.input;
  if (previous >= 0) {
    const Scratch before = net.scratch(call.input.count, call.input.width);
    co_await net.receive(previous, before.vector());
    co_await net.reduce(*call.op, call.output, before.vector(), call.input);
    sum = call.output;
  }
  if (next < net.size) {
    co_await net.send(next, sum);
    co_await net.receive(next, call.output);
  }
  if (previous >= 0) co_await net.send(previous, call.output);
}

}  // namespace

const Algorithm chain{
    .name = "chain",
    .summary = "partial sums from rank to rank, and the result back; long messages in many segments",
    .cost = "(p-1)(2a + 2nb + nc)",
    .serves = {Collective::allreduce},
    .source = "Open MPI's reduce and broadcast by chain",
    .run = run,
};

}  // namespace offbeat::allreduce_algorithms
