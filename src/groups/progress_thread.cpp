// SPDX-License-Identifier: BSD-3-Clause
#include "groups/progress_thread.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/background_thread.hpp"
#include "base/error.hpp"
#include "base/line_of_node.hpp"
#include "base/pool.hpp"
#include "base/time.hpp"
#include "groups/operations_under_way.hpp"

namespace offbeat {
namespace {

constinit Duty duty;
constinit std::atomic<bool> is_there{false};

constexpr long shortest_nap_ns = 50'000;
constexpr long longest_nap_ns = 1'000'000;

void sleep_ns(long ns) {
  const timespec length{0, ns};
  nanosleep(&length, nullptr);
}

// 1 while the thread takes a nap that an urgent operation ends.
constinit std::atomic<std::uint32_t> takes_nap{0};

[[nodiscard]] bool has_awaited_work() {
  Patience patience;
  OperationsOwner* const owner = operations_under_way.watch(patience);
  if (owner != nullptr) operations_under_way.end_watch(*owner);
  return owner != nullptr;
}

void nap_ns(long ns) {
  takes_nap.store(1, std::memory_order_seq_cst);
  if (!has_awaited_work()) {
    const timespec length{0, ns};
    syscall(SYS_futex, &takes_nap, FUTEX_WAIT_PRIVATE, 1, &length, nullptr, 0);
  }
  takes_nap.store(0, std::memory_order_relaxed);
}

// Advances operations that nobody else may advance: their callers wait for a function to be called, or
// compute. Waits as a rank would.
void do_awaited_work() {
  constexpr int looks_at_once = 16;
  Patience patience;
  std::optional<Patience::Wait> wait;  // lasts until an operation advances, and so becomes patient
  while (OperationsOwner* const owner = operations_under_way.watch(patience)) {
    if (!wait) wait.emplace(patience);
    bool got_further = false;
    for (int look = 0; look < looks_at_once && !got_further && operations_under_way.any(); ++look) {
      got_further = operations_under_way.advance(HostCalls::if_threads);
      if (got_further || operations_under_way.any_sequels()) break;
      wait->pause();
    }
    if (got_further) wait.reset();
    operations_under_way.end_watch(*owner);
    operations_under_way.settle_in_any_thread();  // which may free the owner
  }
  operations_under_way.settle_in_any_thread();  // another thread may have ended the last one
}

// Advances operations that the program does not advance. If one of them advanced, it may soon advance
// again, so the next nap is short.
void look_after_operations() {
  long next_nap_ns = longest_nap_ns;
  while (operations_under_way.any_or_sequels()) {
    do_awaited_work();
    if (!operations_under_way.any_or_sequels()) break;
    const std::uint64_t looks = operations_under_way.looks();
    nap_ns(next_nap_ns);
    next_nap_ns = std::min(2 * next_nap_ns, longest_nap_ns);
    if (operations_under_way.looks() != looks) continue;  // the program advances them itself
    while (operations_under_way.advance(HostCalls::if_threads)) next_nap_ns = shortest_nap_ns;
    operations_under_way.settle_in_any_thread();
  }
}

// Advances all operations. Stays awake for a while after the last one, because the next one may come soon.
void do_all_work() {
  constexpr int looks_at_once = 64;
  constexpr std::int64_t patience_ns = ns_per_ms;
  std::int64_t idle_since_ns = monotonic_ns();
  for (;;) {
    bool got_further = false;
    for (int look = 0; look < looks_at_once; ++look) {
      while (operations_under_way.advance(HostCalls::if_threads)) got_further = true;
      operations_under_way.settle_in_any_thread();
      sched_yield();  // ranks may share these CPUs, and the program may want its turn
    }
    const std::int64_t now_ns = monotonic_ns();
    if (got_further) idle_since_ns = now_ns;
    if (now_ns - idle_since_ns < patience_ns) continue;
    if (!operations_under_way.any_or_sequels()) return;
    sleep_ns(shortest_nap_ns);
  }
}

template <auto work>
void* be_the_thread(void*) {
  for (;;) {
    work();
    pool::trim();  // gives back the memory of operations, which the program allocated
    if (duty.ends()) duty.wait_until_it_begins();
  }
}

}  // namespace

bool Duty::ends() {
  is_on_.store(0, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return !operations_under_way.any_or_sequels() || is_on_.exchange(1) != 0;
}

void Duty::wait_until_it_begins() { syscall(SYS_futex, &is_on_, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0); }

void Duty::wake() { syscall(SYS_futex, &is_on_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

ProgressThread::ProgressThread(const std::vector<int>& cpus)
    : does_all_work_(!cpus.empty() && start_background_thread(be_the_thread<do_all_work>, nullptr, cpus)) {
  if (!cpus.empty() && !does_all_work_) {
    if (errno == EINVAL) throw UsageError("OFFBEAT_PROGRESS_CPUS names no CPU that this process may use");
    run_ignoring_exceptions([] {
      say_once_on_node(
          "no thread is left for OFFBEAT_PROGRESS_CPUS: the program's own threads do all the work");
    });
  }
  is_there.store(does_all_work_, std::memory_order_relaxed);
}

void ProgressThread::ensure(bool is_urgent) const {
  if (!duty.begins()) {
    if (is_urgent && takes_nap.load(std::memory_order_relaxed) != 0 && takes_nap.exchange(0) != 0)
      syscall(SYS_futex, &takes_nap, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    return;
  }
  if (is_there.load(std::memory_order_relaxed) || is_there.exchange(true)) {
    duty.wake();
  } else if (!start_background_thread(be_the_thread<look_after_operations>)) {
    // The operation is under way, so its call must not fail.
    run_ignoring_exceptions([] {
      say_once_on_node(
          "no thread is left for non-blocking collectives: they advance in calls of collectives and requests "
          "only");
    });
  }
}

void ProgressThread::forget_thread() noexcept {
  duty.reset();
  is_there.store(false, std::memory_order_relaxed);
}

}  // namespace offbeat
