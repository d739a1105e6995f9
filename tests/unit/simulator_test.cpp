// SPDX-License-Identifier: BSD-3-Clause
// The simulator. Times are powers of two and small multiples of them, so that the closed forms hold to the
// last bit.
#include "simulator/simulator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <queue>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/pool.hpp"
#include "support/bare_algorithms.hpp"

namespace offbeat {
namespace {

constexpr double alpha = 0x1p-10;
constexpr double beta = 0x1p-20;
constexpr double gamma_ = 0x1p-21;

SimulatedMachine flat() {
  SimulatedMachine machine;
  machine.intra_alpha = machine.inter_alpha = alpha;
  machine.intra_beta = machine.inter_beta = beta;
  machine.gamma = gamma_;
  return machine;
}

SimulatedMachine rendezvous() {
  SimulatedMachine machine = flat();
  machine.eager_bytes = 0;
  return machine;
}

const Reduction sum(ElementType::int64, ReduceOp::sum);

Vector view(std::vector<std::int64_t>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size(), sizeof(std::int64_t)};
}
Vector view(std::int64_t& value) { return {reinterpret_cast<std::byte*>(&value), 1, sizeof(std::int64_t)}; }
Vector phantom(std::size_t bytes) { return {nullptr, bytes, 1}; }

SimulationOptions adversary(std::uint64_t seed) { return {.adversary = Adversary{seed}}; }
constexpr SimulationOptions phantoms{.phantom = true};

std::string error_of(Simulator& simulator, const Simulator::MakeRootTask& make, int lanes = 1) {
  try {
    simulator.run(make, {}, lanes);
  } catch (const SimulationError& error) {
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Algorithms, as short as they can be.

Task send(Endpoint net, int to, ConstVector data, int lane = 0) {
  Transfer step = net.send(to, data);
  step.lane = lane;
  co_await step;
}
Task receive(Endpoint net, int from, Vector data) { co_await net.receive(from, data); }
Task reduce_three(Endpoint net, Vector data) { co_await net.reduce(sum, data, data, data, data); }
Task exchange(Endpoint net, int peer, ConstVector mine, Vector theirs) {
  co_await net.exchange(peer, mine, theirs);
}
// Branch k uses lane k.
Task send_to_each(Endpoint net, int first, int number, std::size_t bytes) {
  co_await net.concurrently(
      number, [&](Endpoint branch, int k) { return send(branch, first + k, phantom(bytes), k); });
}
Task receive_from_each(Endpoint net, int first, int number, std::size_t bytes) {
  co_await net.concurrently(
      number, [&](Endpoint branch, int k) { return receive(branch, first + k, phantom(bytes)); });
}

Task idle() { co_return; }
Task receive_on_lane(Endpoint net, int from, std::size_t bytes, int lane) {
  Transfer step = net.receive(from, phantom(bytes));
  step.lane = lane;
  co_await step;
}
Task send_then_receive(Endpoint net, int peer, ConstVector mine, Vector theirs) {
  co_await net.send(peer, mine);
  co_await net.receive(peer, theirs);
}
Task copy_twice(Endpoint net, Vector data) {
  co_await net.copy(data, data);
  co_await net.reduce(sum, data, data);
}
Task reduce_in_branches(Endpoint net, int branches, Vector data) {
  co_await net.concurrently(branches, [&](Endpoint branch, int) { return reduce_three(branch, data); });
}
Task throw_after_a_step(Endpoint net) {
  co_await net.send(1, phantom(8));
  throw std::out_of_range("no such luck");
}
Task reduce_two(Endpoint net, Vector data) { co_await net.reduce(sum, data, data, data); }
Task reduce_two_in_branches(Endpoint net, int branches, Vector data) {
  co_await net.concurrently(branches, [&](Endpoint branch, int) { return reduce_two(branch, data); });
}
// Begins `first`, and then `second` while `first` is under way.
template <class First, class Second>
Task both(Endpoint net, First first, Second second) {
  co_await net.concurrently(2,
                            [&](Endpoint branch, int k) { return k == 0 ? first(branch) : second(branch); });
}
Task receive_then_nothing(Endpoint net) {
  if (net.rank == 1) co_await net.receive(2, phantom(8));
  co_await net.receive(2, phantom(8));
}

Task recursive_doubling(Endpoint net, Vector data) { return bare_recursive_doubling(net, sum, data); }
Task ring(Endpoint net, Vector data) { return bare_ring(net, sum, data); }

Task two_with_a_pause(Simulator& simulator, int rank, Endpoint net, double until) {
  co_await recursive_doubling(net, phantom(8));
  EXPECT_EQ(simulator.now(), until);
  co_await simulator.pause(rank, rank);
  co_await recursive_doubling(net, phantom(8));
}

Task send_to_all_then_receive(Simulator& simulator, int rank, Endpoint net, std::int64_t& total) {
  std::int64_t mine = rank;
  std::int64_t unlike = -1;
  for (int to = 0; to < net.size; ++to) {
    if (to == rank) continue;
    co_await net.send(to, view(mine));
    co_await net.send(to, view(unlike));
  }
  co_await simulator.pause(rank, 1);
  for (int from = net.size; from-- > 0;) {
    if (from == rank) continue;
    std::int64_t theirs = 0;
    co_await net.receive(from, view(theirs));
    total += theirs;
    co_await net.receive(from, view(theirs));
    EXPECT_EQ(theirs, unlike);
  }
}

// Ten numbers on a lane, from `first` on.
Task stream(Endpoint net, std::int64_t first, std::vector<std::int64_t>& order) {
  for (std::int64_t value = first; value < first + 10; ++value) {
    std::int64_t number = value;
    if (net.rank == 0) {
      co_await net.send(1, view(number));
    } else {
      co_await net.receive(0, view(number));
      order.push_back(number);
    }
  }
}
Task two_lanes(Endpoint net, std::vector<std::int64_t>& order) {
  co_await net.concurrently(2, [&](Endpoint branch, int k) { return stream(branch, 100 * k, order); });
}

Task receive_and_note(Endpoint net, int from, std::vector<int>& order) {
  co_await net.receive(from, phantom(8));
  order.push_back(from);
}
Task all_to_one(Endpoint net, int rank, std::vector<int>& order) {
  if (rank == 0) {
    co_await net.concurrently(5,
                              [&](Endpoint branch, int k) { return receive_and_note(branch, k + 1, order); });
  } else {
    co_await send(net, 0, phantom(8), rank - 1);
  }
}

Task peek(std::int64_t& value, std::int64_t& seen) {
  seen = value;
  co_return;
}
Task receive_and_peek(Endpoint net, Vector data, std::int64_t& value, std::int64_t& seen) {
  co_await net.concurrently(
      2, [&](Endpoint branch, int k) { return k == 0 ? receive(branch, 0, data) : peek(value, seen); });
}

// Closed forms.

TEST(SimulatedTime, PingPongTakesTwiceAlphaPlusBytesTimesBeta) {
  for (const SimulatedMachine& machine : {flat(), rendezvous()}) {
    for (const std::size_t bytes : {1u, 100u, 100000u}) {
      Simulator simulator(2, machine, phantoms);
      const auto result = simulator.run([&](int rank, Endpoint net) -> Task {
        if (rank == 0) co_await net.send(1, phantom(bytes));
        co_await net.receive(1 - rank, phantom(bytes));
        if (rank == 1) co_await net.send(0, phantom(bytes));
      });
      EXPECT_EQ(result.exits[0], 2 * (alpha + static_cast<double>(bytes) * beta));
      EXPECT_EQ(result.messages, 2u);
      EXPECT_EQ(result.bytes, 2 * bytes);
    }
  }
}

TEST(SimulatedTime, RecursiveDoublingHasItsClosedForm) {
  for (const SimulatedMachine& machine : {flat(), rendezvous()}) {
    for (int steps = 0; steps <= 8; ++steps) {
      const int p = 1 << steps;
      std::vector<std::vector<std::int64_t>> values(static_cast<std::size_t>(p), {1, 2, 3});
      Simulator simulator(p, machine);
      const auto result = simulator.run([&](int rank, Endpoint net) {
        return recursive_doubling(net, view(values[static_cast<std::size_t>(rank)]));
      });
      for (const double exit : result.exits) EXPECT_EQ(exit, steps * (alpha + 24 * beta + 24 * gamma_));
      for (const auto& value : values) EXPECT_EQ(value, (std::vector<std::int64_t>{p, 2 * p, 3 * p}));
      EXPECT_EQ(result.messages, static_cast<std::uint64_t>(p * steps));
    }
  }
}

TEST(SimulatedTime, RingHasItsClosedForm) {
  for (const SimulatedMachine& machine : {flat(), rendezvous()}) {
    for (const int p : {2, 3, 4, 7, 12, 32}) {
      std::vector<std::vector<std::int64_t>> values(static_cast<std::size_t>(p));
      for (auto& value : values) value.resize(5 * static_cast<std::size_t>(p));
      for (int rank = 0; rank < p; ++rank) {
        auto& mine = values[static_cast<std::size_t>(rank)];
        std::iota(mine.begin(), mine.end(), rank);
      }
      Simulator simulator(p, machine);
      const auto result = simulator.run(
          [&](int rank, Endpoint net) { return ring(net, view(values[static_cast<std::size_t>(rank)])); });
      const double block = 40;
      EXPECT_EQ(result.last_exit, 2 * (p - 1) * (alpha + block * beta) + (p - 1) * block * gamma_);
      for (const auto& value : values) {
        EXPECT_EQ(value[3], 3 * p + p * (p - 1) / 2);
        EXPECT_EQ(value, values[0]);
      }
    }
  }
}

TEST(SimulatedTime, MessagesToOneRankShareItsInPort) {
  for (const SimulatedMachine& machine : {flat(), rendezvous()}) {
    Simulator simulator(9, machine, phantoms);
    const auto result = simulator.run(
        [&](int rank, Endpoint net) {
          return rank == 8 ? receive_from_each(net, 0, 8, 64) : send(net, 8, phantom(64), rank);
        },
        {}, 8);
    EXPECT_EQ(result.last_exit, alpha + 8 * 64 * beta);
  }
}

TEST(SimulatedTime, MessagesOfOneRankShareItsOutPort) {
  for (const SimulatedMachine& machine : {flat(), rendezvous()}) {
    Simulator simulator(9, machine, phantoms);
    const auto result = simulator.run(
        [&](int rank, Endpoint net) {
          return rank == 8 ? send_to_each(net, 0, 8, 64) : receive_on_lane(net, 8, 64, rank);
        },
        {}, 8);
    for (int rank = 0; rank < 8; ++rank) {
      EXPECT_EQ(result.exits[static_cast<std::size_t>(rank)], alpha + (rank + 1) * 64 * beta);
    }
  }
}

// Max-rate model: alpha + ppn m / min(R_N, ppn R_b).
TEST(SimulatedTime, MessagesOfOneNodeShareItsInjectionRate) {
  const double bytes = 4096;
  for (const double rate : {0.5, 1.0, 1.5, 3.0, 64.0, std::numeric_limits<double>::infinity()}) {
    for (const std::size_t eager_bytes : {std::size_t{0}, std::size_t{1} << 20}) {
      for (int ppn = 1; ppn <= 8; ++ppn) {
        SimulatedMachine machine = flat();
        machine.ranks_per_node = ppn;
        machine.injection_rate = rate / beta;
        machine.eager_bytes = eager_bytes;
        Simulator simulator(2 * ppn, machine, phantoms);
        const auto result = simulator.run([&](int rank, Endpoint net) {
          return rank < ppn ? send(net, rank + ppn, phantom(4096)) : receive(net, rank - ppn, phantom(4096));
        });
        EXPECT_DOUBLE_EQ(result.last_exit, alpha + ppn * bytes / std::min(rate / beta, ppn / beta))
            << ppn << " messages at rate " << rate;
        EXPECT_EQ(result.inter_node_messages, static_cast<std::uint64_t>(ppn));
      }
    }
  }
}

// The costs beyond latency and bandwidth. `o` and `g` are not multiples of alpha, so that no sum hides
// another.
constexpr double o_s = 0x3p-13;
constexpr double o_r = 0x5p-13;
constexpr double gap = 0x7p-13;

// One message between nodes, or within a node if `ranks_per_node` is 2. The receiver arrives at `late`.
SimulationResult one_message(const SimulatedMachine& machine, std::size_t bytes, double late = 0) {
  Simulator simulator(2, machine, phantoms);
  return simulator.run(
      [&](int rank, Endpoint net) {
        return rank == 0 ? send(net, 1, phantom(bytes)) : receive(net, 0, phantom(bytes));
      },
      std::array{0.0, late});
}

TEST(SimulatedTime, OverheadsOccupyTheCoresOfSenderAndReceiver) {
  for (SimulatedMachine machine : {flat(), rendezvous()}) {
    machine.inter_message = {.send_overhead = o_s, .receive_overhead = o_r};
    const bool eager = machine.eager_bytes > 0;
    const double received = o_s + alpha + 64 * beta;
    const auto at_once = one_message(machine, 64);
    EXPECT_EQ(at_once.exits[0], eager ? o_s + 64 * beta : received);
    EXPECT_EQ(at_once.exits[1], received + o_r);
    // The message waits for the receiver, whose core takes its time then.
    const auto late = one_message(machine, 64, 1);
    EXPECT_EQ(late.exits[1], 1 + (eager ? 0 : alpha + 64 * beta) + o_r);
    machine.ranks_per_node = 2;
    EXPECT_EQ(one_message(machine, 64).exits[1], alpha + 64 * beta);  // they are those between nodes
    machine.intra_message = machine.inter_message;
    EXPECT_EQ(one_message(machine, 64).exits[1], received + o_r);
  }
}

// A message within a node, through memory that both ranks share: a copy in, and a copy out.
SimulatedMachine copied() {
  SimulatedMachine machine = flat();
  machine.ranks_per_node = 8;
  machine.intra_send_copy = machine.intra_receive_copy = beta;
  machine.intra_longer_messages = {{128, alpha, beta}};  // those are copied by no core
  return machine;
}

TEST(SimulatedTime, TheCopiesOfAMessageOverlapIfItIsAlone) {
  for (const std::size_t eager_bytes : {std::size_t{0}, std::size_t{1} << 20}) {
    SimulatedMachine machine = copied();
    machine.eager_bytes = eager_bytes;
    EXPECT_EQ(one_message(machine, 64).exits[1], alpha + 64 * beta);
    // The copy out waits for the receiver, and is all that is left if the message is there.
    EXPECT_EQ(one_message(machine, 64, 1).exits[1], 1 + (eager_bytes > 0 ? 0 : alpha) + 64 * beta);
    machine.intra_send_copy = 2 * beta;  // slower than the port
    EXPECT_EQ(one_message(machine, 64).exits[1], alpha + 128 * beta);
    machine.intra_send_copy = beta;
    machine.intra_receive_copy = 2 * beta;
    EXPECT_EQ(one_message(machine, 64).exits[1], alpha + 128 * beta);
  }
}

TEST(SimulatedTime, InAnExchangeEachCoreMakesBothCopies) {
  const auto exchanged = [](const SimulatedMachine& machine, std::size_t bytes) {
    Simulator simulator(2, machine, phantoms);
    return simulator.run([&](int, Endpoint net) { return recursive_doubling(net, phantom(bytes)); })
        .last_exit;
  };
  SimulatedMachine machine = copied();
  machine.gamma = 0;
  machine.intra_alpha = beta;
  EXPECT_EQ(exchanged(machine, 64), 2 * 64 * beta);
  EXPECT_EQ(exchanged(machine, 128), alpha + 128 * beta);
  machine.intra_receive_copy = 0;  // the sender alone copies
  EXPECT_EQ(exchanged(machine, 64), beta + 64 * beta);
}

TEST(SimulatedTime, ACoreTakesAStepToBeginAnExchangeOrAComputation) {
  constexpr double step = 0x3p-13;
  SimulatedMachine machine = flat();
  machine.step = step;
  EXPECT_EQ(one_message(machine, 64).exits[1], step + alpha + 64 * beta + step);
  EXPECT_EQ(one_message(machine, 64, 1).exits[1], 1 + step);
  Simulator simulator(2, machine, phantoms);
  const auto last_exit = [&](auto work) {
    return simulator.run([&](int rank, Endpoint net) { return work(rank, net); }).last_exit;
  };
  const auto exchange = [&](int, Endpoint net) { return recursive_doubling(net, phantom(64)); };
  EXPECT_EQ(last_exit(exchange), step + alpha + 64 * beta + step + 64 * gamma_);
  EXPECT_EQ(last_exit([](int, Endpoint net) { return reduce_three(net, phantom(64)); }), step + 128 * gamma_);
}

TEST(SimulatedTime, CopiesOfMessagesShareTheCoreWithReductions) {
  const SimulatedMachine machine = copied();
  Simulator simulator(2, machine, phantoms);
  const auto result = simulator.run(
      [&](int rank, Endpoint net) {
        if (rank == 0) return send(net, 1, phantom(64));
        return both(
            net, [](Endpoint branch) { return receive(branch, 0, phantom(64)); },
            [](Endpoint branch) { return reduce_three(branch, phantom(4096)); });
      },
      {}, 2);
  EXPECT_EQ(result.exits[1], 2 * 4096 * gamma_ + 64 * beta);
}

TEST(SimulatedTime, ManyMessagesAtOnceOccupyTheCoreOneAfterTheOther) {
  for (SimulatedMachine machine : {flat(), rendezvous()}) {
    machine.inter_message = {.send_overhead = o_s, .receive_overhead = o_r};
    const auto result = [&](bool in) {
      Simulator simulator(9, machine, phantoms);
      return simulator.run(
          [&](int rank, Endpoint net) {
            if (in) return rank == 8 ? receive_from_each(net, 0, 8, 1) : send(net, 8, phantom(1), rank);
            return rank == 8 ? send_to_each(net, 0, 8, 1) : receive_on_lane(net, 8, 1, rank);
          },
          {}, 8);
    };
    const auto from_one = result(false);
    for (int rank = 0; rank < 8; ++rank)
      EXPECT_EQ(from_one.exits[static_cast<std::size_t>(rank)], (rank + 1) * o_s + alpha + beta + o_r);
    EXPECT_EQ(result(true).exits[8], o_s + alpha + beta + 8 * o_r);
  }
}

TEST(SimulatedTime, MessagesAndReductionsShareTheCore) {
  SimulatedMachine machine = flat();
  machine.inter_message.send_overhead = o_s;
  Simulator simulator(2, machine, phantoms);
  const auto result = simulator.run(
      [&](int rank, Endpoint net) {
        if (rank == 1) return receive(net, 0, phantom(8));
        return both(
            net, [](Endpoint branch) { return reduce_three(branch, phantom(64)); },
            [](Endpoint branch) { return send(branch, 1, phantom(8)); });
      },
      {}, 2);
  EXPECT_EQ(result.exits[1], 128 * gamma_ + o_s + alpha + 8 * beta);
}

TEST(SimulatedTime, GapsSeparateTheMessagesOfAPort) {
  for (SimulatedMachine machine : {flat(), rendezvous()}) {
    const auto last = [&](bool in) {
      Simulator simulator(9, machine, phantoms);
      return simulator
          .run(
              [&](int rank, Endpoint net) {
                if (in) return rank == 8 ? receive_from_each(net, 0, 8, 64) : send(net, 8, phantom(64), rank);
                return rank == 8 ? send_to_each(net, 0, 8, 64) : receive_on_lane(net, 8, 64, rank);
              },
              {}, 8)
          .last_exit;
    };
    machine.inter_message = {.send_gap = gap};
    EXPECT_EQ(last(false), alpha + 8 * 64 * beta + 7 * gap);
    EXPECT_EQ(last(true), alpha + 8 * 64 * beta);
    machine.inter_message = {.receive_gap = gap};
    EXPECT_EQ(last(false), alpha + 8 * 64 * beta);
    EXPECT_EQ(last(true), alpha + 8 * 64 * beta + 7 * gap);
  }
}

TEST(SimulatedTime, TheCardOfANodeSendsItsMessagesAGapApart) {
  for (const double rate : {std::numeric_limits<double>::infinity(), 1e9}) {
    for (SimulatedMachine machine : {flat(), rendezvous()}) {
      machine.ranks_per_node = 8;
      machine.node_gap = gap;
      machine.injection_rate = rate;
      Simulator simulator(16, machine, phantoms);
      const auto result = simulator.run([&](int rank, Endpoint net) {
        return rank < 8 ? send(net, rank + 8, phantom(64)) : receive(net, rank - 8, phantom(64));
      });
      for (int rank = 0; rank < 8; ++rank) {
        const double left = rank * gap + 64 * beta;
        EXPECT_EQ(result.exits[static_cast<std::size_t>(rank) + 8], alpha + left);
        EXPECT_EQ(result.exits[static_cast<std::size_t>(rank)],
                  machine.eager_bytes > 0 ? left : alpha + left);
      }
    }
  }
}

TEST(SimulatedTime, AMessageAboveTheEagerLimitAsksFirst) {
  constexpr double way = 0x3p-11;
  SimulatedMachine machine = flat();
  machine.eager_bytes = 64;
  machine.inter_message = {.send_overhead = o_s, .handshake = way};
  EXPECT_EQ(one_message(machine, 64).exits[1], o_s + alpha + 64 * beta);
  EXPECT_EQ(one_message(machine, 65).exits[1], o_s + 2 * way + alpha + 65 * beta);
  EXPECT_EQ(one_message(machine, 65, way).exits[1], o_s + 2 * way + alpha + 65 * beta);
  // The request is there when the receiver comes; only the answer is left.
  EXPECT_EQ(one_message(machine, 65, 1).exits[1], 1 + way + alpha + 65 * beta);
  machine.intra_eager_bytes = 100;
  machine.ranks_per_node = 2;
  machine.intra_message = machine.inter_message;
  EXPECT_EQ(one_message(machine, 65).exits[1], o_s + alpha + 65 * beta);
  EXPECT_EQ(one_message(machine, 101).exits[1], o_s + 2 * way + alpha + 101 * beta);
}

// Every rank of the first node has a message from a node of its own.
TEST(SimulatedTime, MessagesToOneNodeShareItsEjectionRate) {
  for (const double rate : {0.5, 1.0, 1.5, 3.0, 64.0, std::numeric_limits<double>::infinity()}) {
    for (const std::size_t eager_bytes : {std::size_t{0}, std::size_t{1} << 20}) {
      for (int ppn = 1; ppn <= 8; ++ppn) {
        SimulatedMachine machine = flat();
        for (int rank = 0; rank < 2 * ppn; ++rank)
          machine.node_of_rank.push_back(std::max(0, rank - ppn + 1));
        machine.ejection_rate = rate / beta;
        machine.injection_rate = 2 / beta;  // of no effect
        machine.eager_bytes = eager_bytes;
        Simulator simulator(2 * ppn, machine, phantoms);
        const auto result = simulator.run([&](int rank, Endpoint net) {
          return rank < ppn ? receive(net, rank + ppn, phantom(4096)) : send(net, rank - ppn, phantom(4096));
        });
        EXPECT_DOUBLE_EQ(result.last_exit, alpha + ppn * 4096 / std::min(rate / beta, ppn / beta))
            << ppn << " messages at rate " << rate;
      }
    }
  }
}

// Eight ranks of a node send to eight ranks of another: the slower of both limits decides.
TEST(SimulatedTime, AMessageIsUnderBothLimitsAtOnce) {
  for (const double out : {1.0, 2.0, 4.0}) {
    for (const double in : {1.0, 2.0, 4.0}) {
      SimulatedMachine machine = flat();
      machine.ranks_per_node = 8;
      machine.injection_rate = out / beta;
      machine.ejection_rate = in / beta;
      Simulator simulator(16, machine, phantoms);
      const auto result = simulator.run([&](int rank, Endpoint net) {
        return rank < 8 ? send(net, rank + 8, phantom(4096)) : receive(net, rank - 8, phantom(4096));
      });
      EXPECT_DOUBLE_EQ(result.last_exit, alpha + 8 * 4096 * beta / std::min(out, in));
    }
  }
}

// A core reduces 8 KiB in 8192 gamma, in which it reads twice and writes once that much.
TEST(SimulatedTime, CoresOfANodeShareItsMemory) {
  const double alone = 3 / gamma_;  // bytes per second of one core that reduces
  for (const double share : {0.5, 1.0, 3.0, 16.0}) {
    SimulatedMachine machine = flat();
    machine.ranks_per_node = 8;
    machine.memory_rate = share * alone;
    for (const int busy : {1, 2, 8}) {
      Simulator simulator(16, machine, phantoms);
      const auto result = simulator.run(
          [&](int rank, Endpoint net) { return rank < busy ? reduce_two(net, phantom(8192)) : idle(); });
      EXPECT_DOUBLE_EQ(result.last_exit, 8192 * gamma_ * std::max(1.0, busy / share));
    }
    // The computations of one rank follow one another, and another node has memory of its own.
    Simulator simulator(16, machine, phantoms);
    const auto result = simulator.run(
        [&](int rank, Endpoint net) {
          return rank % 8 == 0 ? reduce_two_in_branches(net, 4, phantom(8192)) : idle();
        },
        {}, 4);
    EXPECT_DOUBLE_EQ(result.exits[0], 4 * 8192 * gamma_ * std::max(1.0, 1 / share));
    EXPECT_EQ(result.exits[0], result.exits[8]);
  }
}

TEST(SimulatedTime, AMessageWithinANodeMovesThroughItsMemoryLikeACopy) {
  for (const double share : {0.5, 1.0, 3.0, 16.0}) {
    for (SimulatedMachine machine : {flat(), rendezvous()}) {
      machine.ranks_per_node = 8;
      machine.memory_rate = share * 2 / beta;
      Simulator simulator(8, machine, phantoms);
      const auto result = simulator.run([&](int rank, Endpoint net) {
        return rank < 4 ? send(net, rank + 4, phantom(4096)) : receive(net, rank - 4, phantom(4096));
      });
      EXPECT_DOUBLE_EQ(result.last_exit, alpha + 4096 * beta * std::max(1.0, 4 / share));
    }
  }
}

TEST(SimulatedTime, CostsMustNotBeNegative) {
  const auto refuses = [](auto&& change) {
    SimulatedMachine machine = flat();
    change(machine);
    EXPECT_THROW(Simulator(2, machine, phantoms), UsageError);
  };
  refuses([](SimulatedMachine& machine) { machine.inter_message.send_overhead = -1; });
  refuses([](SimulatedMachine& machine) { machine.intra_message.handshake = -1; });
  refuses([](SimulatedMachine& machine) { machine.intra_send_copy = -1; });
  refuses([](SimulatedMachine& machine) { machine.intra_longer_messages = {{1, 0, 0, 0, -1}}; });
  refuses([](SimulatedMachine& machine) { machine.put_line = -1; });
  refuses([](SimulatedMachine& machine) { machine.step = -1; });
  refuses([](SimulatedMachine& machine) { machine.beyond = {{.cache_bytes = 1, .copy = -1}}; });
  refuses([](SimulatedMachine& machine) { machine.beyond = {{.cache_bytes = 1, .memory_rate = 0}}; });
  refuses([](SimulatedMachine& machine) { machine.node_gap = -1; });
  refuses([](SimulatedMachine& machine) { machine.ejection_rate = 0; });
  refuses([](SimulatedMachine& machine) { machine.memory_rate = -1; });
}

TEST(SimulatedTime, LongerMessagesHaveLatencyAndBandwidthOfTheirOwn) {
  SimulatedMachine machine = flat();
  machine.ranks_per_node = 2;
  machine.intra_longer_messages = {{64, 2 * alpha, beta / 2}};
  machine.inter_longer_messages = {{64, 4 * alpha, beta / 4}, {128, 8 * alpha, beta / 8}};
  const auto time = [&](int to, std::size_t bytes) {
    Simulator simulator(3, machine, phantoms);
    return simulator
        .run([&](int rank, Endpoint net) {
          return rank == 0    ? send(net, to, phantom(bytes))
                 : rank == to ? receive(net, 0, phantom(bytes))
                              : idle();
        })
        .last_exit;
  };
  EXPECT_EQ(time(1, 63), alpha + 63 * beta);
  EXPECT_EQ(time(1, 64), 2 * alpha + 64 * beta / 2);
  EXPECT_EQ(time(2, 63), alpha + 63 * beta);
  EXPECT_EQ(time(2, 64), 4 * alpha + 64 * beta / 4);
  EXPECT_EQ(time(2, 128), 8 * alpha + 128 * beta / 8);
  machine.inter_longer_messages = {{128, 0, 0}, {64, 0, 0}};
  EXPECT_THROW(Simulator(3, machine, phantoms), UsageError);
}

TEST(SimulatedTime, MessagesWithinANodeAndBetweenNodesDoNotWaitForOneAnother) {
  SimulatedMachine machine = flat();
  machine.ranks_per_node = 2;
  Simulator simulator(4, machine, phantoms);
  const auto result = simulator.run(
      [&](int rank, Endpoint net) {
        if (rank == 0) return send_to_each(net, 1, 2, 64);
        return rank == 3 ? idle() : receive_on_lane(net, 0, 64, rank - 1);
      },
      {}, 2);
  EXPECT_EQ(result.exits[1], alpha + 64 * beta);
  EXPECT_EQ(result.exits[2], alpha + 64 * beta);
}

TEST(SimulatedTime, EnvelopesTakeTimeAndAreNoData) {
  SimulatedMachine machine = flat();
  machine.envelope_bytes = 16;
  Simulator simulator(2, machine, phantoms);
  const auto result = simulator.run([&](int rank, Endpoint net) {
    return rank == 0 ? send(net, 1, phantom(64)) : receive(net, 0, phantom(64));
  });
  EXPECT_EQ(result.last_exit, alpha + 80 * beta);
  EXPECT_EQ(result.bytes, 64u);
}

// Alone a message has the node's rate, which is that of one rank here, two have half of it each.
TEST(SimulatedTime, MessagesThatLeaveANodeShareItsRateWhileTheyDo) {
  SimulatedMachine machine = flat();
  machine.ranks_per_node = 2;
  machine.injection_rate = 1 / beta;
  Simulator simulator(6, machine, phantoms);
  const std::array<double, 6> arrivals{0, 16 * beta, 0, 0, 0, 0};
  const auto result = simulator.run(
      [&](int rank, Endpoint net) -> Task {
        if (rank == 0) return send_to_each(net, 2, 2, 1024);
        if (rank == 1) return send(net, 4, phantom(64));
        if (rank < 4) return receive_on_lane(net, 0, 1024, rank - 2);
        return rank == 4 ? receive(net, 1, phantom(64)) : idle();
      },
      arrivals, 2);
  EXPECT_DOUBLE_EQ(result.exits[4], alpha + (16 + 2 * 64) * beta);
  // Rank 0 begins its second message at 1024 beta, when 64 bytes of its first are still to go.
  EXPECT_DOUBLE_EQ(result.exits[2], alpha + (1024 + 2 * 64) * beta);
  EXPECT_DOUBLE_EQ(result.exits[3], alpha + (1024 + 1024 + 64) * beta);
}

// The later it is, the less exactly can be told when a message has left: nobody must wait for that for ever.
TEST(SimulatedTime, ANodesRateIsForLateMessagesToo) {
  SimulatedMachine machine = flat();
  machine.ranks_per_node = 2;
  machine.inter_beta = 1e-10;
  machine.injection_rate = 12e9;
  Simulator simulator(4, machine, phantoms);
  for (const double begin : {0.01, 1.0, 7.0, 1e3, 1e9}) {
    const std::vector<double> arrivals(4, begin);
    const auto result =
        simulator.run([&](int, Endpoint net) { return recursive_doubling(net, phantom(8)); }, arrivals);
    EXPECT_NEAR(result.last_delay(), 2 * (alpha + 8 * gamma_) + 8 * beta, 1e-8 + 1e-15 * begin) << begin;
  }
}

TEST(SimulatedTime, DataThatExceedACacheTakeTheTimesBeyondIt) {
  SimulatedMachine machine = flat();
  machine.ranks_per_node = 4;
  machine.copy = 0x1p-22;
  machine.beyond = {{.cache_bytes = 4096, .ranks = 1, .gamma = 2 * gamma_, .copy = 0x1p-20},
                    {.cache_bytes = 32768, .ranks = 0, .gamma = 4 * gamma_, .copy = 0x1p-19}};
  Simulator simulator(8, machine, phantoms);
  const auto reduced = [&](std::size_t call_bytes) {
    simulator.set_call_bytes(call_bytes);
    return simulator.run([&](int, Endpoint net) { return reduce_three(net, phantom(1000)); }).last_exit;
  };
  const auto copied = [&] {
    return simulator.run([&](int, Endpoint net) { return copy_twice(net, phantom(1000)); }).last_exit;
  };
  EXPECT_EQ(reduced(0), 2 * 1000 * gamma_);
  EXPECT_EQ(reduced(2048), 2 * 1000 * gamma_);  // and as much that is shared or worked in
  EXPECT_EQ(copied(), 2 * 1000 * 0x1p-22);
  EXPECT_DOUBLE_EQ(reduced(4096), 2 * 1000 * 1.5 * gamma_);  // half of 8192 are beyond the first cache
  EXPECT_DOUBLE_EQ(copied(), 2 * 1000 * (0x1p-22 + 0x1p-20) / 2);
  EXPECT_DOUBLE_EQ(reduced(8192), 2 * 1000 * (1.75 + 4) / 2 * gamma_);  // four ranks share the second cache
  EXPECT_EQ(reduced(8), 2 * 1000 * gamma_);
}

TEST(SimulatedTime, MemoryIsSharedOnlyBeyondACache) {
  SimulatedMachine machine = flat();
  machine.ranks_per_node = 4;
  machine.beyond = {{.cache_bytes = 4096, .gamma = gamma_, .memory_rate = 3 / gamma_}};
  Simulator simulator(4, machine, phantoms);
  const auto reduced = [&] {
    return simulator.run([&](int, Endpoint net) { return reduce_three(net, phantom(1024)); }).last_exit;
  };
  EXPECT_EQ(reduced(), 2 * 1024 * gamma_);
  simulator.set_call_bytes(1 << 20);
  // Reads three and writes one; 4 KiB of 2 MiB are in the cache.
  EXPECT_DOUBLE_EQ(reduced(), 4 * 4 * 1024 / (3 / gamma_) * (1 - 0x1p-9));
}

TEST(SimulatedTime, NodesAreBlocksOfRanksOrAsTold) {
  SimulatedMachine machine;
  machine.intra_alpha = 1;
  machine.inter_alpha = 8;
  const auto times = [&] {
    Simulator simulator(4, machine, phantoms);
    return simulator
        .run(
            [](int rank, Endpoint net) {
              return rank == 0 ? send_to_each(net, 1, 3, 1) : receive_on_lane(net, 0, 1, rank - 1);
            },
            {}, 3)
        .exits;
  };
  EXPECT_EQ(times(), (std::vector<double>{0, 8, 8, 8}));
  machine.ranks_per_node = 2;
  EXPECT_EQ(times(), (std::vector<double>{0, 1, 8, 8}));
  machine.node_of_rank = {7, 0, 7, 0};
  EXPECT_EQ(times(), (std::vector<double>{0, 8, 1, 8}));
}

TEST(SimulatedTime, ReductionsAndCopiesTakeTheRanksCoreOneAfterTheOther) {
  SimulatedMachine machine = flat();
  machine.copy = 0x1p-22;
  Simulator simulator(1, machine, phantoms);
  const Vector data = phantom(1000);
  EXPECT_EQ(simulator.run([&](int, Endpoint net) { return reduce_three(net, data); }).last_exit,
            2 * 1000 * gamma_);
  EXPECT_EQ(simulator.run([&](int, Endpoint net) { return copy_twice(net, data); }).last_exit,
            2 * 1000 * machine.copy);
  EXPECT_EQ(
      simulator.run([&](int, Endpoint net) { return reduce_in_branches(net, 5, data); }, {}, 5).last_exit,
      5 * 2 * 1000 * gamma_);
}

// Arrival.

// Who waits for whom.

TEST(SimulatedWaits, AreForWhoIsLateThroughOthersToo) {
  Simulator simulator(8, flat(), phantoms);
  std::vector<double> arrivals(8);
  arrivals[5] = 1;
  const auto result =
      simulator.run([&](int, Endpoint net) { return recursive_doubling(net, phantom(8)); }, arrivals);
  for (std::size_t rank = 0; rank < 8; ++rank) {
    const SimulatedWait& wait = result.waits[rank];
    if (rank == 5) {
      EXPECT_EQ(wait.seconds, 0);
      EXPECT_EQ(wait.cause_of_longest, -1);
      continue;
    }
    EXPECT_EQ(wait.cause_of_longest, 5) << "rank " << rank << ", which may know of it by others only";
    EXPECT_EQ(wait.seconds, wait.longest);
  }
  EXPECT_EQ(result.waits[4].seconds, 1);  // from its arrival on
}

TEST(SimulatedWaits, AreForTheReceiverOfALongMessage) {
  const auto wait_of_sender = [](const SimulatedMachine& machine) {
    Simulator simulator(2, machine, phantoms);
    const std::array<double, 2> arrivals{0, 1};
    return simulator
        .run([&](int rank,
                 Endpoint net) { return rank == 0 ? send(net, 1, phantom(8)) : receive(net, 0, phantom(8)); },
             arrivals)
        .waits[0];
  };
  EXPECT_EQ(wait_of_sender(rendezvous()).seconds, 1);
  EXPECT_EQ(wait_of_sender(rendezvous()).cause_of_longest, 1);
  EXPECT_EQ(wait_of_sender(flat()).seconds, 0);
}

TEST(SimulatedWaits, OfSeveralMessagesAtOnceAreCountedOnce) {
  Simulator simulator(3, flat(), phantoms);
  const std::array<double, 3> arrivals{1, 3, 0};
  const auto result = simulator.run(
      [&](int rank, Endpoint net) {
        return rank == 2 ? receive_from_each(net, 0, 2, 8) : send(net, 2, phantom(8), rank);
      },
      arrivals, 2);
  EXPECT_EQ(result.waits[2].seconds, 3);
  EXPECT_EQ(result.waits[2].longest, 2);
  EXPECT_EQ(result.waits[2].cause_of_longest, 1);
}

TEST(SimulatedArrival, EarlyRanksWaitAndTheLateOneDecides) {
  const std::vector<double> arrivals{3.0, 0.5, 1.0, 2.0};
  const double step = 8 * beta + 8 * gamma_;
  const double last = 3.0 + 2 * (alpha + step);
  const auto run = [&](const SimulatedMachine& machine) {
    Simulator simulator(4, machine, phantoms);
    return simulator.run([](int, Endpoint net) { return recursive_doubling(net, phantom(8)); }, arrivals);
  };
  const auto result = run(rendezvous());
  EXPECT_EQ(result.exits, std::vector<double>(4, last));
  EXPECT_EQ(result.first_arrival, 0.5);
  EXPECT_EQ(result.last_arrival, 3.0);
  EXPECT_EQ(result.total_delay(), last - 0.5);
  EXPECT_EQ(result.last_delay(), last - 3.0);
  // The others have sent what the late rank needs: it waits for nobody.
  EXPECT_EQ(run(flat()).exits, (std::vector<double>{3.0 + 2 * step, 3.0 + alpha + 2 * step,
                                                    3.0 + alpha + 2 * step, 3.0 + 2 * (alpha + step)}));
}

TEST(SimulatedArrival, EagerSendsDoNotWaitForTheReceiver) {
  const std::array<double, 2> late_receiver{0, 1};
  const std::array<double, 2> late_sender{1, 0};
  const auto run = [](const SimulatedMachine& machine, std::span<const double> arrivals) {
    Simulator simulator(2, machine, phantoms);
    return simulator
        .run(
            [](int rank, Endpoint net) {
              return rank == 0 ? send(net, 1, phantom(64)) : receive(net, 0, phantom(64));
            },
            arrivals)
        .exits;
  };
  EXPECT_EQ(run(flat(), late_receiver), (std::vector<double>{64 * beta, 1}));
  EXPECT_EQ(run(flat(), late_sender), (std::vector<double>{1 + 64 * beta, 1 + alpha + 64 * beta}));
  const double received = 1 + alpha + 64 * beta;
  EXPECT_EQ(run(rendezvous(), late_receiver), (std::vector<double>{received, received}));
  EXPECT_EQ(run(rendezvous(), late_sender), (std::vector<double>{received, received}));
}

// The receive is posted while the bytes come in.
TEST(SimulatedArrival, ReceivePostedBetweenFirstAndLastByteWaitsForTheLast) {
  const std::array<double, 2> arrivals{0, alpha + 32 * beta};
  Simulator simulator(2, flat(), phantoms);
  const auto result = simulator.run(
      [](int rank, Endpoint net) {
        return rank == 0 ? send(net, 1, phantom(64)) : receive(net, 0, phantom(64));
      },
      arrivals);
  EXPECT_EQ(result.exits[1], alpha + 64 * beta);
}

// The message that comes in is there before the one that goes out has left, whether it came before it or
// meanwhile.
TEST(SimulatedArrival, ExchangeWaitsForItsOwnSend) {
  for (const double late : {0.5, 0.0}) {
    const std::array<double, 2> arrivals{late, 0};
    Simulator simulator(2, flat(), phantoms);
    const auto result = simulator.run(
        [](int rank, Endpoint net) {
          return exchange(net, 1 - rank, phantom(rank == 0 ? 4096 : 8), phantom(rank == 0 ? 8 : 4096));
        },
        arrivals);
    EXPECT_EQ(result.exits[0], late + 4096 * beta);
    EXPECT_EQ(result.exits[1], late + alpha + 4096 * beta);
  }
}

TEST(SimulatedArrival, RanksMayPauseBetweenCollectives) {
  Simulator simulator(4, flat(), phantoms);
  const double once = 2 * (alpha + 8 * beta + 8 * gamma_);
  const auto result =
      simulator.run([&](int rank, Endpoint net) { return two_with_a_pause(simulator, rank, net, once); });
  EXPECT_EQ(result.last_exit, once + 3.0 + once);
}

// Data.

TEST(SimulatedData, PhantomsTakeTheSameTime) {
  for (const int p : {4, 8}) {
    SimulatedMachine machine = flat();
    machine.ranks_per_node = 2;
    machine.intra_alpha = alpha / 3;
    machine.injection_rate = 1.3 / beta;
    machine.eager_bytes = 100;
    std::vector<std::int64_t> values(60);
    Simulator real(p, machine);
    Simulator unreal(p, machine, phantoms);
    for (const auto algorithm : {recursive_doubling, ring}) {
      std::vector<std::vector<std::int64_t>> data(static_cast<std::size_t>(p), values);
      const auto with_data = real.run(
          [&](int rank, Endpoint net) { return algorithm(net, view(data[static_cast<std::size_t>(rank)])); });
      const auto without = unreal.run([&](int, Endpoint net) {
        return algorithm(net, Vector{nullptr, values.size(), sizeof(std::int64_t)});
      });
      EXPECT_EQ(with_data.exits, without.exits);
      EXPECT_EQ(with_data.events, without.events);
    }
  }
}

TEST(SimulatedData, NothingIsAllocatedTheSecondTime) {
  const std::size_t limit = pool::set_cache_limit(std::size_t{1} << 20);
  std::vector<std::vector<std::int64_t>> data(64, std::vector<std::int64_t>(64));
  Simulator simulator(64, flat());
  const auto run = [&] {
    simulator.run(
        [&](int rank, Endpoint net) { return ring(net, view(data[static_cast<std::size_t>(rank)])); });
  };
  run();
  const std::uint64_t before = pool::malloc_calls();
  run();
  EXPECT_EQ(pool::malloc_calls(), before);
  pool::set_cache_limit(limit);
  pool::trim();
}

TEST(SimulatedData, ManyOpenMessagesMatch) {
  constexpr int p = 60;  // 2 p (p - 1) messages are on their way before the first receive
  std::array<std::int64_t, p> sums{};
  Simulator simulator(p, flat());
  simulator.run([&](int rank, Endpoint net) {
    return send_to_all_then_receive(simulator, rank, net, sums[static_cast<std::size_t>(rank)]);
  });
  for (int rank = 0; rank < p; ++rank)
    EXPECT_EQ(sums[static_cast<std::size_t>(rank)], p * (p - 1) / 2 - rank);
}

// Adversary.

TEST(SimulatedAdversary, AlgorithmsThatAreRightStayRight) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    for (const int p : {1, 2, 4, 8}) {
      for (const auto algorithm : {recursive_doubling, ring}) {
        std::vector<std::vector<std::int64_t>> data(static_cast<std::size_t>(p), {1, 2, 3, 4, 5, 6, 7, 8, 9});
        Simulator simulator(p, SimulatedMachine{}, adversary(seed));
        simulator.run([&](int rank, Endpoint net) {
          return algorithm(net, view(data[static_cast<std::size_t>(rank)]));
        });
        for (const auto& values : data) {
          for (int i = 0; i < 9; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], p * (i + 1)) << seed;
        }
      }
    }
  }
}

