// SPDX-License-Identifier: BSD-3-Clause
// Recursive multiplying: in each step groups of up to K ranks exchange their partial results, all with all.
//
//   K = 3, 9 ranks:   {0 1 2} {3 4 5} {6 7 8}   then   {0 3 6} {1 4 7} {2 5 8}
//
// Cost: log_K(p) (a + (K-1)(nb + nc)). Each step of recursive doubling waits for a message; this one waits
// for fewer of them, and sends more: for small n, where a message is under way much longer than it takes to
// send. With K = p it is the direct exchange, one step. Sizes: the radices of the steps multiply to the
// largest number of ranks that has no prime factor above K. Surplus ranks are folded into their neighbours, +
// 2(a + nb) + nc. Order: rank order in each group. All its ranks combine the same operands, so they have the
// same bits. Source: Ruefenacht, Bull and Booth, Parallel Computing 69, 2017 (generalisation of recursive
// doubling).
#include <algorithm>
#include <array>

#include "collectives/allreduce/allreduce.hpp"
#include "collectives/combinators/fold.hpp"

namespace offbeat::allreduce_algorithms {
namespace {

constexpr std::size_t most_operands = Computation::most_operands;

// How many ranks exchange with one another in each step.
class Radices {
 public:
  // For as many of the ranks as can take part.
  Radices(int ranks, int largest) {
    for (product_ = ranks; !factorise(largest); --product_) steps_ = 0;
  }
  [[nodiscard]] int product() const { return product_; }
  [[nodiscard]] std::size_t most_others() const {
    return steps_ == 0 ? 0 : static_cast<std::size_t>(*std::max_element(begin(), end())) - 1;
  }
  [[nodiscard]] const int* begin() const { return of_step_.data(); }
  [[nodiscard]] const int* end() const { return begin() + steps_; }

 private:
  // False: a prime factor is too large.
  bool factorise(int largest) {
    int left = product_;
    for (int prime = 2; left > 1; ++prime) {
      if (prime * prime > left) prime = left;
      if (prime > largest) return false;
      for (; left % prime == 0; left /= prime) add(prime, largest);
    }
    return true;
  }
  // To the first step that has room for it.
  void add(int prime, int largest) {
    for (int k = 0; k < steps_; ++k) {
      int& radix = of_step_[static_cast<std::size_t>(k)];
      if (radix * prime > largest) continue;
      radix *= prime;
      return;
    }
    of_step_[static_cast<std::size_t>(steps_++)] = prime;
  }

  int product_;
  int steps_ = 0;
  std::array<int, 31> of_step_{};
};

// Combines what the ranks of a group gave, `theirs` without `mine`, which comes from rank `member`.
Task combine(Endpoint net, Call call, ConstVector mine, Vector theirs, int member, int group) {
  const std::size_t count = call.input.count;
  const Vector before = theirs.slice(0, count);  // those before the operands at hand
  std::array<const void*, most_operands> operands{};
  std::size_t at_hand = 0;
  for (int rank = 0; rank < group; ++rank) {
    if (at_hand == most_operands) {
      co_await net.reduce(*call.op, before, operands, at_hand);
      operands[0] = before.data;
      at_hand = 1;
    }
    const auto other = static_cast<std::size_t>(rank < member ? rank : rank - 1);
    operands[at_hand++] = rank == member ? mine.data : theirs.slice(other * count, count).data;
  }
  co_await net.reduce(*call.op, call.output, operands, at_hand);
}

Task exchange(Endpoint net, int to, ConstVector mine, int from, Vector theirs) {
  co_await net.exchange(to, mine, from, theirs);
}

Task among_those_that_fit(Endpoint net, Call call, const Expression& self) {
  const Radices radices(net.size, self.radix);
  const std::size_t count = call.input.count;
  const Scratch theirs = net.scratch(radices.most_others() * count, call.input.width);
  ConstVector mine = call.input;
  int distance = 1;
  for (const int radix : radices) {
    const int member = net.rank / distance % radix;
    const int first = net.rank - member * distance;
    const auto in_group = [&](int other) { return first + other * distance; };
    // Everybody begins with another rank.
    co_await net.concurrently(radix - 1, [&](const Endpoint& lane, int k) {
      const int to = (member + 1 + k) % radix;
      const int from = (member + radix - 1 - k) % radix;
      const auto place = static_cast<std::size_t>(from < member ? from : from - 1);
      return exchange(lane, in_group(to), mine, in_group(from), theirs.vector().slice(place * count, count));
    });
    co_await combine(net, call, mine, theirs.vector(), member, radix);
    mine = call.output;
    distance *= radix;
  }
}

Task run(Endpoint net, Call call, const Expression& self) {
  const int core = Radices(net.size, self.radix).product();
  return core == net.size ? among_those_that_fit(net, call, self)
                          : folded(net, call, self, core, among_those_that_fit);
}

constexpr Parameter parameters[] = {Parameter::radix};

}  // namespace

const Algorithm recursive_multiplying{
    .name = "recursive_multiplying",
    .summary = "log_K(p) steps in which K ranks exchange the whole message, all with all; small messages",
    .cost = "log_K(p) (a + (K-1)(nb + nc))",
    .serves = {Collective::allreduce},
    .source = "Ruefenacht, Bull and Booth 2017",
    .parameters = parameters,
    .run = run,
    .lanes = [](const Expression& self) { return self.radix - 1; },
};

}  // namespace offbeat::allreduce_algorithms
