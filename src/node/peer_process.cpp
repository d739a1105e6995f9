// SPDX-License-Identifier: BSD-3-Clause
#include "node/peer_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/error.hpp"

namespace offbeat {
namespace {

struct ProcessStatus {
  char state = 0;  // 'Z' for a zombie; 0 if there is no such process, or nothing is known
  std::uint64_t start_time = 0;
  bool is_unknown = false;  // true if it cannot be read, for example for lack of a free descriptor
};

// Reads /proc/PID/stat. Its second field is a name in parentheses, which may have any characters. The third
// field is the state, and the 22nd the start time.
ProcessStatus status_of(pid_t pid) {
  char path[32];
  char text[1024];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {.is_unknown = errno != ENOENT && errno != ESRCH};
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return {};
  text[length] = '\0';
  const char* at = std::strrchr(text, ')');
  if (at == nullptr || at[1] != ' ') return {};
  ProcessStatus status{.state = at[2]};
  for (int field = 2; at != nullptr && field < 22; ++field) at = std::strchr(at + 1, ' ');
  if (at != nullptr) status.start_time = std::strtoull(at + 1, nullptr, 10);
  return status;
}

std::uint64_t own_pid_namespace() {
  struct stat status {};
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

// The program may have closed the descriptor by its number, and opened another file there. So a descriptor
// alone does not say that a process is dead.
bool has_ended(const ProcessIdentity& identity) {
  const ProcessStatus status = status_of(identity.pid);
  if (status.is_unknown) return false;
  return status.state == 0 || status.state == 'Z' || status.state == 'X' ||
         status.start_time != identity.start_time;
}

bool is_running(pid_t pid) { return kill(pid, 0) == 0 || errno == EPERM; }

struct OpenProcess {
  pid_t pid;
  std::uint64_t start_time;
  int descriptor;
  dev_t device;
  ino_t inode;
  int user_count;
};

// The pidfds of this process, one for each process of the node that it has waited for. Never destroyed,
// because threads of offbeat use it.
struct OpenProcesses {
  std::mutex mutex;
  std::vector<OpenProcess> open_processes;
};
OpenProcesses& table() {
  static auto* const made = [] {
    auto* fresh = new OpenProcesses;
    // A child of fork() has no other thread that could unlock the mutex.
    pthread_atfork([] { table().mutex.lock(); }, [] { table().mutex.unlock(); },
                   [] { table().mutex.unlock(); });
    return fresh;
  }();
  return *made;
}

// Returns a pidfd, -1 if the process is gone, or -2 if the system gives none.
int pidfd_of(const ProcessIdentity& identity) {
  const std::lock_guard lock(table().mutex);
  for (OpenProcess& each : table().open_processes) {
    if (each.pid != identity.pid || each.start_time != identity.start_time) continue;
    ++each.user_count;
    return each.descriptor;
  }
  constexpr long pidfd_open = 434;  // on every architecture but Alpha; the C library may lack a function
  const int descriptor = static_cast<int>(syscall(pidfd_open, identity.pid, 0));
  if (descriptor < 0) return errno == ESRCH ? -1 : -2;
  // The number may belong to another process by now. If its start time cannot be read, is_dead() looks again.
  const std::uint64_t found = status_of(identity.pid).start_time;
  if (identity.start_time != 0 && found != 0 && found != identity.start_time) {
    close(descriptor);
    return -1;
  }
  struct stat file {};
  fstat(descriptor, &file);
  if (!run_unless_out_of_memory([&] {
        table().open_processes.push_back(
            {identity.pid, identity.start_time, descriptor, file.st_dev, file.st_ino, 1});
      })) {
    close(descriptor);
    return -2;
  }
  return descriptor;
}

// Returns true if the descriptor is a pidfd of this process. The program may have closed it by its number,
// and opened another file there.
bool is_pidfd_of(int descriptor, pid_t pid) {
  char path[48];
  char text[512];
  std::snprintf(path, sizeof path, "/proc/self/fdinfo/%d", descriptor);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return false;
  text[length] = '\0';
  const char* at = std::strstr(text, "\nPid:");
  if (at == nullptr) return false;
  const long found = std::strtol(at + 5, nullptr, 10);
  return found == pid || found == -1;  // -1: it has ended
}

// Returns false if the program has opened another file where the pidfd was. This is quick. Before Linux 6.9
// all pidfds and some other files look alike.
bool is_in_place(const ProcessIdentity& identity, int descriptor) {
  struct stat file {};
  if (fstat(descriptor, &file) != 0) return false;
  const std::lock_guard lock(table().mutex);
  return std::ranges::any_of(table().open_processes, [&](const OpenProcess& each) {
    return each.pid == identity.pid && each.start_time == identity.start_time && each.device == file.st_dev &&
           each.inode == file.st_ino;
  });
}

// The last user closes the pidfd.
void release_pidfd(const ProcessIdentity& identity) {
  const std::lock_guard lock(table().mutex);
  auto& open_processes = table().open_processes;
  const auto found = std::ranges::find_if(open_processes, [&](const OpenProcess& each) {
    return each.pid == identity.pid && each.start_time == identity.start_time;
  });
  if (found == open_processes.end() || --found->user_count > 0) return;
  if (is_pidfd_of(found->descriptor, found->pid)) close(found->descriptor);
  open_processes.erase(found);
}

}  // namespace

ProcessIdentity ProcessIdentity::of_this_process() {
  const pid_t pid = getpid();
  return {.pid = pid, .start_time = status_of(pid).start_time, .pid_namespace = own_pid_namespace()};
}

PeerProcess::PeerProcess(const ProcessIdentity& identity)
    : identity_(identity),
      is_visible_(identity.pid > 0 && identity.pid_namespace != 0 &&
                  identity.pid_namespace == own_pid_namespace() && is_running(identity.pid)) {}

PeerProcess::~PeerProcess() {
  if (descriptor_ >= 0) release_pidfd(identity_);
}

// Threads that wait on different stages of a board may look at the same time.
bool PeerProcess::is_dead() {
  const std::atomic_ref<bool> is_dead(is_dead_);
  if (!is_visible_ || is_dead.load(std::memory_order_relaxed)) return is_dead.load(std::memory_order_relaxed);
  const std::atomic_ref<int> kept(descriptor_);
  int descriptor = kept.load(std::memory_order_relaxed);
  if (descriptor < 0) {
    descriptor = pidfd_of(identity_);
    int none = unopened;
    if (descriptor >= 0 && !kept.compare_exchange_strong(none, descriptor, std::memory_order_relaxed))
      release_pidfd(identity_);  // another thread was first, and has the same descriptor
  }
  // Without a pidfd (before Linux 5.3, or with no descriptor left) a zombie counts as alive.
  bool found = descriptor == -1 || (descriptor < 0 && !is_running(identity_.pid));
  if (descriptor >= 0) {
    pollfd look{.fd = descriptor, .events = POLLIN, .revents = 0};
    const bool says_so = poll(&look, 1, 0) == 1 && (look.revents & (POLLIN | POLLNVAL)) != 0;
    found = (says_so || !is_in_place(identity_, descriptor)) && has_ended(identity_);
  }
  if (found) is_dead.store(true, std::memory_order_relaxed);
  return found;
}

}  // namespace offbeat
