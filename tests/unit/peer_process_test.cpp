// SPDX-License-Identifier: BSD-3-Clause
// Finding out whether other processes run: the descriptors that this takes, and fork().
#include "node/peer_process.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <set>
#include <thread>

namespace offbeat {
namespace {

// A process that waits until it is killed.
class Sleeper {
 public:
  Sleeper() {
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      identity = ProcessIdentity::of_this_process();
      if (write(ends[1], &identity, sizeof identity) != sizeof identity) _exit(1);
      for (;;) pause();
    }
    EXPECT_EQ(read(ends[0], &identity, sizeof identity), static_cast<ssize_t>(sizeof identity));
    close(ends[0]);
    close(ends[1]);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  ~Sleeper() { end(); }
  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

  ProcessIdentity identity;

 private:
  pid_t pid_;
};

std::set<int> open_descriptors() {
  std::set<int> found;
  DIR* folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] != '.') found.insert(std::atoi(entry->d_name));
  }
  found.erase(dirfd(folder));
  closedir(folder);
  return found;
}

TEST(PeerProcess, ClosesItsDescriptorWithTheLastObject) {
  Sleeper sleeper;
  const std::set<int> before = open_descriptors();
  {
    PeerProcess first(sleeper.identity);
    EXPECT_FALSE(first.is_dead());
    const std::set<int> during = open_descriptors();
    if (during == before) GTEST_SKIP() << "this kernel has no pidfd";
    {
      PeerProcess second(sleeper.identity);
      EXPECT_FALSE(second.is_dead());
      const PeerProcess third(std::move(second));
      EXPECT_EQ(open_descriptors(), during);
    }
    EXPECT_EQ(open_descriptors(), during);
    sleeper.end();
    EXPECT_TRUE(first.is_dead());
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(PeerProcess, LeavesAFileAloneThatTheProgramHasOpenedThere) {
  Sleeper sleeper;
  const std::set<int> before = open_descriptors();
  int taken = -1;
  {
    PeerProcess peer(sleeper.identity);
    EXPECT_FALSE(peer.is_dead());
    for (const int each : open_descriptors()) {
      if (before.count(each) == 0) taken = each;
    }
    if (taken < 0) GTEST_SKIP() << "this kernel has no pidfd";
    close(taken);
    // A pipe that never has anything to read, so it never looks like the pidfd of a process that has ended.
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    ASSERT_EQ(ends[0], taken);
    EXPECT_FALSE(peer.is_dead());
    sleeper.end();
    EXPECT_TRUE(peer.is_dead());
    close(ends[1]);
  }
  EXPECT_NE(fcntl(taken, F_GETFD), -1);
  close(taken);
}

// A thread looks at a process all the time. Many of the forks come while it does.
TEST(PeerProcess, WorksInTheChildOfAFork) {
  Sleeper sleeper;
  std::atomic<bool> is_over{false};
  std::thread looker([&] {
    while (!is_over.load()) {
      PeerProcess peer(sleeper.identity);
      static_cast<void>(peer.is_dead());
    }
  });
  for (int k = 0; k < 100; ++k) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);  // a deadlock is a failure
      PeerProcess peer(sleeper.identity);
      _exit(peer.is_dead() ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "fork " << k;
    if (status != 0) break;
  }
  is_over.store(true);
  looker.join();
}

}  // namespace
}  // namespace offbeat
