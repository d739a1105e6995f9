// SPDX-License-Identifier: BSD-3-Clause
#include "base/fork_lock.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace offbeat {
namespace {

TEST(ForkLock, ExcludesOtherThreads) {
  ForkLock lock;
  int count = 0;
  {
    std::vector<std::jthread> threads;
    for (int k = 0; k < 3; ++k)
      threads.emplace_back([&] {
        for (int n = 0; n < 20'000; ++n) {
          const std::lock_guard guard(lock);
          ++count;
        }
      });
  }
  EXPECT_EQ(count, 60'000);
}

TEST(ForkLock, OfAThreadOfTheParentDoesNotHoldUpTheChild) {
  ForkLock lock;
  std::atomic<bool> is_held{false};
  std::atomic<bool> is_over{false};
  std::jthread holder([&] {
    const std::lock_guard guard(lock);
    is_held = true;
    while (!is_over.load()) std::this_thread::yield();
  });
  while (!is_held.load()) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a hang is a failure
    for (int k = 0; k < 2; ++k) {
      lock.lock();
      lock.unlock();
    }
    _exit(0);
  }
  is_over = true;
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace offbeat
