// SPDX-License-Identifier: BSD-3-Clause
#include "groups/begun_timer.hpp"

#include <pthread.h>

#include <algorithm>
#include <mutex>

#include "base/time.hpp"
#include "groups/call_timer.hpp"
#include "node/host_turns.hpp"

namespace offbeat {
namespace {

clockid_t own_clock() {
  clockid_t found = 0;
  return pthread_getcpuclockid(pthread_self(), &found) == 0 ? found : 0;
}

// Returns how long a thread has had a core. If the thread is gone, it is as if it computed all the time.
std::int64_t cpu_ns(clockid_t thread) {
  timespec time{};
  if (thread == 0 || clock_gettime(thread, &time) != 0) return monotonic_ns();
  return time.tv_sec * ns_per_s + time.tv_nsec;
}

// Returns how long a thread was blocked between two moments.
std::int64_t blocked_between(const BegunTimer::Moment& start, const BegunTimer::Moment& end) {
  const std::int64_t wall_ns = std::max<std::int64_t>(0, end.ns - start.ns);
  return std::clamp<std::int64_t>(wall_ns - (end.busy_ns - start.busy_ns), 0, wall_ns);
}

}  // namespace

BegunTimer::Moment BegunTimer::now(clockid_t thread) {
  const Moment moment{.ticks = ProcessorClock::now(), .ns = monotonic_ns(), .busy_ns = 0};
  const std::lock_guard guard(lock_);
  std::int64_t busy_ns = 0;
  if (waits_.thread != thread)
    busy_ns = cpu_ns(thread);
  else
    busy_ns =
        (is_in_wait_.load(std::memory_order_relaxed) ? waits_.began_cpu_ns : cpu_ns(thread)) - waits_.cpu_ns;
  return {moment.ticks, moment.ns, busy_ns};
}

BegunTimer::BegunCall BegunTimer::begin(Collective collective, bool is_blocking) {
  if (!is_on_) return {.collective = collective, .is_blocking = false, .thread = 0, .began = {}};
  const clockid_t thread = own_clock();
  BegunCall call{
      .collective = collective, .is_blocking = is_blocking, .thread = thread, .began = now(thread)};
  if (is_blocking) counters_->of(collective).since.set(call.began.ticks);
  return call;
}

BegunTimer::Moment BegunTimer::start_of(const BegunCall& call) {
  if (call.is_blocking) return call.began;
  const std::lock_guard guard(lock_);
  const bool is_later = last_ended_.thread == call.thread && last_ended_.began.ns > call.began.ns;
  return is_later ? last_ended_.began : call.began;
}

BegunTimer::Look BegunTimer::look_at(const BegunCall& call, Moment& last) {
  if (call.is_blocking) {
    last.ticks = ProcessorClock::now();
    return {.blocked_ns = monotonic_ns() - call.began.ns, .is_blocked = true};
  }
  const Moment end = now(call.thread);
  const Moment before = std::exchange(last, end);
  return {.blocked_ns = blocked_between(start_of(call), end),
          .is_blocked = 2 * blocked_between(before, end) > end.ns - before.ns};
}

bool BegunTimer::show_awaited(const BegunCall& call, std::uint64_t number, std::int64_t blocked_ns) {
  const std::uint64_t shown = counters_->awaited_number.value();
  if (shown != 0 && shown < number) return false;
  counters_->awaited_collective.set(index_of(call.collective));
  counters_->awaited_us.set(static_cast<std::uint64_t>(blocked_ns / ns_per_us));
  counters_->awaited_number.set(number);
  return true;
}

void BegunTimer::forget(const BegunCall& call) {
  counters_->awaited_number.set(0);
  if (call.is_blocking) counters_->of(call.collective).since.set(0);
}

void BegunTimer::end(const BegunCall& call, std::uint64_t number, NodeBoard& board, const Expression* ran) {
  CollectiveCounters& mine = counters_->of(call.collective);
  if (counters_->awaited_number.value() == number) counters_->awaited_number.set(0);
  if (call.began.ticks == 0) return;
  const Moment start = start_of(call);
  const Moment end = now(call.thread);
  const std::int64_t wall_ns = std::max<std::int64_t>(1, end.ns - start.ns);
  const std::int64_t blocked_ns = call.is_blocking ? wall_ns : blocked_between(start, end);
  const std::uint64_t wall = end.ticks > start.ticks ? end.ticks - start.ticks : 0;
  __extension__ using Wide = unsigned __int128;
  const auto blocked = static_cast<std::uint64_t>(Wide{wall} * static_cast<std::uint64_t>(blocked_ns) /
                                                  static_cast<std::uint64_t>(wall_ns));
  if (call.is_blocking) mine.since.set(0);
  const std::lock_guard times(times_lock_);
  add_blocked_call(mine, &board, number, end.ticks - blocked, blocked, 1);
  {
    const std::lock_guard guard(lock_);
    last_ended_ = call;
    last_ended_.began = end;
  }
  show_algorithm(mine, shown_[index_of(call.collective)], ran);
}

bool BegunTimer::begin_wait() {
  if (!is_on_) return false;
  const clockid_t thread = own_clock();
  const std::lock_guard guard(lock_);
  // An outer wait of this thread counts, or another thread's.
  if (is_in_wait_.load(std::memory_order_relaxed)) return false;
  if (waits_.thread != thread) waits_ = {.thread = thread};
  waits_.began_cpu_ns = cpu_ns(thread);
  is_in_wait_.store(true, std::memory_order_relaxed);
  return true;
}

void BegunTimer::end_wait() {
  const std::lock_guard guard(lock_);
  waits_.cpu_ns += cpu_ns(waits_.thread) - waits_.began_cpu_ns;
  is_in_wait_.store(false, std::memory_order_relaxed);
  counters_->awaited_number.set(0);
}

}  // namespace offbeat
