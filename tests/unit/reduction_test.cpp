// SPDX-License-Identifier: BSD-3-Clause
// Reductions through the host: the order and the untouched operands that PMPI_Reduce_local alone does not
// give. And what a step of arrival_tree makes of them.
#include "reduction/reduction.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "base/pool.hpp"
#include "transport/transport.hpp"

namespace offbeat {
namespace {

// Keeps the order visible: left * 3 + right, modulo 2^64.
class OrderedHost final : public HostCombine {
 public:
  void combine(const void* left, void* right, std::size_t count) const override {
    const auto* a = static_cast<const std::uint64_t*>(left);
    auto* b = static_cast<std::uint64_t*>(right);
    for (std::size_t k = 0; k < count; ++k) b[k] = a[k] * 3 + b[k];
  }
};

TEST(HostReduction, CombinesLeftToRightWhateverTheDestination) {
  const OrderedHost host;
  const Reduction reduction(sizeof(std::uint64_t), host);
  constexpr std::size_t count = 5000;  // more than one block
  for (std::size_t operand_count = 1; operand_count <= 8; ++operand_count) {
    for (std::size_t alias = 0; alias <= operand_count; ++alias) {  // operand_count: a destination of its own
      std::vector<std::vector<std::uint64_t>> operands(operand_count + 1, std::vector<std::uint64_t>(count));
      std::vector<const void*> pointers;
      std::vector<std::uint64_t> expected(count);
      for (std::size_t k = 0; k < operand_count; ++k) {
        for (std::size_t i = 0; i < count; ++i) {
          operands[k][i] = i * 17 + k * 1000003;
          expected[i] = k == 0 ? operands[k][i] : expected[i] * 3 + operands[k][i];
        }
        pointers.push_back(operands[k].data());
      }
      const auto before = operands;
      reduction(operands[alias].data(), pointers.data(), operand_count, count);
      EXPECT_EQ(operands[alias], expected) << operand_count << " operands, destination " << alias;
      for (std::size_t k = 0; k < operand_count; ++k) {
        if (k != alias) {
          EXPECT_EQ(operands[k], before[k]);
        }
      }
    }
  }
}

TEST(HostReduction, ElementsLargerThanABlock) {
  struct Wide final : HostCombine {
    void combine(const void* left, void* right, std::size_t count) const override {
      const auto* a = static_cast<const std::uint8_t*>(left);
      auto* b = static_cast<std::uint8_t*>(right);
      for (std::size_t k = 0; k < count * 100000; ++k) b[k] = static_cast<std::uint8_t>(a[k] + b[k]);
    }
  };
  const Wide host;
  const Reduction reduction(100000, host);
  const std::vector<std::uint8_t> a(300000, 3);
  const std::vector<std::uint8_t> b(300000, 4);
  std::vector<std::uint8_t> result(300000);
  const void* operands[] = {a.data(), b.data()};
  reduction(result.data(), operands, 2, 3);
  EXPECT_EQ(result, std::vector<std::uint8_t>(300000, 7));
}

TEST(HostReduction, AFailureOfTheHostLosesNoMemory) {
  struct Failing final : HostCombine {
    void combine(const void*, void*, std::size_t) const override { throw std::runtime_error("the host's"); }
  };
  const Failing host;
  const Reduction reduction(sizeof(std::uint64_t), host);
  std::vector<std::uint64_t> vector(5000);
  const void* operands[] = {vector.data(), vector.data()};
  const std::size_t limit = pool::set_cache_limit(std::size_t{1} << 20);
  const auto fail = [&] {
    EXPECT_THROW(reduction(vector.data(), operands, 2, vector.size()), std::runtime_error);
  };
  fail();
  const std::uint64_t before = pool::malloc_calls();
  for (int k = 0; k < 5; ++k) fail();
  EXPECT_EQ(pool::malloc_calls(), before) << "a block that went back to the pool would have been used again";
  pool::trim();
  pool::set_cache_limit(limit);
}

Vector vector_of(std::vector<std::uint64_t>& elements) {
  return {reinterpret_cast<std::byte*>(elements.data()), elements.size(), sizeof(std::uint64_t)};
}

// A user's operation gets its vector whole, however long it is.
TEST(Computation, CombinesLongObjects) {
  static constexpr std::size_t length = 20000;
  struct Objects final : HostCombine {
    void combine(const void* left, void* right, std::size_t count) const override {
      host.combine(left, right, count * length);
    }
    OrderedHost host;
  };
  const Objects host;
  const Reduction reduction(length * sizeof(std::uint64_t), host);
  const std::vector<std::uint64_t> a(length, 5);
  const std::vector<std::uint64_t> b(length, 70);
  const std::vector<std::uint64_t> c(length, 900);
  std::vector<std::uint64_t> result(length);
  Computation work{.transport = nullptr,
                   .reduction = &reduction,
                   .destination = {reinterpret_cast<std::byte*>(result.data()), 1, reduction.width},
                   .operands = {a.data()},
                   .operand_count = 1};
  work.add(b.data(), true);
  work.add(c.data(), false);
  work.perform();
  EXPECT_EQ(result, std::vector<std::uint64_t>(length, (70 * 3 + 5) * 3 + 900));
}

TEST(Computation, CombinesInTreeOrder) {
  const OrderedHost host;
  const Reduction reduction(sizeof(std::uint64_t), host);
  constexpr std::size_t count = 5000;  // more than one block
  std::vector<std::uint64_t> mine(count);
  std::vector<std::uint64_t> neighbour(count);
  std::vector<std::uint64_t> others(count);
  std::vector<std::uint64_t> output(count);
  std::vector<std::uint64_t> expected(count);
  for (std::size_t k = 0; k < count; ++k) {
    mine[k] = k | 1U << 20;
    neighbour[k] = k * 17 | 1U << 20;
    others[k] = k * 31 | 1U << 20;
    expected[k] = others[k] * 3 + (mine[k] * 3 + neighbour[k]);
  }
  const auto mine_before = mine;
  const auto neighbour_before = neighbour;
  Computation computation{.transport = nullptr,
                          .reduction = &reduction,
                          .destination = vector_of(others),
                          .operands = {mine.data()},
                          .operand_count = 1};
  computation.add(neighbour.data(), false);
  computation.add(others.data(), true);
  computation.second_destination = vector_of(output);
  computation.perform();
  EXPECT_EQ(others, expected);
  EXPECT_EQ(output, expected);
  EXPECT_EQ(mine, mine_before);
  EXPECT_EQ(neighbour, neighbour_before);
}

}  // namespace
}  // namespace offbeat