TEST(SimulatedAdversary, MessagesOfALaneDoNotOvertakeAndLanesDoNotWait) {
  int overtaken = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    std::vector<std::int64_t> order;
    Simulator simulator(2, SimulatedMachine{}, adversary(seed));
    simulator.run([&](int, Endpoint net) { return two_lanes(net, order); }, {}, 2);
    std::array<std::int64_t, 2> next{0, 100};
    for (const std::int64_t value : order) ASSERT_EQ(value, next[value < 100 ? 0 : 1]++) << "seed " << seed;
    ASSERT_EQ(order.size(), 20u);
    if (!std::is_sorted(order.begin(), order.end())) ++overtaken;
  }
  EXPECT_GT(overtaken, 900);  // one lane's messages among those of the other
}

TEST(SimulatedAdversary, SameSeedSameRunOtherSeedOtherOrder) {
  const auto run = [](std::uint64_t seed) {
    std::vector<int> order;
    Simulator simulator(6, flat(), adversary(seed));
    auto exits =
        simulator.run([&](int rank, Endpoint net) { return all_to_one(net, rank, order); }, {}, 5).exits;
    return std::pair(order, exits);
  };
  std::vector<std::vector<int>> orders;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto result = run(seed);
    EXPECT_EQ(result, run(seed));
    orders.push_back(result.first);
  }
  std::sort(orders.begin(), orders.end());
  EXPECT_GT(std::unique(orders.begin(), orders.end()) - orders.begin(), 25);
}

