// SPDX-License-Identifier: BSD-3-Clause
// Idea: every rank sends to the root. The root collects several vectors before it combines them, because one
// pass over eight operands reads the partial result once instead of seven times.
// Cost: (p-1)(a + nb + nc), so this is for very few ranks.
// Other sizes: any p.
// Order: counted from the root modulo p, left to right.
// Source: Open MPI's basic linear reduce (coll_base_reduce.c).
#include <algorithm>

#include "collectives/phases/from_root.hpp"
#include "collectives/reduce/reduce.hpp"

namespace offbeat {
namespace {

// Collected vectors should stay in a second-level cache.
constexpr std::size_t most_scratch_bytes = 1 << 20;

}  // namespace

Task reduce_to_rank_0::linear(Endpoint net, Call call) {
  if (net.rank != 0) {
    co_await net.send(0, call.input);
    co_return;
  }
  const std::size_t count = call.input.count;
  const std::size_t fitting = most_scratch_bytes / std::max<std::size_t>(1, call.input.bytes());
  const int batch = static_cast<int>(std::clamp<std::size_t>(
      fitting, 1,
      std::min<std::size_t>(Computation::most_operands - 1, static_cast<std::size_t>(net.size - 1))));
  const Scratch scratch = net.scratch(count * static_cast<std::size_t>(batch), call.input.width);
  ConstVector partial = call.input;
  for (int first = 1; first < net.size; first += batch) {
    const int received = std::min(batch, net.size - first);
    std::array<const void*, Computation::most_operands> operands{partial.data};
    for (int k = 0; k < received; ++k) {
      const Vector theirs = scratch.vector().slice(static_cast<std::size_t>(k) * count, count);
      co_await net.receive(first + k, theirs);
      operands[static_cast<std::size_t>(k) + 1] = theirs.data;
    }
    co_await net.reduce(*call.op, call.output, operands, static_cast<std::size_t>(received) + 1);
    partial = call.output;
  }
}

const Algorithm reduce_algorithms::linear{
    .name = "linear",
    .summary = "the root collects and combines; very few ranks",
    .cost =
        "w(p-1)(a + nb + nc) + (1-w)(a + nb + max((p-2) x + lnc, max((p-2-l) x + min(p-1, f+l) nc + lo,"
        " (f-1) x + (p-1) nc + (p-1-f) o))), x = max(nb, o), f = min(p-1, max(1, min(7, "
        "floor(2^20/n)))), l = p-1 - f(ceil((p-1)/f) - 1), k = 1",
    .serves = {Collective::reduce},
    .source = "Open MPI's basic linear reduce",
    .run = for_any_root<reduce_to_rank_0::linear>,
};

}  // namespace offbeat
