// SPDX-License-Identifier: BSD-3-Clause
// Compares what an algorithm puts into windows with what it says that it leases. The ranks are threads on a
// real board, or simulated ranks on several nodes. The windows are zero before each call.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "checked_calls.hpp"
#include "collectives/repertoire.hpp"
#include "node/board.hpp"
#include "node/membership.hpp"
#include "node_shapes.hpp"
#include "support/board_only.hpp"

namespace offbeat {
namespace {

constexpr std::size_t window_bytes = 16 * BoardShape::smallest_chunk;

class Leases : public testing::TestWithParam<int> {};

// Returns how many bytes of one half of a window are in words that are not zero.
std::size_t touched(const Board& board, std::uint64_t half, int owner) {
  std::size_t bytes = 0;
  for (std::size_t k = 0; k < board.shape().window_bytes; k += sizeof(Bits)) {
    Bits word = 0;
    std::memcpy(&word, board.window(half, owner) + k, sizeof word);
    bytes += word != 0 ? sizeof word : 0;
  }
  return bytes;
}

TEST_P(Leases, CoverWhatIsPutIntoWindows) {
  const int ranks = GetParam();
  const BoardShape shape{ranks, window_bytes};
  struct Free {
    void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{4096}); }
  };
  const std::unique_ptr<std::byte, Free> memory(
      static_cast<std::byte*>(::operator new (shape.total_bytes(), std::align_val_t{4096})));

