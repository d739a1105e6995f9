// SPDX-License-Identifier: BSD-3-Clause
// Idea: a ring reduce-scatter, then a ring allgather.
// Cost: 2(p-1) a + 2n(p-1)/p b + n(p-1)/p c: the fewest bytes, neighbours only, but linear latency.
// Other sizes: any p.
// Order: block b is combined in the order b+1, b+2, ..., b, on whichever rank it is used.
// Source: Patarasuk and Yuan, JPDC 69(2), 2009; Castelló et al. 2021, section 3.
#include "collectives/allgather/allgather.hpp"
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/reduce_scatter/reduce_scatter.hpp"

namespace offbeat::allreduce_algorithms {
namespace {

Task run(Endpoint net, Call call, const Expression&) {
  const Vector own = call.output.block(net.size, net.rank);
  co_await striped_reduce_scatter::ring(net, call.with_input_and_output(call.input, own));
  co_await allgather_in_place::ring(net, call.output);
}

}  // namespace

const Algorithm ring{
    .name = "ring",
    .summary = "ring reduce-scatter, then ring allgather; large messages",
    .cost = "2(p-1) a + 2n(p-1)/p b + n(p-1)/p c, u = n(p-1)/p (b + max(b, c))",
    .serves = {Collective::allreduce},
    .source = "Patarasuk and Yuan 2009",
    .run = run,
};

}  // namespace offbeat::allreduce_algorithms