TEST(SimulatedAdversary, WhatIsReadBeforeItIsThereIsRubbish) {
  int rubbish = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::int64_t mine = 7;
    std::int64_t theirs = 7;
    std::int64_t seen = 0;
    Simulator simulator(2, SimulatedMachine{}, adversary(seed));
    simulator.run(
        [&](int rank, Endpoint net) {
          return rank == 0 ? send(net, 1, view(mine)) : receive_and_peek(net, view(theirs), theirs, seen);
        },
        {}, 2);
    EXPECT_EQ(theirs, 7);
    if (seen != 7) ++rubbish;
  }
  EXPECT_GT(rubbish, 5);
}

TEST(SimulatedAdversary, TwoSendsBeforeTwoReceivesAreFoundToDeadlock) {
  int deadlocks = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::array<std::int64_t, 2> mine{};
    std::array<std::int64_t, 2> theirs{};
    Simulator simulator(2, SimulatedMachine{}, adversary(seed));
    const std::string error = error_of(simulator, [&](int rank, Endpoint net) {
      const auto self = static_cast<std::size_t>(rank);
      return send_then_receive(net, 1 - rank, view(mine[self]), view(theirs[self]));
    });
    if (contains(error, "cycle: 0 -> 1 -> 0")) ++deadlocks;
  }
  EXPECT_GT(deadlocks, 1);   // both by rendezvous: one in four
  EXPECT_LT(deadlocks, 15);  // and eager sends do get through
}

