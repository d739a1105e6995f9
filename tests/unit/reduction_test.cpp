// SPDX-License-Identifier: BSD-3-Clause
// Reductions through the host: the order and the untouched operands that PMPI_Reduce_local alone does not
// give.
#include "reduction/reduction.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

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

}  // namespace
}  // namespace offbeat
