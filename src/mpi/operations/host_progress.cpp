// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/operations/host_progress.hpp"

#include <utility>

#include "groups/operations_under_way.hpp"
#include "mpi/host/inside_offbeat.hpp"

namespace offbeat {
namespace {

constinit Duty hook_duty;  // says whether the host's hook looks after operations
// Set when the program begins to end MPI, perhaps with operations under way.
constinit std::atomic<bool> is_mpich_ending{false};
constinit std::atomic<void (*)() noexcept> told_of_polls{nullptr};
constinit std::atomic<void (*)() noexcept> told_of_end{nullptr};

// Advances operations inside the host, which calls this in a thread of the program, perhaps during a call of
// offbeat.
bool advance_inside_host(HostCalls calls) {
  if (!operations_under_way.any()) return false;
  const bool was_inside = std::exchange(inside_offbeat, true);
  const bool got_further = operations_under_way.advance(calls);
  inside_offbeat = was_inside;
  return got_further;
}

int advance_in_open_mpi() {
  const bool got_further = advance_inside_host(HostCalls::messages);
  if (auto* function = told_of_polls.load(std::memory_order_relaxed)) function();
  return got_further ? 1 : 0;
}

#if defined(OFFBEAT_FAMILY_MPICH)
int advance_in_mpich(MPIX_Async_thing) {
  if (is_mpich_ending.load(std::memory_order_relaxed)) return MPIX_ASYNC_DONE;
  advance_inside_host(HostCalls::none);
  return !operations_under_way.any() && hook_duty.ends() ? MPIX_ASYNC_DONE : MPIX_ASYNC_NOPROGRESS;
}
#endif

}  // namespace

HostProgress::HostProgress(const Host& host, const std::vector<int>& cpus)
    : thread_(cpus),
      register_callback_(host.find("opal_progress_register")),
      unregister_callback_(host.find("opal_progress_unregister"))
#if defined(OFFBEAT_FAMILY_MPICH)
      ,
      start_polling_(host.find("PMPIX_Async_start"))
#endif
{
}

void HostProgress::ensure(bool in_thread) const {
  if (thread_.does_all_work() || in_thread) thread_.ensure(in_thread);
  if (register_callback_) {
    if (hook_duty.begins()) register_callback_(advance_in_open_mpi);
    return;
  }
  if (thread_.does_all_work()) return;
#if defined(OFFBEAT_FAMILY_MPICH)
  if (start_polling_ && !is_mpich_ending.load(std::memory_order_relaxed)) {
    if (hook_duty.begins()) start_polling_(advance_in_mpich, nullptr, MPIX_STREAM_NULL);
    return;
  }
#endif
  thread_.ensure();
}

void HostProgress::report_to(const Listener& listener) const {
  told_of_end.store(listener.before_end, std::memory_order_relaxed);
  if (!register_callback_) return;
  told_of_polls.store(listener.on_poll, std::memory_order_relaxed);
  if (hook_duty.begins()) register_callback_(advance_in_open_mpi);
}

// MPICH takes its hook away before it calls the program's functions in MPI_Finalize, where operations may
// begin.
void HostProgress::prepare_to_stop() const {
#if defined(OFFBEAT_FAMILY_MPICH)
  is_mpich_ending.store(true, std::memory_order_relaxed);
  if (start_polling_ && operations_under_way.any()) thread_.ensure();
#endif
}

void HostProgress::stop() const {
  operations_under_way.end_host();
  // These calls tell the program of the failures. Its functions may call MPI now for the last time.
  const bool was_inside = std::exchange(inside_offbeat, false);
  operations_under_way.settle_in_any_thread();
  inside_offbeat = was_inside;
  if (auto* function = told_of_end.load(std::memory_order_relaxed)) function();
  if (unregister_callback_ && !hook_duty.begins()) unregister_callback_(advance_in_open_mpi);
  if (operations_under_way.any()) thread_.ensure();
}

}  // namespace offbeat