  for (const Collective collective : checked_collectives) {
    for (const Algorithm* algorithm : repertoire(collective).algorithms) {
      if (algorithm->needs.board != OnBoard::one_node || !algorithm->parameters.empty()) continue;
      Expression expression;
      expression.algorithm = algorithm;
      for (const std::size_t count : {10, 700, 3000, 9000}) {
        CheckedCalls checked(ranks, {collective, count, ranks / 2});
        std::memset(memory.get(), 0, shape.total_bytes());
        std::vector<std::size_t> leased(static_cast<std::size_t>(ranks));
        std::barrier all(ranks);
        {
          std::vector<std::jthread> threads;
          for (int rank = 0; rank < ranks; ++rank) {
            threads.emplace_back([&, rank] {
              Board board(memory.get(), shape, rank, {.shares_cores = true, .sleep_after_ns = ns_per_ms});
              BoardOnly transport;
              transport.board = &board;
              const Call call = checked.args(rank);
              leased[static_cast<std::size_t>(rank)] = expression.lease(call, rank, ranks, ranks);
              // Two ranks swap places every second time that they use a half.
              for (int time = 0; time < 4; ++time) {
                finish(carry_out(Endpoint(transport, rank, ranks), call, expression));
                all.arrive_and_wait();
              }
            });
          }
        }
        const Board board(memory.get(), shape, 0, {});
        for (int rank = 0; rank < ranks; ++rank) {
          const std::size_t mine = leased[static_cast<std::size_t>(rank)];
          for (const std::uint64_t half : {0, 1}) {
            EXPECT_LE(touched(board, half, rank), mine)
                << algorithm->name << " of " << name_of(collective) << ", " << count << " elements, rank "
                << rank << " of " << ranks;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Leases, testing::Values(2, 3, 6, 18), testing::PrintToStringParamName());

// Returns hierarchies and lanes with each algorithm for a node.
std::vector<Expression> expressions_of_phases(Collective collective) {
  const Repertoire& all = repertoire(collective);
  std::vector<Expression> found;
  for (const Algorithm* algorithm : all.algorithms) {
    if (algorithm->needs.board != OnBoard::every_node) continue;
    for (const Algorithm* node : all.algorithms) {
      const bool is_for_nodes = node->needs.board == OnBoard::one_node && node->parameters.empty() &&
                                (collective != Collective::allreduce || node->node_phase != nullptr);
      if (is_for_nodes)
        found.push_back(parse_expression(collective, std::string(algorithm->name) + "(" +
                                                         std::string(node->name) + ", " +
                                                         std::string(all.without_host) + ")"));
    }
  }
  return found;
}

TEST(Leases, CoverWhatHierarchiesAndLanesPut) {
  constexpr int ranks = 12;
  for (const NodeShape& shape : node_shapes) {
    if (shape.is_small && &shape != &node_shapes.front()) continue;
    SCOPED_TRACE(shape.name);
    const std::vector<int> node_of_rank = shape.of(ranks);
    const Membership membership = membership_of(node_of_rank);
    for (const Collective collective : checked_collectives) {
      for (const Expression& expression : expressions_of_phases(collective)) {
        if (!expression.why_unsuitable(placement_of(membership)).empty()) continue;
        for (const std::size_t count : {10, 3000}) {
          CheckedCalls checked(ranks, {collective, count, ranks / 2});
          SimulatedMachine machine;
          machine.node_of_rank = node_of_rank;
          Simulator simulator(ranks, machine, {.board_window_bytes = 4 * window_bytes});
          std::vector<const Board*> boards(ranks);
          std::vector<std::size_t> leased(ranks);
          simulator.run(
              [&](int rank, Endpoint net) {
                const auto index = static_cast<std::size_t>(rank);
                const Call call = checked.args(rank);
                boards[index] = net.board();
                leased[index] =
                    expression.lease(call, rank, ranks, membership.size(membership.node_of(rank)));
                return carry_out(net, call, expression);
              },
              {}, expression.lanes());
          for (int rank = 0; rank < ranks; ++rank) {
            const auto index = static_cast<std::size_t>(rank);
            for (const std::uint64_t half : {0, 1}) {
              EXPECT_LE(touched(*boards[index], half, membership.member_of(rank)), leased[index])
                  << expression.canonical_text() << " of " << name_of(collective) << ", " << count
                  << " elements, rank " << rank;
            }
          }
        }
      }
    }
  }
}

TEST(Leases, OfPhasesAreThoseOfTheVectorsInThem) {
  constexpr int ranks = 12;
  const auto lease = [&](Collective collective, std::string_view text, int node_ranks) {
    CheckedCalls checked(ranks, {collective, 3000});
    return parse_expression(collective, text).lease(checked.args(1), 1, ranks, node_ranks);
  };
  const auto bytes = [&](Collective collective) {
    return CheckedCalls(ranks, {collective, 3000}).args(1).input.bytes();
  };
  constexpr auto blocks = Collective::reduce_scatter_block;
  EXPECT_EQ(lease(blocks, "lanes(arrival_shares, ring)", 4), bytes(blocks));
  const std::size_t pieces = 4 * BoardShape::smallest_chunk;
  EXPECT_EQ(lease(blocks, "hierarchy(arrival_shares, ring)", 4), bytes(blocks) + pieces);
  EXPECT_EQ(lease(Collective::alltoall, "lanes(arrival_direct, linear)", 4),
            bytes(Collective::alltoall) + pieces);
  for (const std::string node : {"arrival_direct", "arrival_shares"})
    EXPECT_EQ(lease(blocks, "lanes(" + node + ", ring)", ranks), lease(blocks, node, ranks));
}

// The length by which an algorithm for alltoallv is chosen is 0, because no rank knows the lengths of all.
TEST(Leases, AreNotLengths) {
  CheckedCalls checked(3, {Collective::alltoallv, 9000});
  Expression expression;
  for (const Algorithm* each : repertoire(Collective::alltoallv).algorithms) {
    if (each->name == "arrival_direct") expression.algorithm = each;
  }
  ASSERT_NE(expression.algorithm, nullptr);
  const Call call = checked.args(0);
  EXPECT_EQ(call.length(3), 0U);
  EXPECT_GE(expression.lease(call, 0, 3, 3), 9000 * sizeof(Bits));
}

}  // namespace
}  // namespace offbeat
