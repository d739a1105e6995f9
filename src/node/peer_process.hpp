// SPDX-License-Identifier: BSD-3-Clause
// Finds out whether the process of another rank on this node still runs.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace offbeat {

// Identifies a process to other processes. Plain data.
struct ProcessIdentity {
  pid_t pid = 0;
  std::uint64_t pid_namespace = 0;

  static ProcessIdentity of_this_process();
};

class PeerProcess {
 public:
  // Remembers a process that runs now. If its number means nothing here, because it is in another namespace
  // or hidden, is_dead() is always false.
  explicit PeerProcess(const ProcessIdentity& identity);

  // Returns true if the process has certainly ended. A zombie has ended, too. A doubt counts as life, because
  // a false alarm would end the job. Threads may call this at the same time. It leaves nothing open.
  [[nodiscard]] bool is_dead() noexcept;

 private:
  pid_t pid_;  // 0: unknown here
  bool is_dead_ = false;
};

// Returns a descriptor of a process. It is negative, and errno is set, if there is none: the process has been
// reaped, or the system lacks or forbids such descriptors.
[[nodiscard]] int open_pidfd(pid_t pid) noexcept;

}  // namespace offbeat
