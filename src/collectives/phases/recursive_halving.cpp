// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/phases/recursive_halving.hpp"

#include <algorithm>

namespace offbeat::recursive_halving {

Task reduce_scatter(Endpoint net, Call call, const Butterfly& butterfly) {
  const int p = net.size;
  const Scratch scratch = net.scratch(call.input.blocks(p, 0, p / 2).count, call.input.width);
  ConstVector mine = call.input;
  int first = 0;  // the blocks that this rank still reduces
  int number = p;
  for (int step = 0; step < Butterfly::steps(p); ++step) {
    const int peer = butterfly.peer(net.rank, step, p);
    number /= 2;
    const bool upper = butterfly.keeps_upper_half(net.rank, step, p);
    const int given = upper ? first : first + number;
    first = upper ? first + number : first;
    const ConstVector kept = mine.blocks(p, first, number);
    const Vector theirs = scratch.first(kept.count);
    co_await net.exchange(peer, mine.blocks(p, given, number), theirs);
    co_await net.reduce_by_rank(*call.op, call.output.blocks(p, first, number), peer, kept, theirs);
    mine = call.output;
  }
}

Task allgather(Endpoint net, Vector all, const Butterfly& butterfly) {
  const int p = net.size;
  int first = butterfly.final_block_of(net.rank, p);
  int number = 1;
  for (int step = Butterfly::steps(p) - 1; step >= 0; --step) {
    const int sibling = butterfly.keeps_upper_half(net.rank, step, p) ? first - number : first + number;
    co_await net.exchange(butterfly.peer(net.rank, step, p), all.blocks(p, first, number),
                          all.blocks(p, sibling, number));
    first = std::min(first, sibling);
    number *= 2;
  }
}

}  // namespace offbeat::recursive_halving
