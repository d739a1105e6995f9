// SPDX-License-Identifier: BSD-3-Clause
// How long to spin: which ranks have cores of their own; and how a sleeper is woken.
#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdio>
#include <fstream>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include "transport/node/cores.hpp"
#include "transport/node/patience.hpp"

namespace offbeat {
namespace {

CoreSet cores(std::initializer_list<int> numbers) {
  CoreSet result{};
  for (const int number : numbers) CPU_SET(static_cast<unsigned>(number), &result.set);
  return result;
}

bool share(const std::vector<CoreSet>& processes) { return must_share_cores(processes); }

TEST(Cores, AreEnoughForOneProcessEach) {
  EXPECT_FALSE(share({cores({0})}));
  EXPECT_FALSE(share({cores({0, 1}), cores({0, 1})}));
  EXPECT_FALSE(share({cores({0}), cores({1}), cores({70}), cores({1023})}));
  EXPECT_FALSE(share({cores({0, 1, 2, 3}), cores({0, 1}), cores({0, 1}), cores({3})}));
}

TEST(Cores, AreSharedWhenRanksOutnumberThem) {
  EXPECT_TRUE(share({cores({0, 1}), cores({0, 1}), cores({0, 1})}));
}

TEST(Cores, AreSharedWhenTwoRanksArePinnedToOneThoughThereAreMore) {
  EXPECT_TRUE(share({cores({2}), cores({2}), cores({0, 1, 2, 3, 4, 5})}));
  EXPECT_TRUE(share({cores({0, 1}), cores({0, 1}), cores({1}), cores({4, 5, 6, 7})}));
}

TEST(Cores, TogetherAreThoseOfAny) {
  EXPECT_EQ(together(std::vector{cores({0, 1}), cores({1, 70}), cores({0})}).count(), 3);
  EXPECT_EQ(together({}).count(), 0);
}

TEST(Cores, OfThisProcessAreSome) {
  EXPECT_GE(CoreSet::of_this_process().count(), 1);
  EXPECT_TRUE(share(std::vector<CoreSet>(1025, CoreSet::of_this_process())));
}

TEST(Cores, AreLimitedByTheControlGroup) {
  const std::string file = testing::TempDir() + "cpu.max";
  const auto quota = [&](const char* text) {
    std::ofstream(file) << text;
    return core_quota(file.c_str());
  };
  EXPECT_EQ(quota("200000 100000\n"), 2);
  EXPECT_EQ(quota("150000 100000\n"), 2);
  EXPECT_EQ(quota("5000 100000\n"), 1);
  EXPECT_EQ(quota("max 100000\n"), INT_MAX);
  EXPECT_EQ(quota(""), INT_MAX);
  std::remove(file.c_str());
  EXPECT_EQ(core_quota(file.c_str()), INT_MAX);
}

double seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(Bell, WakesWhoSleepsAndTellsItFromATimeOut) {
  Bell bell;
  bell.hang_up();
  EXPECT_FALSE(bell.sleep(1e-3));
  bell.ring();
  EXPECT_TRUE(bell.sleep(0.9)) << "it rang before";

  // Rung again and again, so that the test does not depend on who runs first: one ring in the sleep is
  // enough.
  std::atomic<bool> awake{false};
  bell.hang_up();
  std::jthread ringer([&] {
    while (!awake) {
      bell.ring();
      std::this_thread::yield();
    }
  });
  EXPECT_TRUE(bell.sleep(0.9));
  awake = true;
}

// Nobody rings: this is what a bell that is missed comes to.
TEST(Patience, NeedsNoBellToSeeWhatItWaitsFor) {
  Bell bell;
  for (Bell* rung : {&bell, static_cast<Bell*>(nullptr)}) {
    const Patience patience{.shares_cores = true, .sleep_after_s = 0, .bell = rung};
    std::atomic<bool> there{false};
    std::jthread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      there = true;
    });
    Patience::Wait wait(patience);
    while (!there) wait.pause();
  }
}

TEST(Patience, SleepsInALongWait) {
  for (const bool core_is_wanted : {true, false}) {
    Bell bell;
    const Patience patience{.shares_cores = true, .bell = &bell};
    const double end = seconds(CLOCK_MONOTONIC) + 0.3;
    const double used_before = seconds(CLOCK_THREAD_CPUTIME_ID);
    Patience::Wait wait(patience);
    while (seconds(CLOCK_MONOTONIC) < end) wait.pause(core_is_wanted);
    EXPECT_LT(seconds(CLOCK_THREAD_CPUTIME_ID) - used_before, 0.15);
  }
}

TEST(Patience, CallsProgressAndReportsAStallOnceAndItsEnd) {
  struct Seen {
    int progress = 0;
    int stalls = 0;
    int ends = 0;
  } seen;
  for (const bool shares : {false, true}) {
    seen = {};
    Bell bell;
    const Patience patience{
        .shares_cores = shares,
        .bell = &bell,
        .progress = {.call = [](void* state) { ++static_cast<Seen*>(state)->progress; }, .state = &seen},
        .stall = {.after_s = 0.02,
                  .call =
                      [](void* state, double, bool over) {
                        ++(over ? static_cast<Seen*>(state)->ends : static_cast<Seen*>(state)->stalls);
                      },
                  .state = &seen}};
    {
      Patience::Wait wait(patience);
      while (seen.stalls == 0) wait.pause();
      for (int k = 0; k < 200; ++k) wait.pause();
      EXPECT_EQ(seen.ends, 0);
    }
    EXPECT_GT(seen.progress, 0);
    EXPECT_EQ(seen.stalls, 1);
    EXPECT_EQ(seen.ends, 1);
  }
}

}  // namespace
}  // namespace offbeat
