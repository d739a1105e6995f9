// SPDX-License-Identifier: BSD-3-Clause
// Idea: each block travels from its sender to its receiver in steps of j K^i ranks, one for each digit j of
// the distance, written with radix K. All blocks that take a step travel together. `bruck` is the algorithm
// with K = 2.
//
//   p = 4, from,to   rank 0        rank 1        rank 2        rank 3
//   turned           00 01 02 03   11 12 13 10   22 23 20 21   33 30 31 32   distance 0, 1, 2, 3
//   step 0           00 30 02 32   11 01 13 03   22 12 20 10   33 23 13 21   distances 1 and 3 have gone 1
//   step 1           00 30 20 10   11 01 31 21   22 12 02 32   33 23 13 03   distances 2 and 3 have gone 2
//
// A last copy puts the blocks in the order of their senders. The output holds the blocks that leave.
//
// Cost: ceil(log_K(p)) a + log_K(p) p(K-1)/K mb, m bytes in a block.
// Other sizes: any p; if it is not a power of K, there are fewer bytes.
// Source: Bruck, Ho, Kipnis, Upfal and Weathersby, IEEE TPDS 8(11), 1997: K - 1 is their number of ports.
#include <algorithm>

#include "collectives/alltoall/alltoall.hpp"
#include "collectives/phases/exchange.hpp"

namespace offbeat::alltoall_algorithms {
namespace {

// Returns how many blocks below p have `digit` before `unit`, a power of the radix, in their number.
int blocks_with(int digit, int unit, int radix, int p) {
  int number = 0;
  for (int first = digit * unit; first < p; first += radix * unit) number += std::min(unit, p - first);
  return number;
}

Task run_with(Endpoint net, Call call, int radix) {
  const int p = net.size;
  const std::size_t width = call.input.width;
  const Scratch scratch = net.scratch(call.input.count, width);
  const Vector& turned = scratch.vector();  // block k: the one that is k ranks away from where it will be
  const Scratch memory = net.scratch(call.input.count, width);
  const Vector& arrived = memory.vector();
  const int until_last = p - net.rank;
  co_await net.copy(turned.blocks(p, 0, until_last), call.input.blocks(p, net.rank, until_last));
  co_await net.copy(turned.blocks(p, until_last, net.rank), call.input.blocks(p, 0, net.rank));
  for (int unit = 1; unit < p; unit *= radix) {
    const int digits = std::min(radix, (p - 1) / unit + 1);
    // The blocks with a digit lie behind those with smaller ones.
    const auto begin = [&](int digit) {
      int before = 0;
      for (int smaller = 1; smaller < digit; ++smaller) before += blocks_with(smaller, unit, radix, p);
      return before;
    };
    const auto travelling = [&](const auto& vector, int digit) {
      return vector.blocks(p, begin(digit), blocks_with(digit, unit, radix, p));
    };
    int number = 0;
    for (int digit = 1; digit < digits; ++digit) {
      for (int first = digit * unit; first < p; first += radix * unit) {
        const int together = std::min(unit, p - first);
        co_await net.copy(call.output.blocks(p, number, together), turned.blocks(p, first, together));
        number += together;
      }
    }
    co_await net.concurrently_on_shared_lanes(digits - 1, [&](const Endpoint& same, int k) {
      const int distance = (k + 1) * unit;
      return exchange(same, (net.rank + distance) % p, travelling(call.output, k + 1),
                      (net.rank + p - distance) % p, travelling(arrived, k + 1));
    });
    number = 0;
    for (int digit = 1; digit < digits; ++digit) {
      for (int first = digit * unit; first < p; first += radix * unit) {
        const int together = std::min(unit, p - first);
        co_await net.copy(turned.blocks(p, first, together), arrived.blocks(p, number, together));
        number += together;
      }
    }
  }
  for (int distance = 0; distance < p; ++distance)
    co_await net.copy(call.output.block(p, (net.rank + p - distance) % p), turned.block(p, distance));
}

constexpr Parameter parameters[] = {Parameter::radix};

}  // namespace

const Algorithm bruck{
    .name = "bruck",
    .summary = "blocks travel together, in steps of powers of two; short blocks",
    .cost = "ceil(log2(p)) a + ones(p) mb, m bytes in a block",
    .serves = {Collective::alltoall},
    .source = "Bruck et al. 1997",
    .run = [](Endpoint net, Call call, const Expression&) { return run_with(net, call, 2); },
};

const Algorithm k_bruck{
    .name = "k_bruck",
    .summary = "blocks travel together, in steps of multiples of powers of K; short blocks",
    .cost =
        "sum(i < ceil(log2 p/log2 K): a + (p - K^i floor(p/K^(i+1)) - min(K^i, p - K^(i+1) "
        "floor(p/K^(i+1)))) mb), m bytes in a block",
    .serves = {Collective::alltoall},
    .source = "Bruck et al. 1997",
    .parameters = parameters,
    .run = [](Endpoint net, Call call, const Expression& self) { return run_with(net, call, self.radix); },
};

}  // namespace offbeat::alltoall_algorithms