// Mistakes.

TEST(SimulatedMistake, TwoRanksThatReceiveAreADeadlock) {
  Simulator simulator(3, flat(), phantoms);
  EXPECT_EQ(error_of(simulator,
                     [](int rank, Endpoint net) {
                       return rank == 2 ? idle() : receive(net, 1 - rank, phantom(40));
                     }),
            "deadlock: 2 of 3 ranks never end\n"
            "  rank 0 waits to receive 40 bytes from rank 1 on lane 0\n"
            "  rank 1 waits to receive 40 bytes from rank 0 on lane 0\n"
            "  cycle: 0 -> 1 -> 0");
}

TEST(SimulatedMistake, CycleIsFoundAmongOtherWaits) {
  Simulator simulator(6, rendezvous(), phantoms);
  // 5 waits for 0, which has ended; 4 waits for 1; 1 sends to 2, which sends to 3, which receives from 1.
  EXPECT_EQ(error_of(simulator,
                     [](int rank, Endpoint net) {
                       switch (rank) {
                         case 1:
                         case 2:
                           return send(net, rank + 1, phantom(8));
                         case 3:
                         case 4:
                           return receive(net, 1, phantom(16));
                         case 5:
                           return receive(net, 0, phantom(32));
                         default:
                           return idle();
                       }
                     }),
            "deadlock: 5 of 6 ranks never end\n"
            "  rank 1 waits to send 8 bytes to rank 2 on lane 0\n"
            "  rank 2 waits to send 8 bytes to rank 3 on lane 0\n"
            "  rank 3 waits to receive 16 bytes from rank 1 on lane 0\n"
            "  rank 4 waits to receive 16 bytes from rank 1 on lane 0\n"
            "  rank 5 waits to receive 32 bytes from rank 0 on lane 0, which has ended\n"
            "  cycle: 1 -> 2 -> 3 -> 1");
}

