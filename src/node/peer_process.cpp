// SPDX-License-Identifier: BSD-3-Clause
#include "node/peer_process.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

namespace offbeat {
namespace {

std::uint64_t own_pid_namespace() {
  struct stat status {};
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

// A process keeps its number until it has ended and its parent has heard of that. So if no process has the
// number of a peer, or only a zombie has it, the peer has ended. If a process that runs has it, that is the
// peer, or another one if the number was used again. Nothing can tell these apart for sure: the start time in
// /proc depends on the time namespace of the reader, and a restored checkpoint changes it. The state there is
// that of the first thread, which may end before its process.
bool has_ended(pid_t pid) noexcept {
  if (kill(pid, 0) != 0 && errno == ESRCH) return true;
  const int process = open_pidfd(pid);
  if (process < 0) return false;  // then a zombie counts as alive
  pollfd look{.fd = process, .events = POLLIN, .revents = 0};
  const bool is_zombie = poll(&look, 1, 0) == 1 && (look.revents & POLLIN) != 0;
  close(process);
  return is_zombie;
}

}  // namespace

// The C library may lack a function for this call, and the kernel's headers may lack its number, which is
// equal on every architecture except Alpha.
int open_pidfd(pid_t pid) noexcept {
  constexpr long pidfd_open = 434;
  return static_cast<int>(syscall(pidfd_open, pid, 0));
}

ProcessIdentity ProcessIdentity::of_this_process() {
  return {.pid = getpid(), .pid_namespace = own_pid_namespace()};
}

PeerProcess::PeerProcess(const ProcessIdentity& identity) {
  const bool is_visible = identity.pid > 0 && identity.pid_namespace != 0 &&
                          identity.pid_namespace == own_pid_namespace() &&
                          (kill(identity.pid, 0) == 0 || errno == EPERM);
  pid_ = is_visible ? identity.pid : 0;
}

bool PeerProcess::is_dead() noexcept {
  const std::atomic_ref<bool> known(is_dead_);
  if (pid_ == 0 || known.load(std::memory_order_relaxed)) return pid_ != 0;
  if (!has_ended(pid_)) return false;
  known.store(true, std::memory_order_relaxed);
  return true;
}

}  // namespace offbeat
