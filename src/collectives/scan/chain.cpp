// SPDX-License-Identifier: BSD-3-Clause
// Idea: the prefix grows from rank to rank, and each rank keeps what it passes on.
//
//     p = 4     0 --x0--> 1 --x0+x1--> 2 --x0+x1+x2--> 3
//
// Cost: (p-1)(a + nb + nc). In s segments, as in pipeline(s, chain), all ranks work at once. Long vectors
// then cost little more than sending n or combining n, whichever is slower. In an exscan a rank passes on the
// same prefix but keeps the one that it received, so the last rank combines nothing: (p-1)(a + nb) + (p-2)nc.
// Other sizes: any p.
// Order: rank order, left to right. The prefix of a rank has the same bits for every p.
// Source: Open MPI's linear scan (coll_base_scan.c, coll_base_exscan.c).
#include "collectives/scan/scan.hpp"

namespace offbeat::scan_algorithms {
namespace {

Task run(Endpoint net, Call call, const Expression&) {
  const bool is_first = net.rank == 0;
  const bool is_last = net.rank + 1 == net.size;
  const std::size_t count = call.input.count;
  const Scratch before = net.scratch(is_first ? 0 : count, call.input.width);
  const Scratch sum = net.scratch(is_exclusive(call) && !is_first && !is_last ? count : 0, call.input.width);
  ConstVector prefix = call.input;
  if (!is_first) {
    co_await net.receive(net.rank - 1, before.vector());
    const Vector result = is_exclusive(call) ? sum.vector() : call.output;
    co_await net.reduce(*call.op, result, before.vector(), call.input);
    prefix = result;
  }
  if (!is_last) co_await net.send(net.rank + 1, prefix);
  if (!is_exclusive(call)) {
    if (is_first) co_await net.copy(call.output, call.input);
  } else if (!is_first) {
    co_await net.copy(call.output, before.vector());
  }
}

}  // namespace

const Algorithm chain{
    .name = "chain",
    .summary = "the prefix goes from rank to rank; long vectors in many segments",
    .cost = "(p-1)(a + nb + nc)",
    .serves = {Collective::scan, Collective::exscan},
    .source = "Open MPI's linear scan",
    .run = run,
};

}  // namespace offbeat::scan_algorithms
