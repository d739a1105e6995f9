// SPDX-License-Identifier: BSD-3-Clause
// Idea: in step i each rank tells the rank 2^i to its right that it has arrived, and that all ranks from
// which it has heard have arrived.
//
//     p = 5    step 0: 0->1 1->2 2->3 3->4 4->0
//              step 1: 0->2 1->3 2->4 3->0 4->1
//              step 2: 0->4 1->0 2->1 3->2 4->3
//
// Cost: ceil(log2(p)) a.
// Other sizes: any p.
// Source: Hensgen, Finkel, Manber 1988.
#include "collectives/barrier/barrier.hpp"

namespace offbeat::barrier_algorithms {
namespace {

Task run(Endpoint net, Call, const Expression&) {
  // A message of zero bytes would not be sent.
  std::byte sign{1};
  std::byte theirs{0};
  for (int distance = 1; distance < net.size; distance *= 2) {
    const int right = (net.rank + distance) % net.size;
    const int left = (net.rank + net.size - distance) % net.size;
    co_await net.exchange(right, ConstVector{&sign, 1, 1}, left, Vector{&theirs, 1, 1});
  }
}

}  // namespace

const Algorithm dissemination{
    .name = "dissemination",
    .summary =
        "in step i each rank tells the rank 2^i to its right that all ranks it has heard of have arrived",
    .cost = "ceil(log2(p)) a",
    .serves = {Collective::barrier},
    .source = "Hensgen, Finkel, Manber 1988",
    .run = run,
};

}  // namespace offbeat::barrier_algorithms
