// SPDX-License-Identifier: BSD-3-Clause
// Finds out whether the process of another rank on this node still runs.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <utility>

namespace offbeat {

// Identifies a process to other processes. Plain data.
struct ProcessIdentity {
  pid_t pid = 0;
  std::uint64_t start_time = 0;  // in clock ticks since the system started; 0: unknown
  std::uint64_t pid_namespace = 0;

  static ProcessIdentity of_this_process();
};

class PeerProcess {
 public:
  // Remembers a process that runs now. If its number means nothing here, because it is in another namespace
  // or hidden, is_dead() is always false.
  explicit PeerProcess(const ProcessIdentity& identity);
  PeerProcess(PeerProcess&& other) noexcept
      : identity_(other.identity_),
        is_visible_(other.is_visible_),
        is_dead_(other.is_dead_),
        descriptor_(std::exchange(other.descriptor_, unopened)) {}
  PeerProcess& operator=(PeerProcess&&) = delete;
  ~PeerProcess();

  // Returns true if the process has ended. A zombie has ended, too. The first call opens a descriptor, which
  // all objects for this process share. The last of them closes it.
  [[nodiscard]] bool is_dead();

 private:
  static constexpr int unopened = -1;

  ProcessIdentity identity_;
  bool is_visible_;
  bool is_dead_ = false;
  int descriptor_ = unopened;  // a pidfd that the table owns
};

}  // namespace offbeat
