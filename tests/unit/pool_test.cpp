// SPDX-License-Identifier: BSD-3-Clause
#include "base/pool.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "collectives/algorithm.hpp"
#include "simulator/simulator.hpp"

namespace offbeat {
namespace {

class Pool : public testing::Test {
 protected:
  void SetUp() override { pool::set_cache_limit(std::size_t{256} << 20); }
  void TearDown() override { pool::trim(); }
};

TEST_F(Pool, GivesAlignedMemoryAndReusesIt) {
  void* first = pool::allocate(1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % pool::alignment, 0U);
  std::memset(first, 1, 1000);
  pool::release(first, 1000);
  const std::uint64_t before = pool::malloc_calls();
  void* second = pool::allocate(700);  // the same class
  EXPECT_EQ(second, first);
  EXPECT_EQ(pool::malloc_calls(), before);
  pool::release(second, 700);
}

TEST_F(Pool, ABlockMayBeFreedInAnotherThread) {
  void* block = pool::allocate(100000);
  std::thread([block] { pool::release(block, 100000); }).join();
}

TEST_F(Pool, KeepsNoMoreThanItsLimit) {
  pool::trim();
  pool::set_cache_limit(4096);
  std::vector<void*> blocks;
  for (int k = 0; k < 8; ++k) blocks.push_back(pool::allocate(1024));
  for (void* block : blocks) pool::release(block, 1024);
  const std::uint64_t before = pool::malloc_calls();
  for (void*& block : blocks) block = pool::allocate(1024);
  EXPECT_EQ(pool::malloc_calls() - before, 4U);  // four came from the cache
  for (void* block : blocks) pool::release(block, 1024);
}

// The promise behind it: the second call of a collective allocates nothing.
TEST_F(Pool, ASteadyCollectiveDoesNotAllocate) {
  const Reduction sum(ElementType::float32, ReduceOp::sum);
  for (const char* text : {"recursive_doubling", "ring", "rabenseifner", "arrival_owners",
                           "pipeline(4, ring)", "grid(2x2, ring)"}) {
    const Expression expression = parse_expression(Collective::allreduce, text);
    std::vector<std::vector<float>> data(5, std::vector<float>(1000, 1.0F));
    Simulator simulator(5, {.inter_alpha = 1e-6});
    const auto once = [&] {
      simulator.run(
          [&](int rank, Endpoint net) {
            auto* bytes = reinterpret_cast<std::byte*>(data[static_cast<std::size_t>(rank)].data());
            return carry_out(net, {Collective::allreduce, {bytes, 1000, 4}, {bytes, 1000, 4}, &sum},
                             expression);
          },
          {}, expression.lanes());
    };
    once();
    const std::uint64_t before = pool::malloc_calls();
    for (int k = 0; k < 5; ++k) once();
    EXPECT_EQ(pool::malloc_calls(), before) << text;
  }
}

}  // namespace
}  // namespace offbeat
