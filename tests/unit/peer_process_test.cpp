// SPDX-License-Identifier: BSD-3-Clause
// Finding out whether other processes run. One that runs must never seem dead.
#include "node/peer_process.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <utility>

namespace offbeat {
namespace {

// A process that waits until it is killed.
class Sleeper {
 public:
  // The process calls `prepare`, introduces itself and calls `rest`.
  explicit Sleeper(
      void (*prepare)() = [] {}, void (*rest)() = [] {}) {
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      prepare();
      identity = ProcessIdentity::of_this_process();
      if (write(ends[1], &identity, sizeof identity) != sizeof identity) _exit(1);
      rest();
      for (;;) pause();
    }
    close(ends[1]);
    is_there_ = read(ends[0], &identity, sizeof identity) == sizeof identity;
    close(ends[0]);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  ~Sleeper() {
    if (pid_ > 0) bury();
  }
  void become_zombie() const {
    kill(pid_, SIGKILL);
    siginfo_t ended;
    waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOWAIT);
  }
  void bury() {
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), nullptr, 0);
  }
  // Returns false if the process has ended because it could not prepare itself.
  [[nodiscard]] bool is_there() const { return is_there_; }

  ProcessIdentity identity;

 private:
  pid_t pid_;
  bool is_there_ = false;
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

bool has_pidfd() {
  const int mine = open_pidfd(getpid());
  if (mine >= 0) close(mine);
  return mine >= 0;
}

// Returns the letter in /proc for the state of the process, which is that of its first thread.
char state_of_first_thread(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::size_t name_end = text.rfind(") ");
  return name_end == std::string::npos ? '?' : text[name_end + 2];
}

// Puts the process into a time namespace in which the system has been up for an hour longer. Without root
// this takes a user namespace, too.
void enter_other_time() {
  constexpr int new_time = 0x80;  // CLONE_NEWTIME
  if (unshare(new_time) != 0 && unshare(CLONE_NEWUSER | new_time) != 0) _exit(1);
  if (!(std::ofstream("/proc/self/timens_offsets") << "boottime 3600 0\n").flush()) _exit(1);
  const int other = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
  if (other < 0 || setns(other, new_time) != 0) _exit(1);
}

TEST(PeerProcess, HasEndedAsAZombieAndAfterwards) {
  Sleeper sleeper;
  PeerProcess peer(sleeper.identity);
  EXPECT_FALSE(peer.is_dead());
  sleeper.become_zombie();
  EXPECT_EQ(peer.is_dead(), has_pidfd());
  sleeper.bury();
  EXPECT_TRUE(peer.is_dead());
}

TEST(PeerProcess, LeavesNoDescriptorOpen) {
  Sleeper sleeper;
  const std::set<int> before = open_descriptors();
  PeerProcess peer(sleeper.identity);
  EXPECT_FALSE(peer.is_dead());
  EXPECT_EQ(open_descriptors(), before);
  sleeper.become_zombie();
  static_cast<void>(peer.is_dead());
  EXPECT_EQ(open_descriptors(), before);
}

// As on a kernel without pidfds, and where a filter forbids them.
TEST(PeerProcess, IsAliveInDoubtIfThereIsNoDescriptor) {
  Sleeper sleeper;
  PeerProcess peer(sleeper.identity);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool is_dead_while_it_runs = peer.is_dead();
  sleeper.become_zombie();
  const bool is_dead_as_a_zombie = peer.is_dead();
  sleeper.bury();
  const bool is_dead_afterwards = peer.is_dead();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_FALSE(is_dead_while_it_runs);
  EXPECT_FALSE(is_dead_as_a_zombie);
  EXPECT_TRUE(is_dead_afterwards);
}

// The times in /proc depend on who reads them.
TEST(PeerProcess, LivesInAnotherTimeNamespace) {
  Sleeper sleeper(enter_other_time);
  if (!sleeper.is_there()) GTEST_SKIP() << "no time namespaces here";
  PeerProcess peer(sleeper.identity);
  EXPECT_FALSE(peer.is_dead());
  sleeper.bury();
  EXPECT_TRUE(peer.is_dead());
}

TEST(PeerProcess, OutlivesItsFirstThread) {
  const auto start_thread = [] { std::thread([] { sleep(60); }).detach(); };
  const auto end_first_thread = [] { syscall(SYS_exit, 0); };
  Sleeper sleeper(start_thread, end_first_thread);
  PeerProcess peer(sleeper.identity);
  for (int k = 0; k < 1000 && state_of_first_thread(sleeper.identity.pid) != 'Z'; ++k) usleep(1000);
  ASSERT_EQ(state_of_first_thread(sleeper.identity.pid), 'Z');
  EXPECT_FALSE(peer.is_dead());
  sleeper.bury();
  EXPECT_TRUE(peer.is_dead());
}

TEST(PeerProcess, OfAnotherPidNamespaceIsNotJudged) {
  Sleeper sleeper;
  for (const std::uint64_t other : {std::uint64_t{0}, sleeper.identity.pid_namespace + 1}) {
    PeerProcess peer({.pid = sleeper.identity.pid, .pid_namespace = other});
    EXPECT_FALSE(peer.is_dead());
  }
  PeerProcess known(sleeper.identity);
  PeerProcess unknown({.pid = sleeper.identity.pid, .pid_namespace = 0});
  sleeper.bury();
  EXPECT_TRUE(known.is_dead());
  EXPECT_FALSE(unknown.is_dead());
}

}  // namespace
}  // namespace offbeat
