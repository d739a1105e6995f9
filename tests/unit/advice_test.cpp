// SPDX-License-Identifier: BSD-3-Clause
// What OFFBEAT_REPORT says beside counts.
#include "base/advice.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <ctime>
#include <filesystem>
#include <thread>

#include "base/own_process.hpp"

namespace offbeat {
namespace {

using namespace std::string_literals;

TEST(Advice, NamesTheCommandThatSaysMore) {
  Settings settings;
  EXPECT_EQ(
      line_on_next_command(settings, 4, "./solver\0-n\0007 days\0it's"s),
      "what these calls cost, and who is late: offbeat trace -n 4 -- ./solver -n '7 days' 'it'\\''s'; then: "
      "offbeat report run.trace");
  EXPECT_EQ(line_on_next_command(settings, 2, "./solver\0"s + std::string(500, 'x')),
            "what these calls cost, and who is late: offbeat trace -n 2 -- PROGRAM; then: "
            "offbeat report run.trace");
  settings.trace = "/tmp/my trace";
  EXPECT_EQ(line_on_next_command(settings, 4, "./solver"),
            "what these calls cost, and who is late: offbeat report '/tmp/my trace'");
}

TEST(Advice, NamesOverloadedCoresOnly) {
  EXPECT_EQ(
      line_on_contention({.ran_ns = 900'000'000, .waited_ns = 300'000'000, .preemptions = 71}),
      "cores are overloaded: rank 0 had no core for 25% of the time that it could have run, and lost its "
      "core 71 times");
  EXPECT_EQ(line_on_contention({.ran_ns = 990'000'000, .waited_ns = 10'000'000, .preemptions = 7}), "");
  EXPECT_EQ(line_on_contention({.ran_ns = 1'000'000, .waited_ns = 10'000'000, .preemptions = 1}), "")
      << "a short program";
  EXPECT_EQ(line_on_contention({.ran_ns = 0, .waited_ns = 0, .preemptions = 10'000}), "")
      << "a kernel that does not say";
}

// A thread that computes on the only core of the process takes about half of it.
TEST(OwnProcess, KnowsThatThreadsShareACore) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(sched_getcpu()), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const Contention begin = contention();
  std::atomic<bool> stop = false;
  std::thread other([&] {
    while (!stop) {
    }
  });
  for (const std::clock_t start = std::clock(); std::clock() - start < CLOCKS_PER_SEC / 5;) {
  }
  stop = true;
  other.join();
  const Contention end = contention();
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  const std::int64_t waited_ns = end.waited_ns - begin.waited_ns;
  EXPECT_EQ(waited_ns > 20'000'000, std::filesystem::exists("/proc/self/schedstat")) << waited_ns;
  EXPECT_GT(end.preemptions, begin.preemptions);
}

TEST(OwnProcess, KnowsItsProgram) { EXPECT_NE(program_line().find("advice_test"), std::string::npos); }

}  // namespace
}  // namespace offbeat
