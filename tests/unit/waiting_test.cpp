// SPDX-License-Identifier: BSD-3-Clause
// How long to spin: which ranks have cores of their own; how a sleeper is woken; when the host gets a turn.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <initializer_list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "node/cores.hpp"
#include "node/patience.hpp"

namespace offbeat {
namespace {

CoreSet cores(std::initializer_list<int> numbers) {
  CoreSet result{};
  for (const int number : numbers) CPU_SET(static_cast<unsigned>(number), &result.set);
  return result;
}

int with_own_core(std::vector<CoreSet> processes) { return most_with_own_core(processes); }

TEST(Cores, AreEnoughForOneProcessEach) {
  EXPECT_EQ(with_own_core({cores({0})}), 1);
  EXPECT_EQ(with_own_core({cores({0, 1}), cores({0, 1})}), 2);
  EXPECT_EQ(with_own_core({cores({0}), cores({1}), cores({70}), cores({1023})}), 4);
  EXPECT_EQ(with_own_core({cores({0, 1, 2, 3}), cores({0, 1}), cores({0, 1}), cores({3})}), 4);
}

TEST(Cores, AreSharedWhenRanksOutnumberThem) {
  EXPECT_EQ(with_own_core({cores({0, 1}), cores({0, 1}), cores({0, 1})}), 2);
  EXPECT_EQ(with_own_core({cores({0, 1, 2}), cores({0, 1}), cores({1, 2}), cores({0, 2})}), 3);
}

TEST(Cores, AreSharedWhenTwoRanksArePinnedToOneThoughThereAreMore) {
  EXPECT_EQ(with_own_core({cores({2}), cores({2}), cores({0, 1, 2, 3, 4, 5})}), 2);
  EXPECT_EQ(with_own_core({cores({0, 1}), cores({0, 1}), cores({1}), cores({4, 5, 6, 7})}), 3);
}

TEST(Cores, OfPinnedRanksAreNotThoseOfTheOthers) {
  std::vector<CoreSet> processes(8, cores({0}));
  processes.push_back(cores({0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(with_own_core(processes), 2);
  EXPECT_EQ(with_own_core({}), 0);
}

// All ranks of a node must find the same number, so the order of the processes must not matter.
TEST(Cores, AreCountedInAnyOrder) {
  std::vector<int> order{0, 1, 2, 3, 4};
  const std::vector<CoreSet> nested{cores({0, 1, 2, 3}), cores({0}), cores({0, 1}), cores({0, 1}),
                                    cores({4})};
  do {
    std::vector<CoreSet> processes;
    processes.reserve(order.size());
    for (const int k : order) processes.push_back(nested[static_cast<std::size_t>(k)]);
    EXPECT_EQ(with_own_core(processes), 4);
  } while (std::ranges::next_permutation(order).found);
}

TEST(Cores, OfThisProcessAreSome) {
  const CoreSet mine = CoreSet::of_this_process();
  EXPECT_GE(mine.count(), 1);
  EXPECT_EQ(with_own_core(std::vector<CoreSet>(1025, mine)), mine.count());
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
  EXPECT_FALSE(bell.sleep(ns_per_ms));
  bell.ring();
  EXPECT_TRUE(bell.sleep(900 * ns_per_ms)) << "it rang before";

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
  EXPECT_TRUE(bell.sleep(900 * ns_per_ms));
  awake = true;
}

// Nobody rings: this is what a bell that is missed comes to.
TEST(Patience, NeedsNoBellToSeeWhatItWaitsFor) {
  Bell bell;
  for (Bell* rung : {&bell, static_cast<Bell*>(nullptr)}) {
    const Patience patience{.shares_cores = true, .sleep_after_ns = 0, .bell = rung};
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

// While this lives, its thread runs before all threads that other programs usually have. The threads that
// `start_threads` starts run before this thread. Without the privilege nothing changes, and load may spoil
// what a test measures.
class BeforeOtherPrograms {
 public:
  template <class Start>
  explicit BeforeOtherPrograms(Start&& start_threads) : is_allowed(set(SCHED_FIFO, 2)) {
    start_threads(is_allowed);
    if (is_allowed) set(SCHED_FIFO, 1);
  }
  BeforeOtherPrograms() : BeforeOtherPrograms([](bool) {}) {}
  BeforeOtherPrograms(const BeforeOtherPrograms&) = delete;
  BeforeOtherPrograms& operator=(const BeforeOtherPrograms&) = delete;
  ~BeforeOtherPrograms() { set(SCHED_OTHER, 0); }

 private:
  static bool set(int policy, int priority) {
    const sched_param parameters{.sched_priority = priority};
    return sched_setscheduler(0, policy, &parameters) == 0;
  }
  const bool is_allowed;
};

// The other thread takes turns of 2 ms. If this process must not take the core from other programs, it takes
// those that the kernel gives it, and load on this core may make them rare.
TEST(WantedCore, IsNoticedByAThreadThatWaitsInTheHost) {
  const CoreSet before = CoreSet::of_this_process();
  unsigned core = 0;
  while (!CPU_ISSET(core, &before.set)) ++core;
  const CoreSet one = cores({static_cast<int>(core)});
  ASSERT_EQ(sched_setaffinity(0, sizeof one.set, &one.set), 0);  // inherited by the thread
  std::atomic<bool> is_over{false};
  std::jthread other;
  const auto take_core = [&](bool takes_turns) {
    while (!is_over) {
      const double turn_end = seconds(CLOCK_MONOTONIC) + 2e-3;
      while (!is_over && seconds(CLOCK_MONOTONIC) < turn_end) relax();
      if (takes_turns) usleep(2000);
    }
  };
  const BeforeOtherPrograms priority(
      [&](bool is_allowed) { other = std::jthread([&take_core, is_allowed] { take_core(is_allowed); }); });
  const double end = seconds(CLOCK_MONOTONIC) + 10;
  bool is_wanted = false;
  while (!is_wanted && seconds(CLOCK_MONOTONIC) < end) is_wanted = WantedCore::is_wanted_in_host();
  is_over = true;
  other.join();
  sched_setaffinity(0, sizeof before.set, &before.set);
  EXPECT_TRUE(is_wanted);
}

// A machine in which the core goes to somebody else as a test says.
struct Scripted {
  static inline std::int64_t now = 0;
  static inline long switched = 0;
  static inline std::vector<std::int64_t>
      turns_us;  // of others, in each yield to come; the last one again and again
  static inline bool by_the_kernel = true;
  static inline std::int64_t taken_ns = 0;  // by others
  static std::int64_t now_ns() { return now; }
  static std::int64_t processor_ns() { return now - taken_ns; }
  static long switches() { return switched; }
  static void yield() {
    const std::int64_t turn_us = turns_us.front();
    if (turns_us.size() > 1) turns_us.erase(turns_us.begin());
    now += 300 + turn_us * ns_per_us;
    if (turn_us > 0 && by_the_kernel) ++switched;
  }
  static void begin(std::vector<std::int64_t> turns, bool kernel = true) {
    now += 1000 * ns_per_s;
    switched = 0;
    taken_ns = 0;
    turns_us = std::move(turns);
    by_the_kernel = kernel;
  }
};
using ScriptedCore = WantedCoreOf<Scripted>;

TEST(WantedCore, IsOneWhoseTakerComesBackAtOnce) {
  Scripted::begin({3000});
  EXPECT_FALSE(ScriptedCore::is_wanted());
  ScriptedCore::yield();
  EXPECT_TRUE(ScriptedCore::is_wanted());
  Scripted::now += 190 * ns_per_ms;
  EXPECT_TRUE(ScriptedCore::is_wanted());
  Scripted::now += 20 * ns_per_ms;
  EXPECT_FALSE(ScriptedCore::is_wanted()) << "it is forgotten, unless it is seen again";
}

TEST(WantedCore, IsOneWhoseTakerSoonComesBack) {
  Scripted::begin({3000, 0});
  ScriptedCore::yield();
  EXPECT_FALSE(ScriptedCore::is_wanted());
  Scripted::now += 4 * ns_per_ms;
  Scripted::turns_us = {3000, 0};
  ScriptedCore::yield();
  EXPECT_TRUE(ScriptedCore::is_wanted());
}

TEST(WantedCore, IsNotOneThatWasTakenForAMoment) {
  Scripted::begin({100, 0});
  ScriptedCore::yield();
  EXPECT_FALSE(ScriptedCore::is_wanted()) << "by a thread that looked around";
  for (int k = 0; k < 1000; ++k) {
    Scripted::now += ns_per_ms;
    Scripted::turns_us = {100, 0};
    ScriptedCore::yield();
  }
  EXPECT_FALSE(ScriptedCore::is_wanted()) << "by one that does so again and again";
  for (int k = 0; k < 100; ++k) {
    Scripted::now += ns_per_s;
    Scripted::turns_us = {3000, 0};
    ScriptedCore::yield();
  }
  EXPECT_FALSE(ScriptedCore::is_wanted()) << "by one that comes back once a second";
  Scripted::begin({10});
  for (int k = 0; k < 1000; ++k) ScriptedCore::yield();
  EXPECT_FALSE(ScriptedCore::is_wanted()) << "by one that is soon back asleep";
}

TEST(WantedCore, IsNotOneThatTheHypervisorTook) {
  Scripted::begin({3000}, false);
  for (int k = 0; k < 1000; ++k) ScriptedCore::yield();
  EXPECT_FALSE(ScriptedCore::is_wanted());
}

// Returns true if waits of 100 us in the host find the core wanted, while others take a turn of `turn_us`
// every `every_us`.
bool is_wanted_by_turns(std::int64_t every_us, std::int64_t turn_us) {
  Scripted::begin({0});
  const std::int64_t began = Scripted::now;
  for (int wait = 0; wait < 100'000; ++wait) {
    Scripted::now += 100 * ns_per_us;
    Scripted::switched = (Scripted::now - began) / (every_us * ns_per_us);
    Scripted::taken_ns = Scripted::switched * turn_us * ns_per_us;
    if (ScriptedCore::is_wanted_in_host()) return true;
  }
  return false;
}

TEST(WantedCore, InTheHostIsOneThatOthersHaveOften) {
  EXPECT_TRUE(is_wanted_by_turns(4000, 2000));
  EXPECT_FALSE(is_wanted_by_turns(50'000, 2000));
  EXPECT_FALSE(is_wanted_by_turns(4000, 100)) << "brief turns are those of kernel threads";
}

TEST(Patience, GivesTurnsAndReportsAStallOnceAndItsEnd) {
  struct Seen {
    int turns = 0;
    int stalls = 0;
    int ends = 0;
  } seen;
  for (const bool shares : {false, true}) {
    seen = {};
    Bell bell;
    const Patience patience{
        .shares_cores = shares,
        .bell = &bell,
        .turn = {.call = [](void* state) { ++static_cast<Seen*>(state)->turns; }, .state = &seen},
        .stall = {.after_ns = 20 * ns_per_ms,
                  .call =
                      [](void* state, std::int64_t, bool over) {
                        ++(over ? static_cast<Seen*>(state)->ends : static_cast<Seen*>(state)->stalls);
                      },
                  .state = &seen}};
    {
      Patience::Wait wait(patience);
      while (seen.stalls == 0) wait.pause();
      for (int k = 0; k < 200; ++k) wait.pause();
      EXPECT_EQ(seen.ends, 0);
    }
    EXPECT_GT(seen.turns, 0);
    EXPECT_EQ(seen.stalls, 1);
    EXPECT_EQ(seen.ends, 1);
  }
}

struct Counting {
  int turns = 0;
  [[nodiscard]] TurnCall turn() {
    return {.call = [](void* state) { ++static_cast<Counting*>(state)->turns; }, .state = this};
  }
};

TEST(HostTurn, IsGivenThoughEachWaitIsShort) {
  for (const bool shares : {false, true}) {
    Counting seen;
    Bell bell;
    const Patience patience{.shares_cores = shares, .bell = &bell, .turn = seen.turn()};
    for (int k = 0; seen.turns < 10; ++k) {
      Patience::Wait wait(patience);
      for (int pause = 0; pause < 40; ++pause) wait.pause(k % 2 == 0);
    }
  }
}

// Time proceeds only when a test says so. Each test has a clock of its own, and so starts afresh.
template <int test>
struct PlantedClock {
  [[nodiscard]] static std::uint64_t now() { return ticks; }
  [[nodiscard]] static std::uint64_t ticks_per_us() { return 10; }
  static inline std::uint64_t ticks = 1'000'000;
};

template <int test>
struct PlantedDue : TurnDueOf<PlantedClock<test>> {
  static void pass_us(double us) { PlantedClock<test>::ticks += static_cast<std::uint64_t>(10 * us); }
  static void give_turns(double us_each, int turns) {
    for (int k = 0; k < turns; ++k) PlantedDue::give([&] { pass_us(us_each); });
  }
  [[nodiscard]] static bool both() { return PlantedDue::is_due() && PlantedDue::is_due_in_spin(); }
  [[nodiscard]] static bool neither() { return !PlantedDue::is_due() && !PlantedDue::is_due_in_spin(); }
};

TEST(HostTurn, IsDueAtFirst) {
  using Due = PlantedDue<0>;
  EXPECT_TRUE(Due::both());
  Due::give_turns(0.2, 1);
  EXPECT_TRUE(Due::neither());
}

// A collective takes 0.2 us, and a turn takes as long.
TEST(HostTurn, IsRarelyDueInAProgramThatDoesNotCompute) {
  using Due = PlantedDue<1>;
  Due::give_turns(0.2, 20);
  int turns = 0;
  for (int call = 0; call < 10'000; ++call) {
    Due::pass_us(0.2);
    if (!Due::is_due_after_call()) continue;
    ++turns;
    Due::give_turns(0.2, 1);
  }
  EXPECT_GE(turns, 7);
  EXPECT_LE(turns, 10) << "more than a thousandth of the time";
}

// A call each 50 us, and a turn of 0.2 us whenever one is due.
template <class Due>
int turns_in(int calls) {
  int turns = 0;
  for (int call = 0; call < calls; ++call) {
    Due::pass_us(50);
    if (!Due::is_due_after_call()) continue;
    ++turns;
    Due::give_turns(0.2, 1);
  }
  return turns;
}

TEST(HostTurn, TakesAThousandthOfTheTimeOfAProgramThatComputes) {
  using Due = PlantedDue<2>;
  Due::give_turns(0.2, 8);
  const int turns = turns_in<Due>(100);
  EXPECT_GE(turns, 15);
  EXPECT_LE(turns, 25);
}

TEST(HostTurn, TakesAnEighthOfThatIfTurnsFindNothingForLong) {
  using Due = PlantedDue<8>;
  Due::give_turns(0.2, 200);
  EXPECT_EQ(turns_in<Due>(32'000), 1000);
  // A turn that finds something is followed by others at once, and all begins anew.
  Due::give_turns(50, 1);
  Due::pass_us(1);
  EXPECT_TRUE(Due::is_due());
  Due::give_turns(0.2, 8);
  EXPECT_GE(turns_in<Due>(100), 15);
}

// After a computation the caches have little of the host.
TEST(HostTurn, IsAsRareAsTurnsAreLong) {
  using Due = PlantedDue<7>;
  Due::give_turns(0.1, 8);
  Due::give_turns(0.3, 2);
  Due::pass_us(299);
  EXPECT_FALSE(Due::is_due());
  Due::pass_us(1);
  EXPECT_TRUE(Due::is_due());
}

TEST(HostTurn, IsDueEarlierWhereARankSpins) {
  using Due = PlantedDue<3>;
  Due::give_turns(0.2, 20);
  Due::pass_us(14);
  EXPECT_TRUE(Due::is_due_in_spin());
  EXPECT_FALSE(Due::is_due());
}

TEST(HostTurn, IsRarelyDueWhereATurnTakesLong) {
  using Due = PlantedDue<4>;
  Due::give_turns(2, 12);
  Due::pass_us(100);
  EXPECT_TRUE(Due::neither());
  Due::pass_us(30);
  EXPECT_TRUE(Due::is_due_in_spin());
  Due::pass_us(1869);
  EXPECT_FALSE(Due::is_due());
  Due::pass_us(1);
  EXPECT_TRUE(Due::is_due());
}

TEST(HostTurn, IsSoonDueAgainWhenATurnTookLong) {
  using Due = PlantedDue<5>;
  Due::give_turns(0.2, 20);
  Due::give_turns(50, 1);
  Due::pass_us(1);
  EXPECT_TRUE(Due::both());
  // The other rank may take longer for its part than the time until the first turn is due.
  Due::give_turns(0.2, 1);
  Due::pass_us(2);
  EXPECT_TRUE(Due::both());
}

TEST(HostTurn, IsDueWhenTheClockHasJumpedBack) {
  using Due = PlantedDue<6>;
  Due::give_turns(0.2, 20);
  PlantedClock<6>::ticks -= 1000;
  EXPECT_TRUE(Due::both());
  Due::give_turns(0.2, 1);
  EXPECT_TRUE(Due::neither());
}

// As many turns as a burst needs; every `period`-th of them is longer.
bool moved(TurnBurst& burst, std::int64_t usual_ns, std::int64_t longer_ns, int period, int first = 0) {
  burst.restart();
  for (int k = first; !burst.is_over(); ++k) burst.add(k % period == period - 1 ? longer_ns : usual_ns);
  return burst.messages_came_in();
}

TEST(TurnBurst, TellsWorkByTheTimeThatItTakes) {
  for (const std::int64_t usual_ns : {40, 1000}) {
    TurnBurst burst;
    EXPECT_FALSE(moved(burst, usual_ns, usual_ns + 30, 2)) << "nothing but jitter";
    EXPECT_FALSE(moved(burst, usual_ns, ns_per_ms, 10)) << "an interrupt";
    EXPECT_TRUE(moved(burst, usual_ns, 3 * usual_ns + 50, 4));
    EXPECT_FALSE(moved(burst, usual_ns, usual_ns, 4));
  }
}

TEST(TurnBurst, IsNotDeceivedByAHostThatDoesMoreInSomeTurns) {
  TurnBurst burst;
  for (int k = 0; k < 40; ++k) EXPECT_FALSE(moved(burst, 100, 2000, 8, k * 18));
  EXPECT_TRUE(moved(burst, 100, 2000, 3));
}

// A host that is quiet until the thread has slept a few times, and then has messages to move in some of its
// turns. Counts how often the thread sleeps: the time that a turn waits for a core is not the time of the
// code.
class Traffic {
 public:
  void turn() {
    ++turns_;
    if (!is_quiet_) {
      const std::int64_t end = monotonic_ns() + message_ns;
      while (turns_ % 3 == 0 && monotonic_ns() < end) relax();
    } else if (turns_ % 64 == 0) {
      naps_in_quiet_ = naps() - naps_before_;
      is_quiet_ = naps_in_quiet_ < enough_naps && turns_ < most_quiet_turns;
      if (!is_quiet_) naps_before_ = naps();
      if (!is_quiet_) turns_ = 0;
    }
  }
  [[nodiscard]] bool goes_on() const { return is_quiet_ || turns_ < busy_turns; }
  [[nodiscard]] long naps_in_quiet() const { return naps_in_quiet_; }
  [[nodiscard]] long naps_in_traffic() const { return naps() - naps_before_; }

  static constexpr long enough_naps = 10;
  static constexpr int busy_turns = 2000;

 private:
  static constexpr int most_quiet_turns = 100'000;  // a burst has some twenty turns
  // A turn without a message is much shorter, even where other programs have just used the core's caches.
  static constexpr std::int64_t message_ns = 50 * ns_per_us;
  static long naps() {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
  }
  bool is_quiet_ = true;
  int turns_ = 0;
  long naps_in_quiet_ = 0;
  long naps_before_ = naps();
};

TEST(Patience, DoesNotNapWhileMessagesComeIn) {
  const BeforeOtherPrograms priority;
  for (const bool has_bell : {true, false}) {
    Bell bell;
    Traffic traffic;
    Patience patience{.shares_cores = true, .sleep_after_ns = 0, .bell = has_bell ? &bell : nullptr};
    if (has_bell) {
      patience.turn = {.call = [](void* state) { static_cast<Traffic*>(state)->turn(); }, .state = &traffic};
    }
    Patience::Wait wait(patience);
    while (traffic.goes_on()) {
      if (!has_bell) traffic.turn();
      wait.pause();
    }
    EXPECT_GE(traffic.naps_in_quiet(), Traffic::enough_naps);
    // None but the first, and where a burst was spoilt.
    EXPECT_LT(traffic.naps_in_traffic(), Traffic::busy_turns / 50);
  }
}

void stay_on_one_core() {
  CoreSet mine = CoreSet::of_this_process();
  unsigned core = 0;
  while (!CPU_ISSET(core, &mine.set)) ++core;
  CoreSet one{};
  CPU_SET(core, &one.set);
  ASSERT_EQ(sched_setaffinity(0, sizeof one.set, &one.set), 0);
}

// How often a thread sleeps that waits on a core where another one computes. It waits until it has slept more
// than `enough` times, or has paused `most_pauses` times.
long naps_beside_a_computer(bool gives_way, long enough, int most_pauses) {
  Bell bell;
  const Patience patience{.yields_to_threads = gives_way, .bell = &bell};
  std::atomic<bool> is_over{false};
  long naps = 0;
  std::jthread computer([&] {
    stay_on_one_core();
    while (!is_over.load(std::memory_order_relaxed)) relax();
  });
  std::jthread waiter([&] {
    stay_on_one_core();
    Patience::Wait wait(patience);
    for (int pauses = 1; naps <= enough && pauses <= most_pauses; ++pauses) {
      wait.pause();
      if (pauses % 16 != 0) continue;
      rusage usage{};
      getrusage(RUSAGE_THREAD, &usage);
      naps = usage.ru_nvcsw;
    }
    is_over = true;
  });
  waiter.join();
  return naps;
}

TEST(Waiting, SleepsWhereAnotherThreadComputes) {
  EXPECT_GT(naps_beside_a_computer(true, 20, 100'000), 20);
  EXPECT_LT(naps_beside_a_computer(false, 20, 8000), 10);
}

}  // namespace
}  // namespace offbeat
