// SPDX-License-Identifier: BSD-3-Clause
#include "selection/trial.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace offbeat {
namespace {

using TimeOf = std::uint64_t (*)(std::size_t alternative, std::uint64_t call);

// Runs calls on one rank, or on several whose times are combined, and notes which alternative each call took.
struct Ranks {
  explicit Ranks(std::size_t alternatives, CombineTimes combine = CombineTimes::shortest, int ranks = 1,
                 std::size_t in_a_row = 1)
      : combine_(combine), trials(static_cast<std::size_t>(ranks), Trial(alternatives, combine, in_a_row)) {}

  template <class Time>  // Time(rank, alternative, call)
  void run(int calls, const Time& time) {
    for (int k = 0; k < calls; ++k) {
      const std::size_t now = trials.front().next();
      for (std::size_t rank = 0; rank < trials.size(); ++rank) {
        Trial& mine = trials[rank];
        ASSERT_EQ(mine.next(), now) << "rank " << rank << ", call " << taken.size();
        if (mine.try_count_call()) continue;
        const std::size_t slot = mine.count_call();
        if (slot != Trial::no_slot) mine.set_time(slot, time(rank, now, taken.size()));
      }
      taken.push_back(now);
      if (trials.front().is_due()) agree();
    }
  }
  void agree() {
    ++agreements;
    std::vector<std::uint64_t> all(trials.front().times().begin(), trials.front().times().end());
    for (Trial& each : trials) {
      ASSERT_TRUE(each.is_due());
      for (std::size_t k = 0; k < all.size(); ++k) {
        all[k] = combine_ == CombineTimes::shortest ? std::min(all[k], each.times()[k])
                                                    : std::max(all[k], each.times()[k]);
      }
    }
    const bool first = decide(trials.front(), all);
    for (std::size_t rank = 1; rank < trials.size(); ++rank) ASSERT_EQ(decide(trials[rank], all), first);
  }
  static bool decide(Trial& trial, const std::vector<std::uint64_t>& all) {
    std::ranges::copy(all, trial.times().begin());
    return trial.decide();
  }
  [[nodiscard]] long count_of(std::size_t alternative) const {
    return std::ranges::count(taken, alternative);
  }

  CombineTimes combine_;
  std::vector<Trial> trials;
  std::vector<std::size_t> taken;
  int agreements = 0;
};

TEST(Trial, PinsTheFastestOne) {
  Ranks ranks(3);
  ranks.run(200, [](auto, std::size_t alternative, auto) { return alternative == 1 ? 900U : 1000U; });
  EXPECT_EQ(ranks.trials.front().pinned(), 1U);
  EXPECT_EQ(ranks.taken.back(), 1U);
  EXPECT_EQ(ranks.trials.front().estimate(0), 1000U);
  EXPECT_EQ(ranks.trials.front().estimate(1), 900U);
}

TEST(Trial, TheFirstOneWinsUnlessAnotherIsClearlyFaster) {
  Ranks ranks(2);
  ranks.run(5000, [](auto, std::size_t alternative, auto) { return alternative == 1 ? 975U : 1000U; });
  EXPECT_EQ(ranks.trials.front().pinned(), 0U);
}

TEST(Trial, CallsAreMeasuredInEqualShares) {
  Ranks ranks(2);
  ranks.run(32, [](auto, auto, auto) { return 1000U; });
  EXPECT_EQ(ranks.count_of(0), 16);
  EXPECT_EQ(ranks.count_of(1), 16);
}

// The cost of a trial is bounded: an alternative that is far behind runs in few calls.
TEST(Trial, WhatIsHopelessIsDroppedAtOnce) {
  Ranks ranks(2);
  ranks.run(10'000, [](auto, std::size_t alternative, auto) { return alternative == 1 ? 20'000U : 1000U; });
  // It loses the time of 2 * 19 calls, so it is measured again only after 200 times as many calls.
  EXPECT_EQ(ranks.count_of(1), 2 * 2);
}

TEST(Trial, WhatWasHopelessGetsAnotherChance) {
  Ranks ranks(3);
  ranks.run(10'000, [](auto, std::size_t alternative, std::size_t call) {
    if (alternative == 0) return 1000U;
    return call > 400 && alternative == 2 ? 500U : 20'000U;
  });
  EXPECT_EQ(ranks.trials.front().pinned(), 2U);
  EXPECT_EQ(std::ranges::count(ranks.taken.begin() + 6, ranks.taken.begin() + 7600, 2U), 0);
}