TEST(SimulatedMistake, CycleIsFoundThroughASecondWait) {
  Simulator simulator(4, rendezvous(), phantoms);
  // 0 waits for 1 and 2 at once; 1 for 3, which has ended; 2 for 0.
  const std::string error = error_of(
      simulator,
      [](int rank, Endpoint net) {
        if (rank == 0) return receive_from_each(net, 1, 2, 8);
        return rank == 3 ? idle() : receive(net, rank == 1 ? 3 : 0, phantom(8));
      },
      2);
  EXPECT_TRUE(contains(error, "  cycle: 0 -> 2 -> 0")) << error;
}

TEST(SimulatedMistake, LongReportsAreCutShort) {
  Simulator simulator(1000, flat(), phantoms);
  const std::string error = error_of(
      simulator, [](int rank, Endpoint net) { return receive(net, (rank + 1) % net.size, phantom(8)); });
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 12);
  EXPECT_TRUE(contains(error, "  and 990 more")) << error;
  EXPECT_TRUE(
      contains(error, "  cycle: 0 -> 1 -> 2 -> 3 -> 4 -> 5 -> 6 -> 7 -> 8 -> 9 -> ... (1000 ranks) -> 0"))
      << error;
}

// The other side's message is named too: here it is on another lane.
TEST(SimulatedMistake, MessageOnTheWrongLaneIsShown) {
  Simulator simulator(2, flat(), phantoms);
  EXPECT_EQ(error_of(simulator,
                     [](int rank, Endpoint net) {
                       return rank == 0 ? send(net, 1, phantom(8), 3) : receive(net, 0, phantom(8));
                     }),
            "deadlock: 1 of 2 ranks never end\n"
            "  rank 1 waits to receive 8 bytes from rank 0 on lane 0, which has ended\n"
            "  rank 0 sent 8 bytes to rank 1 on lane 3, never received");
}

