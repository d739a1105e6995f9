// SPDX-License-Identifier: BSD-3-Clause
// Idea: p - 1 steps. In step k rank r exchanges blocks with rank r xor k if p is a power of two.
// Cost: (p-1)(a + mb), m bytes in the longest block. Each block travels once. In each step a rank sends one
// block and receives one.
// Other sizes: if p is not a power of two, in step k rank r sends to rank r + k and receives from rank r - k.
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005.
#include <bit>

#include "collectives/alltoall/alltoall.hpp"

namespace offbeat::alltoall_algorithms {
namespace {

ConstVector block_to_rank(const Call& call, int rank, int ranks) {
  const bool same_for_all =
      call.collective == Collective::allgather || call.collective == Collective::allgatherv;
  return same_for_all ? call.input : call.input_blocks.block_of(call.input, rank, ranks);
}

Task run(Endpoint net, Call call, const Expression&) { return run_steps(net, call, 0, 1); }

}  // namespace

Task run_steps(Endpoint net, Call call, int first, int stride) {
  const int p = net.size;
  const bool in_pairs = std::has_single_bit(static_cast<unsigned>(p));
  for (int step = first; step < p; step += stride) {
    const int to = in_pairs ? net.rank ^ step : (net.rank + step) % p;
    const int from = in_pairs ? to : (net.rank + p - step) % p;
    const ConstVector sent = block_to_rank(call, to, p);
    const Vector received = call.output_blocks.block_of(call.output, from, p);
    if (step == 0) {
      co_await net.copy(received, sent);
    } else {
      co_await net.exchange(to, sent, from, received);
    }
  }
}

const Algorithm pairwise{
    .name = "pairwise",
    .summary = "p - 1 steps, in each of which a rank sends one block and receives one; long blocks",
    .cost = "(p-1)(a + mb), m bytes in a block",
    .serves = {Collective::alltoall, Collective::alltoallv},
    .source = "Thakur, Rabenseifner and Gropp 2005",
    .run = run,
};

}  // namespace offbeat::alltoall_algorithms
