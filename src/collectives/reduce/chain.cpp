// SPDX-License-Identifier: BSD-3-Clause
// Idea: the partial result grows from rank to rank, from the last one to the root.
//
//     p = 4     3 --x3--> 2 --x2+x3--> 1 --x1+x2+x3--> 0
//
// Cost: (p-1)(a + nb + nc). In s segments, as in pipeline(s, chain), all ranks work at once. Long messages
// then cost little more than sending n or combining n, whichever is slower.
// Other sizes: any p.
// Order: counted from the root modulo p; the last two ranks are combined first.
// Source: Open MPI's reduce by chain (coll_base_reduce.c); Castelló et al. 2021 cut it.
#include "collectives/phases/from_root.hpp"
#include "collectives/reduce/reduce.hpp"

namespace offbeat::reduce_algorithms {
namespace {

Task run_to_rank_0(Endpoint net, Call call) {
  const bool is_last = net.rank + 1 == net.size;
  const Scratch theirs = net.scratch(is_last ? 0 : call.input.count, call.input.width);
  ConstVector sum = call.input;
  if (!is_last) {
    const Vector result = net.rank == 0 ? call.output : theirs.vector();
    co_await net.receive(net.rank + 1, theirs.vector());
    co_await net.reduce(*call.op, result, call.input, theirs.vector());
    sum = result;
  }
  if (net.rank > 0) co_await net.send(net.rank - 1, sum);
}

}  // namespace

const Algorithm chain{
    .name = "chain",
    .summary = "partial results go from rank to rank; long messages in many segments",
    .cost = "(p-1)(a + nb + nc), u = n max(b, c), k = 1",
    .serves = {Collective::reduce},
    .source = "Open MPI's reduce by chain",
    .order = "chain",
    .run = for_any_root<run_to_rank_0>,
};

}  // namespace offbeat::reduce_algorithms