TEST(SimulatedMistake, LengthsMustAgree) {
  for (const SimulatedMachine& machine : {flat(), rendezvous()}) {
    for (const std::array<double, 2>& arrivals : {std::array<double, 2>{0, 1}, std::array<double, 2>{1, 0}}) {
      Simulator simulator(2, machine, phantoms);
      try {
        simulator.run(
            [](int rank, Endpoint net) {
              return rank == 0 ? send(net, 1, phantom(40)) : receive(net, 0, phantom(32));
            },
            arrivals);
        FAIL();
      } catch (const SimulationError& error) {
        EXPECT_STREQ(error.what(), "rank 0 sends 40 bytes to rank 1 on lane 0, which expects 32 bytes");
      }
    }
  }
}

TEST(SimulatedMistake, MessagesLeftOverAreNamed) {
  std::int64_t value = 1;
  Simulator simulator(2, flat());
  EXPECT_EQ(error_of(simulator,
                     [&](int rank, Endpoint net) { return rank == 0 ? send(net, 1, view(value)) : idle(); }),
            "all ranks have ended, but not all messages were received\n"
            "  rank 0 sent 8 bytes to rank 1 on lane 0, never received");
}

TEST(SimulatedMistake, PeersMustExistAndBuffersMustNotOverlap) {
  Simulator simulator(2, flat());
  std::vector<std::int64_t> values(3);
  const Vector data = view(values);
  EXPECT_EQ(error_of(simulator, [&](int rank, Endpoint net) { return send(net, rank, data); }),
            "rank 0 sends to, or receives from, itself");
  EXPECT_EQ(error_of(simulator, [&](int rank, Endpoint net) { return receive(net, rank + 2, data); }),
            "rank 0 wants a message to or from rank 2, but there are only 2 ranks");
  EXPECT_EQ(error_of(simulator,
                     [&](int rank, Endpoint net) {
                       return exchange(net, 1 - rank, data.slice(0, 2), data.slice(1, 2));
                     }),
            "rank 0 sends from and receives into overlapping memory");
}

