// SPDX-License-Identifier: BSD-3-Clause
// Idea: the reduce-scatter of `ring` runs in segments of at most BYTES of each block, with two segments in
// flight. One is combined while the other travels. Then a ring allgather moves whole blocks.
// Cost: (p-1)(s a + m max(b, c)) + (p-1)(a + m b), with m = n/p bytes in a block and s = ceil(m / BYTES)
// segments. A core that combines also spends time on the messages of each segment (v).
// Other sizes: any p.
// Source: Nuriyev et al. 2024 (SUARA), section 4; the two phases are Open MPI's.
#include <algorithm>

#include "collectives/allgather/allgather.hpp"
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/reduce_scatter/reduce_scatter.hpp"

namespace offbeat::allreduce_algorithms {
namespace {

constexpr int in_flight = 2;
constexpr Parameter parameters[] = {Parameter::bytes};

// Runs the reduce-scatter of segments `first`, `first` + in_flight and so on, one after the other.
Task reduce_scatter_segments(Endpoint net, Call call, std::size_t segment, std::size_t first) {
  const Call scattered = call.with_input_and_output(call.input, call.output.block(net.size, net.rank));
  const std::size_t block = call.input.block(net.size, 0).count;
  for (std::size_t begin = first * segment; begin < block; begin += in_flight * segment) {
    co_await striped_reduce_scatter::ring(net, scattered, {.first = begin, .length = segment});
  }
}

Task run(Endpoint net, Call call, const Expression& self) {
  const std::size_t segment = std::max<std::size_t>(1, self.bytes / call.input.width);
  co_await net.concurrently(in_flight, [&](const Endpoint& lane, int k) {
    return reduce_scatter_segments(lane, call, segment, static_cast<std::size_t>(k));
  });
  co_await allgather_in_place::ring(net, call.output);
}

}  // namespace

const Algorithm ring_segmented{
    .name = "ring_segmented",
    .summary = "ring whose reduce-scatter overlaps sending and combining, BYTES at a time; large messages",
    .cost =
        "(p-1)((k-[s=2k]) max(x, 2y) + [s=2k] max(x, y+z) + (s-2k) (a + r(b + c)) + a + n/p b) + [s=2k] "
        "(x + z - max(x, y+z)), x = a + g(b + c), y = max(gb, gc + v), z = max(rb, rc + v), g = min(n/p, "
        "BYTES), r = n/p - (s-1) g, s = ceil(n/p/BYTES), k = floor(s/2)",
    .serves = {Collective::allreduce},
    .source = "Nuriyev et al. 2024",
    .parameters = parameters,
    .run = run,
    .lanes = [](const Expression&) { return in_flight; },
};

}  // namespace offbeat::allreduce_algorithms
