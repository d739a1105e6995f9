// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/operations/host_progress.hpp"

#include <utility>

#include "groups/operations_under_way.hpp"
#include "mpi/host/inside_offbeat.hpp"

namespace offbeat {
namespace {

constinit Duty hook_duty;  // says whether the host's hook looks after operations
// Set when the program ends MPI, perhaps with operations under way.
constinit std::atomic<bool> is_mpi_ending{false};
constinit std::atomic<void (*)() noexcept> told_of_polls{nullptr};

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
  if (is_mpi_ending.load(std::memory_order_relaxed)) return MPIX_ASYNC_DONE;
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

void HostProgress::ensure() const {
  if (thread_.does_all_work()) thread_.ensure();
  if (register_callback_) {
    if (hook_duty.begins()) register_callback_(advance_in_open_mpi);
    return;
  }
  if (thread_.does_all_work()) return;
#if defined(OFFBEAT_FAMILY_MPICH)
  if (start_polling_) {
    if (hook_duty.begins()) start_polling_(advance_in_mpich, nullptr, MPIX_STREAM_NULL);
    return;
  }
#endif
  thread_.ensure();
}

void HostProgress::report_polls_to(void (*function)() noexcept) const {
  if (!register_callback_) return;
  told_of_polls.store(function, std::memory_order_relaxed);
  if (hook_duty.begins()) register_callback_(advance_in_open_mpi);
}

void HostProgress::stop() const {
  is_mpi_ending.store(true, std::memory_order_relaxed);
  operations_under_way.end_host();
  // These calls tell the program of the failures. Its functions may call MPI now for the last time.
  const bool was_inside = std::exchange(inside_offbeat, false);
  operations_under_way.settle_in_any_thread();
  inside_offbeat = was_inside;
  if (unregister_callback_ && !hook_duty.begins()) unregister_callback_(advance_in_open_mpi);
}

}  // namespace offbeat