TEST(SimulatedMistake, ExceptionsCarryTheRankAndTheirCause) {
  Simulator simulator(4, flat(), phantoms);
  try {
    simulator.run([](int rank, Endpoint net) {
      return rank == 2 ? throw_after_a_step(net) : receive_then_nothing(net);
    });
    FAIL();
  } catch (const SimulationError& error) {
    EXPECT_STREQ(error.what(), "rank 2: no such luck");
    EXPECT_THROW(std::rethrow_if_nested(error), std::out_of_range);
  }
  EXPECT_EQ(error_of(simulator,
                     [](int rank, Endpoint) -> Task {
                       if (rank == 1) throw 42;
                       return idle();
                     }),
            "rank 1: unknown exception");
  // And it is as good as new.
  simulator.run([](int, Endpoint net) { return recursive_doubling(net, phantom(8)); });
}

// The other branches would wait for ever: the mistake is reported, not the deadlock that follows from it.
TEST(SimulatedMistake, IsReportedFromABranchToo) {
  Simulator simulator(3, flat(), phantoms);
  const std::string error = error_of(
      simulator,
      [](int rank, Endpoint net) {
        return rank == 0 ? receive_from_each(net, 1, 2, 8) : rank == 1 ? send(net, 0, phantom(9)) : idle();
      },
      2);
  EXPECT_EQ(error, "rank 1 sends 9 bytes to rank 0 on lane 0, which expects 8 bytes");
}

