// SPDX-License-Identifier: BSD-3-Clause
// Idea: in step i each rank tells the ranks K^i, 2 K^i, ... (K-1) K^i to its right that it has arrived, and
// that all ranks from which it has heard have arrived. `dissemination` is the algorithm with K = 2.
//
//     p = 5    step 0: 0->1 1->2 2->3 3->4 4->0
//              step 1: 0->2 1->3 2->4 3->0 4->1
//              step 2: 0->4 1->0 2->1 3->2 4->3
//
// Cost: ceil(log_K(p)) a.
// Other sizes: any p.
// Source: Hensgen, Finkel, Manber 1988; Hoefler et al., IPDPS 2006 (several messages at once).
#include <algorithm>

#include "collectives/barrier/barrier.hpp"

namespace offbeat::barrier_algorithms {
namespace {

// Sends a sign to one rank, and waits for that of another.
Task exchange_signs(Endpoint net, int to, int from) {
  // A message of zero bytes would not be sent.
  std::byte sign{1};
  std::byte theirs{0};
  co_await net.exchange(to, ConstVector{&sign, 1, 1}, from, Vector{&theirs, 1, 1});
}

Task run_with(Endpoint net, int radix) {
  const int p = net.size;
  for (int distance = 1; distance < p; distance *= radix) {
    co_await net.concurrently_on_shared_lanes(
        std::min(radix - 1, (p - 1) / distance), [&](const Endpoint& same, int k) {
          const int away = (k + 1) * distance;
          return exchange_signs(same, (net.rank + away) % p, (net.rank + p - away) % p);
        });
  }
}

constexpr Parameter parameters[] = {Parameter::radix};

}  // namespace

const Algorithm dissemination{
    .name = "dissemination",
    .summary =
        "in step i each rank tells the rank 2^i to its right that all ranks it has heard of have arrived",
    .cost = "ceil(log2(p)) a",
    .serves = {Collective::barrier},
    .source = "Hensgen, Finkel, Manber 1988",
    .run = [](Endpoint net, Call, const Expression&) { return run_with(net, 2); },
};

const Algorithm k_dissemination{
    .name = "k_dissemination",
    .summary = "log_K(p) steps, in each of which a rank tells K - 1 others who has arrived",
    .cost = "ceil(log2 p/log2 K) a",
    .serves = {Collective::barrier},
    .source = "Hoefler et al. 2006",
    .parameters = parameters,
    .run = [](Endpoint net, Call, const Expression& self) { return run_with(net, self.radix); },
};

}  // namespace offbeat::barrier_algorithms