TEST(Trial, WhatIsSlowerRunsInFewCalls) {
  for (const auto& [time, calls] : {std::pair{2000U, 4 + 5 * 4}, std::pair{1400U, 8 + 5 * 8}}) {
    Ranks ranks(2);
    ranks.run(10'000, [=, slow = time](auto, std::size_t alternative, auto) {
      return alternative == 1 ? slow : 1000U;
    });
    EXPECT_EQ(ranks.count_of(1), calls) << time;
  }
}

TEST(Trial, WhatIsLittleSlowerRunsInFewCalls) {
  Ranks ranks(2);
  ranks.run(10'000, [](auto, std::size_t alternative, auto) { return alternative == 1 ? 1200U : 1000U; });
  EXPECT_EQ(ranks.count_of(1), 16 + 5 * 8);
}

TEST(Trial, WhatASlowerOneCostsHasABound) {
  for (const unsigned slower : {1050U, 1200U, 1400U, 1600U, 2000U, 3900U, 5000U, 10'000U, 50'000U}) {
    Ranks ranks(2);
    ranks.run(10'000, [=](auto, std::size_t alternative, auto) { return alternative == 1 ? slower : 1000U; });
    EXPECT_LE(static_cast<double>(ranks.count_of(1)) * (slower - 1000), 0.01 * 10'000 * 1000) << slower;
  }
}

// A slow alternative is measured rarely. That must not keep another one from being measured.
TEST(Trial, EachAlternativeWaitsForItself) {
  Ranks ranks(3);
  ranks.run(2000, [](auto, std::size_t alternative, std::size_t call) {
    if (alternative == 1) return 50'000U;
    return alternative == 0 || call < 100 ? 1000U : 700U;
  });
  EXPECT_EQ(ranks.trials.front().pinned(), 2U);
  EXPECT_EQ(ranks.count_of(1), 2);
}

// Otherwise the ranks would decide from different times.
TEST(Trial, ATimeThatComesAfterTheRanksHaveMetIsDropped) {
  Trial trial(2, CombineTimes::shortest);
  const std::size_t early = trial.count_call();
  while (!trial.is_due()) trial.set_time(trial.count_call(), 1000);
  const auto times = trial.times();
  const std::vector<std::uint64_t> before(times.begin(), times.end());
  ASSERT_FALSE(trial.decide());
  trial.set_time(early, 1);
  EXPECT_EQ(std::vector<std::uint64_t>(times.begin(), times.end()), before);
}

TEST(Trial, AnInterruptedCallChangesNothing) {
  Ranks ranks(2);
  std::mt19937 random(7);
  ranks.run(10'000, [&](auto, std::size_t alternative, auto) {
    const bool is_interrupted = random() % 16 == 0;
    return (alternative == 0 ? 1000U : 1100U) + (is_interrupted ? 3'000'000U : 0U);
  });
  EXPECT_EQ(ranks.trials.front().pinned(), 0U);
  EXPECT_LT(ranks.count_of(1), 300);
}

TEST(Trial, OpensAgainAndFollowsAChange) {
  Ranks ranks(2);
  const auto change = 3000U;
  ranks.run(8000, [](auto, std::size_t alternative, std::size_t call) {
    return (alternative == 0) == (call < change) ? 1000U : 2000U;
  });
  EXPECT_EQ(ranks.trials.front().pinned(), 1U);
  EXPECT_EQ(ranks.taken[change - 1], 0U);
  EXPECT_LT(std::ranges::count(ranks.taken.begin() + 2 * change, ranks.taken.end(), 0U), 50);
}

// The calls of a program may be long and short in turns. No alternative may get only the short ones.
TEST(Trial, PatternsOfCallsDoNotDecide) {
  for (const std::size_t period : {2U, 4U, 8U}) {
    Ranks ranks(2);
    ranks.run(10'000, [=](auto, std::size_t alternative, std::size_t call) {
      return (alternative == 0 ? 1000U : 1100U) * (call % period < period / 2 ? 1U : 2U);
    });
    EXPECT_EQ(ranks.trials.front().pinned(), 0U) << period;
  }
}

// The last rank to arrive waits least. Others wait for it, whatever the alternative.
TEST(Trial, LateRanksDoNotDecide) {
  Ranks ranks(2, CombineTimes::shortest, 4);
  std::mt19937 random(3);
  ranks.run(2000, [&](std::size_t rank, std::size_t alternative, std::size_t call) {
    const std::uint64_t algorithm = alternative == 0 ? 1000 : 900;
    const bool is_last = rank == call % 4;
    return algorithm + (is_last ? 0 : random() % 100'000);
  });
  EXPECT_EQ(ranks.trials.front().pinned(), 1U);
}

TEST(Trial, ALeafThatLeavesEarlyDoesNotDecide) {
  EXPECT_EQ(combine_times(Collective::bcast), CombineTimes::longest);
  EXPECT_EQ(combine_times(Collective::alltoallv), CombineTimes::shortest);
  Ranks ranks(2, CombineTimes::longest, 3);
  ranks.run(100, [](std::size_t rank, std::size_t alternative, auto) -> std::uint64_t {
    if (alternative == 0) return 1000;
    return rank == 0 ? 10 : 1200;  // the root leaves early, the others later
  });
  EXPECT_EQ(ranks.trials.front().pinned(), 0U);
}

// The longest time contains the wait for a late root under every alternative.
TEST(Trial, ALateRootDoesNotHideADifference) {
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    Ranks ranks(2, CombineTimes::longest, 2);
    std::mt19937 random(seed);
    ranks.run(100, [&](std::size_t rank, std::size_t alternative, auto) -> std::uint64_t {
      const std::uint64_t late = random() % 2 == 0 ? 0 : random() % 5000;
      return rank == 0 ? 100 : (alternative == 0 ? 1000 : 900) + late;
    });
    EXPECT_EQ(ranks.trials.front().pinned(), 1U) << seed;
  }
}

TEST(Trial, CallsInARow) {
  Ranks ranks(2, CombineTimes::shortest, 2, 4);
  ranks.run(300, [](auto, std::size_t alternative, auto) { return alternative == 0 ? 1000U : 800U; });
  const std::vector<std::size_t> begin(ranks.taken.begin(), ranks.taken.begin() + 24);
  EXPECT_EQ(begin, (std::vector<std::size_t>{0, 0, 1, 1,  // these do not count
                                             0, 0, 1, 1,  //
                                             1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(ranks.trials.front().pinned(), 1U);
}

// Until the ranks have combined their times, calls run what was pinned, and are not measured.
TEST(Trial, WaitsUntilTheRanksHaveMet) {
  Trial trial(2, CombineTimes::longest);
  // When the trial is due for the first time, too few calls were measured to unpin an alternative.
  for (const bool is_last : {false, true}) {
    while (!trial.is_due()) {
      const std::size_t now = trial.next();
      trial.set_time(trial.count_call(), now == 0 ? 1000 : 10);
    }
    for (int k = 0; k < 1000; ++k) {
      EXPECT_EQ(trial.next(), 0U);
      EXPECT_EQ(trial.count_call(), Trial::no_slot);
    }
    EXPECT_EQ(trial.decide(), is_last);
  }
  EXPECT_EQ(trial.next(), 1U);
}

TEST(Trial, CallsWithoutATimeDoNotCount) {
  Ranks ranks(2, CombineTimes::longest);
  Trial& trial = ranks.trials.front();
  for (int k = 0; k < 200; ++k) {
    const std::size_t now = trial.next();
    const std::size_t slot = trial.count_call();
    if (slot != Trial::no_slot && k % 3 == 0) trial.set_time(slot, now == 0 ? 1000 : 900);
    if (trial.is_due()) trial.decide();
  }
  EXPECT_EQ(trial.pinned(), 1U);

  Trial none(2, CombineTimes::shortest);
  for (int k = 0; k < 200; ++k) {
    none.count_call();
    if (none.is_due()) none.decide();
  }
  EXPECT_EQ(none.pinned(), 0U);
  EXPECT_EQ(none.calls_measured(), 4U) << "without any time the first one is pinned at once";
}

}  // namespace
}  // namespace offbeat