TEST(SimulatedMistake, SettingsAreChecked) {
  EXPECT_THROW(Simulator(0, flat()), UsageError);
  SimulatedMachine machine;
  machine.ranks_per_node = 0;
  EXPECT_THROW(Simulator(2, machine), UsageError);
  machine = {};
  machine.node_of_rank = {0};
  EXPECT_THROW(Simulator(2, machine), UsageError);
  machine.node_of_rank = {0, -1};
  EXPECT_THROW(Simulator(2, machine), UsageError);
  machine = {};
  machine.injection_rate = 0;
  EXPECT_THROW(Simulator(2, machine), UsageError);
  machine = {};
  machine.gamma = -1;
  EXPECT_THROW(Simulator(2, machine), UsageError);
  Simulator simulator(2, flat());
  const auto run = [&](std::vector<double> arrivals) {
    simulator.run([](int, Endpoint) { return idle(); }, arrivals);
  };
  EXPECT_THROW(run({1}), UsageError);
  EXPECT_THROW(run({1, -1}), UsageError);
  EXPECT_THROW(run({1, std::numeric_limits<double>::infinity()}), UsageError);
  EXPECT_NO_THROW(run({1, 0}));
}

// The queue.

TEST(SimulatedEvents, ComeOutInOrder) {
  std::mt19937 random(1);
  for (int distinct_delays : {1, 3, 20, 1000}) {
    SimulatedEvents events;
    const auto after = [](const SimulatedEvent& left, const SimulatedEvent& right) {
      return right.before(left);
    };
    std::priority_queue<SimulatedEvent, std::vector<SimulatedEvent>, decltype(after)> expected(after);
    double now = 0;
    for (std::uint64_t sequence = 0; sequence < 20000 || !expected.empty();) {
      if (sequence < 20000 && (expected.empty() || random() % 100 < 52)) {
        const double delay = static_cast<double>(random() % static_cast<unsigned>(distinct_delays));
        const SimulatedEvent event{now + delay, sequence++, nullptr, 0, SimulatedEvent::Kind::resume};
        events.push(event);
        expected.push(event);
      } else {
        const SimulatedEvent event = events.pop();
        ASSERT_EQ(event.sequence, expected.top().sequence);
        expected.pop();
        now = event.time;
      }
      ASSERT_EQ(events.empty(), expected.empty());
    }
  }
}

// What an algorithm says about its call, beside the data.
TEST(Phantoms, TheHeadOfAMessageIsData) {
  for (const SimulatedMachine& machine : {flat(), rendezvous()}) {
    Simulator simulator(2, machine, phantoms);
    std::array<unsigned char, 16> received{};
    const auto make = [&](int rank, Endpoint net) -> Task {
      return [](Endpoint net, int rank, std::array<unsigned char, 16>& received) -> Task {
        const Scratch bytes = net.scratch(1000, 1, 8);
        if (rank == 0) {
          std::fill_n(bytes.vector().data, 8, std::byte{7});
          co_await net.send(1, bytes.vector(), 8);
        } else {
          std::fill_n(bytes.vector().data, 8, std::byte{1});
          co_await net.receive(0, bytes.vector());
          std::memcpy(received.data(), bytes.vector().data, 8);
          co_await net.receive(0, Vector{reinterpret_cast<std::byte*>(received.data()) + 8, 8, 1});
        }
        if (rank == 0) co_await net.send(1, Vector{reinterpret_cast<std::byte*>(received.data()), 8, 1});
      }(net, rank, received);
    };
    EXPECT_EQ(simulator.run(make).bytes, 1008U);
    const std::array<unsigned char, 16> expected{7, 7, 7, 7, 7, 7, 7, 7};
    EXPECT_EQ(received, expected);
  }
}

}  // namespace
}  // namespace offbeat
