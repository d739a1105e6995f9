// SPDX-License-Identifier: BSD-3-Clause
// Idea: ranks 2j and 2j+1 first exchange their blocks, which are pair j. Then every rank exchanges pairs with
// its other neighbour and with this one in turn. It always sends the pair that it got last.
//
//   p = 6, the pair got   rank 0   rank 1   rank 2   rank 3   rank 4   rank 5
//   step 0                  0        0        1        1        2        2
//   step 1                  2        1        0        2        1        0      0-5, 1-2, 3-4
//   step 2                  1        2        2        0        0        1      0-1, 2-3, 4-5
//
// Cost: p/2 a + (p-1) mb, m bytes in a block: half the steps of a ring, and each rank still has two
// neighbours.
// Other sizes: an odd number of ranks takes the ring.
// Source: Chen, Zhang, Zhang and Yuan, HPC Asia 2005; the ring for odd numbers is Open MPI's.
#include "collectives/allgather/allgather.hpp"

namespace offbeat::allgather_algorithms {
namespace {

Task exchange_in_pairs(Endpoint net, Call call, const Expression&) {
  const int p = net.size;
  const int pairs = p / 2;
  const int side = net.rank % 2 == 0 ? 1 : -1;  // the direction of this rank's partner in its pair
  const int partner = net.rank + side;
  const int outer = (net.rank - side + p) % p;
  const auto blocks = [&](int first, int number) {
    return call.output_blocks.consecutive_blocks(call.output, first, number, p);
  };
  const Vector own = blocks(net.rank, 1);
  co_await net.copy(own, call.input);
  co_await net.exchange(partner, own, blocks(partner, 1));
  int last = net.rank / 2;
  for (int step = 1; step < pairs; ++step) {
    const bool is_outer = step % 2 == 1;
    // Pairs beyond the outer neighbour come from the outer neighbour, and pairs beyond the partner from the
    // partner.
    const int away = is_outer ? -(step + 1) / 2 : step / 2;
    const int next = (net.rank / 2 + side * away + pairs) % pairs;
    co_await net.exchange(is_outer ? outer : partner, blocks(2 * last, 2), blocks(2 * next, 2));
    last = next;
  }
}

Task run(Endpoint net, Call call, const Expression& self) {
  return net.size % 2 == 0 ? exchange_in_pairs(net, call, self) : ring.run(net, call, self);
}

}  // namespace

const Algorithm neighbor_exchange{
    .name = "neighbor_exchange",
    .summary = "two blocks at a time with each of two neighbours in turn; ring for an odd number of ranks",
    .cost = "[p=2h] p/2 a + [p>2h] (p-1) a + (p-1) mb, h = floor(p/2), m bytes in a block",
    .serves = {Collective::allgather},
    .source = "Chen et al. 2005",
    .run = run,
};

}  // namespace offbeat::allgather_algorithms
