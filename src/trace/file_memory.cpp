// SPDX-License-Identifier: BSD-3-Clause
#include "trace/file_memory.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>

namespace offbeat::trace {

// Memory in which a SIGBUS is the handler's. It is empty while nothing is mapped.
struct WatchedRange {
  std::atomic<bool> is_taken{false};
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  std::atomic<bool> has_come_off{false};
};

namespace {

// A writer needs two, and a process has one writer or two.
constinit std::array<WatchedRange, 8> ranges;

struct sigaction action_before {};

// Returns true if it comes again when the handler returns.
bool is_fault(const siginfo_t& info) {
  return info.si_code == BUS_ADRALN || info.si_code == BUS_ADRERR || info.si_code == BUS_OBJERR ||
         info.si_code == BUS_MCEERR_AR;
}

bool replace_with_anonymous_memory(WatchedRange& range) {
  const std::uintptr_t begin = range.begin.load();
  void* const wanted = reinterpret_cast<void*>(begin);
  void* const memory = mmap(wanted, range.end.load() - begin, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (memory != MAP_FAILED) range.has_come_off.store(true);
  return memory != MAP_FAILED;
}

// The program's handler may recover, by a jump. Its default action ends the process.
void pass_on(int number, siginfo_t* info, void* context) {
  if ((action_before.sa_flags & SA_SIGINFO) != 0) return action_before.sa_sigaction(number, info, context);
  const auto handler = action_before.sa_handler;
  if (handler == SIG_IGN && !is_fault(*info)) return;
  if (handler != SIG_DFL && handler != SIG_IGN) return handler(number);
  sigaction(number, &action_before, nullptr);
  if (!is_fault(*info)) syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), number, info);
}

void on_bus_error(int number, siginfo_t* info, void* context) {
  const int error = errno;
  const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const auto ours = std::ranges::find_if(
      ranges, [at](const WatchedRange& each) { return each.begin.load() <= at && at < each.end.load(); });
  const bool is_ours = is_fault(*info) && ours != ranges.end() && replace_with_anonymous_memory(*ours);
  errno = error;
  if (!is_ours) pass_on(number, info, context);
}

void install_handler() {
  static std::atomic<bool> is_installed{false};
  if (is_installed.exchange(true)) return;
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigaction(SIGBUS, nullptr, &action_before);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace

FileMemory::FileMemory() {
  for (WatchedRange& each : ranges) {
    if (each.is_taken.exchange(true)) continue;
    each.has_come_off.store(false);
    watched_ = &each;
    return;
  }
}

FileMemory::~FileMemory() {
  unmap();
  if (watched_ != nullptr) watched_->is_taken.store(false);
}

bool FileMemory::has_come_off() const { return watched_ != nullptr && watched_->has_come_off.load(); }

int FileMemory::map(int file, std::uint64_t offset, std::size_t bytes) {
  if (watched_ == nullptr) return EMFILE;
  install_handler();
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(offset));
  if (memory == MAP_FAILED) return errno;
  unmap();
  begin_ = static_cast<std::byte*>(memory);
  bytes_ = bytes;
  watched_->begin.store(reinterpret_cast<std::uintptr_t>(begin_));
  watched_->end.store(reinterpret_cast<std::uintptr_t>(end()));
  return 0;
}

void FileMemory::unmap() {
  if (begin_ == nullptr) return;
  watched_->end.store(0);
  munmap(begin_, bytes_);
  begin_ = nullptr;
  bytes_ = 0;
}

}  // namespace offbeat::trace
