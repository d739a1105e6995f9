// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/host_progress.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "base/background_thread.hpp"
#include "base/log.hpp"
#include "base/pool.hpp"
#include "mpi/inside_offbeat.hpp"
#include "mpi/operation.hpp"

namespace offbeat {
namespace {

// Whether somebody looks after operations, or will see that one has begun. A process has one host.
constinit std::atomic<std::uint32_t> is_ensured{0};
// The program ends MPI, perhaps with operations open.
constinit std::atomic<bool> is_stopped{false};

// The host calls this in a thread of the program, perhaps within a call of ours.
bool advance_inside_host(HostCalls calls) {
  if (!operations_under_way.any()) return false;
  const bool was_inside = std::exchange(inside_offbeat, true);
  const bool got_further = operations_under_way.advance(calls);
  inside_offbeat = was_inside;
  return got_further;
}

int advance_in_open_mpi() { return advance_inside_host(HostCalls::messages) ? 1 : 0; }

// Call when nothing is left to look after. True: the caller may stop, because whoever begins an operation now
// calls somebody else.
bool may_stop() {
  is_ensured.store(0, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return !operations_under_way.any() || is_ensured.exchange(1) != 0;
}

#if defined(OFFBEAT_FAMILY_MPICH)
int advance_in_mpich(MPIX_Async_thing) {
  if (is_stopped.load(std::memory_order_relaxed)) return MPIX_ASYNC_DONE;
  advance_inside_host(HostCalls::none);
  return !operations_under_way.any() && may_stop() ? MPIX_ASYNC_DONE : MPIX_ASYNC_NOPROGRESS;
}
#endif

// -- the thread

constinit std::atomic<bool> has_thread{false};

void sleep_ns(long ns) {
  const timespec length{0, ns};
  nanosleep(&length, nullptr);
}

// An operation that got further may soon get further again, so its next look comes early.
void look_after_operations() {
  constexpr long shortest_nap_ns = 50'000;
  constexpr long longest_nap_ns = 1'000'000;
  long nap_ns = longest_nap_ns;
  while (operations_under_way.any() && !is_stopped.load(std::memory_order_relaxed)) {
    const std::uint64_t looks = operations_under_way.looks();
    sleep_ns(nap_ns);
    nap_ns = std::min(2 * nap_ns, longest_nap_ns);
    if (operations_under_way.looks() != looks) continue;  // the program does it itself
    while (operations_under_way.advance(HostCalls::none)) nap_ns = shortest_nap_ns;
  }
}

void* be_the_thread(void*) {
  for (;;) {
    look_after_operations();
    pool::trim();  // the memory of the operations is the program's
    if (is_stopped.load(std::memory_order_relaxed)) return nullptr;
    if (may_stop()) syscall(SYS_futex, &is_ensured, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
  }
}

void wake_thread() {
  if (has_thread.load(std::memory_order_relaxed) || has_thread.exchange(true)) {
    syscall(SYS_futex, &is_ensured, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  } else if (!start_background_thread(be_the_thread)) {
    say("no thread is left for non-blocking collectives: they advance in calls of collectives and requests "
        "only");
  }
}

}  // namespace

HostProgress::HostProgress(const Host& host)
    : register_(host.find("opal_progress_register")),
      unregister_(host.find("opal_progress_unregister"))
#if defined(OFFBEAT_FAMILY_MPICH)
      ,
      start_polling_(host.find("PMPIX_Async_start"))
#endif
{
}

void HostProgress::ensure() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (is_ensured.load(std::memory_order_relaxed) != 0 || is_ensured.exchange(1) != 0) return;
  if (register_) {
    register_(advance_in_open_mpi);
    return;
  }
#if defined(OFFBEAT_FAMILY_MPICH)
  if (start_polling_) {
    start_polling_(advance_in_mpich, nullptr, MPIX_STREAM_NULL);
    return;
  }
#endif
  wake_thread();
}

void HostProgress::stop() const {
  is_stopped.store(true, std::memory_order_relaxed);
  if (unregister_ && is_ensured.exchange(1) != 0) unregister_(advance_in_open_mpi);
}

}  // namespace offbeat
