// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/allreduce/recursive_halving.hpp"

namespace offbeat::recursive_halving {

Task reduce_scatter(Endpoint net, Call call) {
  const int p = net.size;
  const Scratch scratch = net.scratch(call.input.blocks(p, 0, p / 2).count, call.input.width);
  ConstVector mine = call.input;
  int first = 0;  // the blocks that this rank still reduces
  int number = p;
  for (int distance = 1; distance < p; distance *= 2) {
    const int peer = net.rank ^ distance;
    number /= 2;
    const bool upper = (net.rank & distance) != 0;
    const int given = upper ? first : first + number;
    first = upper ? first + number : first;
    const ConstVector kept = mine.blocks(p, first, number);
    const Vector theirs = scratch.first(kept.count);
    co_await net.exchange(peer, mine.blocks(p, given, number), theirs);
    co_await net.reduce_by_rank(*call.op, call.output.blocks(p, first, number), peer, kept, theirs);
    mine = call.output;
  }
}

}  // namespace offbeat::recursive_halving
