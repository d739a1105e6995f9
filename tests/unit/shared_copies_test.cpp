// SPDX-License-Identifier: BSD-3-Clause
// How copies into windows learn which way costs less. Costs are made up; bytes are copied for real.
#include "node/shared_copies.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace offbeat {
namespace {

// What a line costs now, in ns, and what was called.
double to_shared_ns = 0;
double past_cache_ns = 0;
double time_ns = 0;
int past_cache_calls = 0;
int clock_calls = 0;

constexpr CopyFunctions made_up{
    .to_shared =
        [](void* to, const void* from, std::size_t bytes) {
          std::memcpy(to, from, bytes);
          time_ns += to_shared_ns * static_cast<double>(bytes) / cache_line;
        },
    .past_cache =
        [](void* to, const void* from, std::size_t bytes) {
          std::memcpy(to, from, bytes);
          time_ns += past_cache_ns * static_cast<double>(bytes) / cache_line;
          ++past_cache_calls;
        },
    .now_ns =
        [] {
          ++clock_calls;
          return static_cast<std::int64_t>(time_ns);
        },
};

class SharedCopiesTest : public testing::Test {
 protected:
  void SetUp() override { time_ns = past_cache_calls = clock_calls = 0; }

  // Returns how many of `copies` copies go past the cache.
  int past_cache(int copies, std::size_t bytes = 65536) {
    const int before = past_cache_calls;
    std::vector<char> from(bytes), to(bytes);
    for (int k = 0; k < copies; ++k) {
      from.assign(bytes, static_cast<char>(k));
      copies_.copy(to.data(), from.data(), bytes, made_up);
      EXPECT_EQ(from, to);
    }
    return past_cache_calls - before;
  }

  SharedCopies copies_;
};

TEST_F(SharedCopiesTest, StayInTheCacheOfACoreThatIsNear) {
  to_shared_ns = 3;
  past_cache_ns = 2;
  EXPECT_EQ(past_cache(1000), 0);
  EXPECT_LE(clock_calls, 2 * 1000 / 16 + 2) << "most are not measured";
}

TEST_F(SharedCopiesTest, GoPastTheCacheOfACoreThatIsFarUntilItIsNear) {
  to_shared_ns = 30;
  past_cache_ns = 2;
  past_cache(10);
  EXPECT_GE(past_cache(1000), 950);
  to_shared_ns = 3;
  past_cache(100);
  EXPECT_EQ(past_cache(1000), 0);
}

TEST_F(SharedCopiesTest, AnInterruptionChangesNothing) {
  past_cache_ns = 2;
  for (int k = 0; k < 100; ++k) {
    to_shared_ns = 300;
    EXPECT_EQ(past_cache(1), 0);
    to_shared_ns = 3;
    EXPECT_EQ(past_cache(20), 0);
  }
}

TEST_F(SharedCopiesTest, WhereTheSourceIsSlowBothWaysAreAndNothingChanges) {
  to_shared_ns = 30;
  past_cache_ns = 20;
  EXPECT_LE(past_cache(1000), 1000 / 128 + 2) << "tries";
}

TEST_F(SharedCopiesTest, ShortOnesAreNeverMeasured) {
  to_shared_ns = 30;
  EXPECT_EQ(past_cache(1000, 1024), 0);
  EXPECT_EQ(clock_calls, 0);
}

}  // namespace
}  // namespace offbeat
