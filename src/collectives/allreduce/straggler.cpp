// SPDX-License-Identifier: BSD-3-Clause
// Idea: StragglAR. Rank RANK is late. The others reduce-scatter among themselves before it comes. Then it
// completes one block with each of them in turn, while all others exchange complete blocks in pairs.
//
//   4 ranks, 3 is late       0 - 3   1 - 2     block 0 complete
//   blocks 0, 1, 2           1 - 3   2 - 0     block 1; 2 gets block 0
//                            2 - 3   0 - 1     block 2; 0 gets block 1, 1 block 0
//                            3 - 0   1 - 2     0 gets block 2, 2 block 1, and 1 block 2
//
// Cost: after the late rank p + log2(p) - 2 rounds of a + n/(p-1) b, or in p - 1 of them n/(p-1) c if that is
// longer. If all come at once, (p-2)(a + n/(p-1) (b + c)) in addition.
// Other sizes: ranks are folded into a power of two, the late rank by itself, + a + nb after it.
// Order: that of ring among the others, the ranks behind RANK first; then RANK.
// Prediction: none. In the paper, too, the late rank is given, and assumed to be late in the whole run.
// Source: Devraj, Ding, Vijaya Kumar, Kleinberg and Singh, arXiv 2505.23523, 2025. The paper searches for the
// pairs; here they follow from a formula (patterns/straggler_rounds.hpp).
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/phases/fold.hpp"
#include "collectives/reduce_scatter/reduce_scatter.hpp"
#include "patterns/straggler_rounds.hpp"

namespace offbeat::allreduce_algorithms {
namespace {

Task exchange(Endpoint net, int peer, ConstVector mine, Vector theirs) {
  co_await net.exchange(peer, mine, theirs);
}
Task combine(Endpoint net, const Reduction& op, Vector sum, ConstVector theirs, ConstVector mine) {
  co_await net.reduce(op, sum, theirs, mine);
}

// Completes all blocks on the late rank. It combines one block while it exchanges the next.
Task complete_late_rank(Endpoint net, const Call& call) {
  const int helpers = net.size - 1;
  const std::size_t longest = call.input.block(helpers, 0).count;
  const Scratch memory = net.scratch(2 * longest, call.input.width);
  const auto mine = [&](int k) {
    return k < 0 || k >= helpers ? call.input.slice(0, 0) : call.input.block(helpers, k);
  };
  const auto theirs = [&](int k) { return memory.vector().slice(k % 2 == 0 ? 0 : longest, mine(k).count); };
  for (int round = 0; round <= helpers; ++round) {
    co_await net.concurrently_on_shared_lanes(2, [&](const Endpoint& lane, int k) {
      if (k == 0) return exchange(lane, round, mine(round), theirs(round));
      const Vector sum = round == 0 ? call.output.slice(0, 0) : call.output.block(helpers, round - 1);
      return combine(lane, *call.op, sum, theirs(round - 1), mine(round - 1));
    });
  }
}

// Runs the algorithm on a power of two of ranks, the last of which is late.
Task power_of_two(Endpoint net, Call call, const Expression&) {
  const int helpers = net.size - 1;
  const int straggler = helpers;
  const auto block = [&](int k) {
    return k == StragglerRounds::no_block ? call.output.slice(0, 0) : call.output.block(helpers, k);
  };
  if (net.rank == straggler) {
    co_await complete_late_rank(net, call);
  } else if (helpers == 1) {
    co_await net.copy(call.output, call.input);
  } else {
    const Endpoint among_helpers = net.part(RankMap{}, net.rank, helpers);
    co_await striped_reduce_scatter::ring(among_helpers,
                                          call.with_input_and_output(call.input, block(net.rank)));
  }
  const StragglerRounds rounds(net.size);
  for (int round = net.rank == straggler ? helpers : 0; round < rounds.rounds(); ++round) {
    const StragglerRounds::Step step = rounds.step(net.rank, round);
    if (step.peer != straggler || round >= helpers) {
      co_await net.exchange(step.peer, block(step.sent), block(step.received));
      continue;
    }
    const Vector sum = block(round);
    const Scratch theirs = net.scratch(sum.count, sum.width);
    co_await net.exchange(straggler, sum, theirs.vector());
    co_await net.reduce(*call.op, sum, sum, theirs.vector());
  }
}

Task run(Endpoint net, Call call, const Expression& self) {
  const Endpoint turned = rotated_to_late_rank_last(net, self);
  co_await run_folded_to_power_of_two(turned, call, self, power_of_two);
}

constexpr Parameter parameters[] = {Parameter::late_rank};

}  // namespace

const Algorithm straggler{
    .name = "straggler",
    .summary =
        "reduce-scatter without rank RANK, which is late, then each block with it in turn; large messages",
    .cost = "(q + log2(q) - 2) max(a + n/(q-1) b, n/(q-1) c) + [p>q] (a + nb), after RANK",
    .serves = {Collective::allreduce},
    .needs = {.ranks = least_ranks_with_late_rank, .ranks_text = "RANK + 1"},
    .source = "Devraj et al. 2025 (StragglAR)",
    .parameters = parameters,
    .run = run,
};

}  // namespace offbeat::allreduce_algorithms
