// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/process/runtime.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <utility>

#include "base/advice.hpp"
#include "base/error.hpp"
#include "base/fork_lock.hpp"
#include "base/log.hpp"
#include "base/own_process.hpp"
#include "base/pool.hpp"
#include "groups/time_report.hpp"
#include "mpi/host/exit_with.hpp"
#include "mpi/host/other_family.hpp"
#include "mpi/host/return_errors.hpp"
#include "mpi/process/freeing.hpp"
#include "mpi/process/job_identity.hpp"
#include "node/device_memory.hpp"
#include "node/whereabouts.hpp"

namespace offbeat {

constinit thread_local const Expression* last_algorithm [[gnu::tls_model("initial-exec")]] = nullptr;
namespace {
const Algorithm single_rank_copy{.name = "copy",
                                 .summary = "a call on a communicator of one rank",
                                 .cost = "",
                                 .serves = {},
                                 .source = ""};
}  // namespace
const Expression copy_on_single_rank{
    .algorithm = &single_rank_copy, .dimensions = {}, .parts = {}, .name_in_host = {}};
std::atomic<Runtime*> the_runtime{nullptr};

// This uses a lock instead of std::call_once, because an exception must not pass through glibc's pthread_once
// if libgcc is linked statically. A child of fork() that finds the lock held makes its own state.
Runtime& start_runtime() {
  if (has_runtime()) return runtime();
  static constinit ForkLock lock;
  const std::lock_guard guard(lock);
  if (!has_runtime()) the_runtime.store(new Runtime, std::memory_order_release);  // never destroyed
  return runtime();
}

bool start_runtime_or_pass_on() {
  if (other_family.load(std::memory_order_acquire) != nullptr) return false;
  try {
    static_cast<void>(start_runtime());
    return true;
  } catch (const OtherFamily& found) {
    pass_on_to(found);
    return false;
  } catch (const UsageError& error) {
    exit_with(error);
  } catch (...) {  // no exception may leave a C function; without memory no line can be formatted either
    std::fputs("offbeat: no memory is left to start\n", stderr);
    _exit(2);
  }
}

Runtime::Runtime() : settings(Settings::from_environment()) {
  pool::set_cache_limit(settings.cache_bytes);
  if (copies_device_memory(settings.gpu)) devices::look_for_drivers();
  selection.set_initial_choice(settings);
  selection.set_host_algorithms_function(
      []() -> const NamedHostAlgorithms& { return runtime().host_variables().offer(); });
  HostVariables::prepare(host, selection);
}

HostVariables& Runtime::host_variables() {
  HostVariables* known = host_variables_.load(std::memory_order_acquire);
  if (known != nullptr) return *known;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  known = host_variables_.load(std::memory_order_relaxed);
  if (known == nullptr) {
    known = new HostVariables(host);
    host_variables_.store(known, std::memory_order_release);
  }
  return *known;
}

NamedAlgorithmCall Runtime::by_name(MPI_Comm handle, Collective collective, bool is_nonblocking) {
  HostVariables& variables = host_variables();
  const NamedHostAlgorithms& offer = variables.offer();
  const HostAlgorithm* algorithm = offer.find(collective, is_nonblocking, last_algorithm->host_algorithm());
  const bool needs_shadow = offer.needs_communicators && !is_nonblocking;
  NamedAlgorithmCall way{.variables = &variables, .algorithm = algorithm};
  if (algorithm != nullptr && needs_shadow) {
    const Communicator* mine = find_in_cache(handle);
    way.shadow = mine != nullptr ? mine->shadow_of(last_algorithm) : MPI_COMM_NULL;
  }
  if (algorithm == nullptr || (needs_shadow && way.shadow == MPI_COMM_NULL)) {
    last_algorithm = nullptr;
    return {};
  }
  return way;
}

void Runtime::report_unknown_choice(Collective collective) {
  const UserChoice* choice = selection.choice(collective);
  if (choice == nullptr || !choice->expression->names_host_algorithm() || host.rank_in(MPI_COMM_WORLD) != 0)
    return;
  constexpr int no_restriction = 0;
  const auto why_not = [&](bool is_nonblocking) {
    return host_variables().offer().why_not(collective, is_nonblocking, *choice->expression, no_restriction);
  };
  const std::string why = why_not(false);
  if (why.empty()) return;  // a program that makes no non-blocking calls need not know about these
  const std::string why_not_begun = why_not(true);
  say(choice->origin + ": " + choice->expression->canonical_text() + " " + why +
      (why_not_begun.empty() ? "; the MPI chooses instead, except for non-blocking calls"
                             : "; the MPI chooses instead"));
}

namespace {

// The communicator for which this thread last found no entry and could not make one. It is valid if no entry
// has been made and none has died since.
struct LastMiss {
  std::uintptr_t handle;
  std::uint64_t created_entries;
  std::uint64_t destroyed_communicators;
  bool operator==(const LastMiss&) const = default;
};
constinit thread_local LastMiss last_miss [[gnu::tls_model("initial-exec")]]{};

}  // namespace

Communicator* Runtime::find_in_cache(MPI_Comm handle) const {
  const std::uintptr_t key = abi::bits(handle);
  const RecentCommunicator& entry = recent_communicator(key);
  const bool is_valid = entry.handle == key && entry.destroyed_communicators ==
                                                   destroyed_communicators_.load(std::memory_order_acquire);
  return is_valid ? entry.communicator : nullptr;
}

void Runtime::note_rejected_call(MPI_Comm handle) const noexcept {
  if (Communicator* const mine = find_in_cache(handle)) mine->note_left_out();
}

Communicator* Runtime::find_and_cache(MPI_Comm handle, Collective collective) {
  // The count is read before the look-up, so that the entry of a communicator that dies meanwhile is stale.
  const std::uint64_t destroyed_communicators = destroyed_communicators_.load(std::memory_order_acquire);
  Communicator* found = find_or_create(handle, collective);
  const std::uintptr_t key = abi::bits(handle);
  if (found != nullptr) recent_communicator(key) = {key, found, destroyed_communicators};
  return found;
}

bool Runtime::is_mpi_running() const {
  int initialized = 0;
  int finalized = 0;
  host.Initialized(&initialized);
  host.Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

bool Runtime::find(MPI_Comm handle, Communicator*& found) {
  found = nullptr;
  if (handle == MPI_COMM_NULL || is_left_to_host(handle) || !is_mpi_running()) return true;
  // The order in which the host deletes attributes, offbeat's among them, may differ between ranks. So a
  // communicator that is being freed counts as unknown.
  if (is_being_freed(handle)) return true;
  if (is_started() && keyval_ != MPI_KEYVAL_INVALID) {
    void* attribute = nullptr;
    int is_found = 0;
    if (host.Comm_get_attr(handle, keyval_, static_cast<void*>(&attribute), &is_found) != MPI_SUCCESS)
      return true;
    if (is_found != 0) {
      found = static_cast<Communicator*>(attribute);
      return true;
    }
  }
  // An entry made from now on would never be freed. MPI_Finalize begins with the attributes of MPI_COMM_SELF.
  return has_ended_.load(std::memory_order_relaxed) ||
         (handle == MPI_COMM_SELF && is_finalizing_.load(std::memory_order_relaxed));
}

Communicator* Runtime::find_or_create(MPI_Comm handle, Collective collective) {
  Communicator* found = nullptr;
  if (find(handle, found)) return found;
  // A rank without memory must not leave the others waiting. Either all ranks keep an entry, or none does and
  // all try again at the next call.
  const bool has_memory = is_started() && keyval_ != MPI_KEYVAL_INVALID;
  Communicator* mine = has_memory ? add(handle) : nullptr;
  if (Communicator::start(mine, *this, handle, collective)) return mine;
  if (mine != nullptr) host.Comm_delete_attr(handle, keyval_);
  return nullptr;
}

Communicator* Runtime::find_without_waiting(MPI_Comm handle, Collective collective) {
  const std::uintptr_t key = abi::bits(handle);
  const std::uint64_t destroyed_communicators = destroyed_communicators_.load(std::memory_order_acquire);
  RecentCommunicator& entry = recent_communicator(key);
  if (entry.handle == key && entry.destroyed_communicators == destroyed_communicators) [[likely]]
    return entry.communicator;
  const LastMiss without{key, created_entries_.load(std::memory_order_acquire), destroyed_communicators};
  if (without == last_miss) return nullptr;
  Communicator* found = nullptr;
  if (!find(handle, found)) {
    if (Communicator::needs_no_agreement(host, handle)) {
      found = find_or_create(handle, collective);
    } else {
      last_miss = without;
    }
  }
  if (found != nullptr) entry = {key, found, destroyed_communicators};
  return found;
}

Communicator* Runtime::add(MPI_Comm handle) {
  std::unique_ptr<Communicator> created;
  const bool is_known = run_unless_out_of_memory([&] {
    created = std::make_unique<Communicator>(*this, handle);
    const std::lock_guard lock(mutex_);
    communicators_.push_back(created.get());
    created_entries_.fetch_add(1, std::memory_order_acq_rel);
  });
  if (!is_known) return nullptr;
  const ReturnErrors scope(host, handle);
  if (host.Comm_set_attr(handle, keyval_, created.get()) == MPI_SUCCESS) return created.release();
  const std::lock_guard lock(mutex_);
  std::erase(communicators_, created.get());
  return nullptr;
}

bool Runtime::start_with_mpi() {
  if (!is_mpi_running()) return false;
  const std::lock_guard lock(mutex_);
  if (is_started_.load(std::memory_order_relaxed)) return true;
  types_.emplace(host);
  const ReturnErrors by_self(host, MPI_COMM_SELF);
  const ReturnErrors by_world(host, MPI_COMM_WORLD);
  host.Comm_create_keyval(on_copy, on_delete, &keyval_, this);
  arrange_end();
  fault_tolerance_.emplace(host);
  // A line of ranks without the dead process completes. Its ranks would then wait in the next dimension.
  if (fault_tolerance_->is_enabled()) selection.refuse_host_grids();
  const int* highest = nullptr;
  int found = 0;
  if (host.Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&highest), &found) == MPI_SUCCESS &&
      found != 0) {
    highest_tag_ = *highest;
  }
  if (settings.counters)
    run_ignoring_exceptions([&] {
      counters.join(job_identity(), host.rank_in(MPI_COMM_WORLD), host.size_of(MPI_COMM_WORLD),
                    name_of(host.mpi));
    });
  if (settings.counters && settings.stall_s > 0)
    static_cast<void>(run_unless_out_of_memory(answer_where_this_thread_is));
  is_started_.store(true, std::memory_order_release);
  // This takes memory, which the agreement on rules must not do.
  if (selection.names_host_algorithms())
    static_cast<void>(run_unless_out_of_memory([&] { static_cast<void>(host_variables()); }));
  for (std::size_t k = 0; k < collectives.size(); ++k)
    static_cast<void>(run_unless_out_of_memory([&] { report_unknown_choice(collective_at(k)); }));
  return true;
}

// Nothing is copied: a duplicate gets its own entry at its first use.
int Runtime::on_copy(MPI_Comm, int, void*, void*, void*, int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}

int Runtime::on_delete(MPI_Comm handle, int, void* attribute, void* state) {
  auto* self = static_cast<Runtime*>(state);
  auto* communicator = static_cast<Communicator*>(attribute);
  self->destroyed_communicators_.fetch_add(1, std::memory_order_acq_rel);
  // Destroying the entry calls the host, which must not be re-entered from its own function. So this waits
  // until the host has returned.
  if (!leave_to_freeing_call(handle, communicator)) destroy(communicator);
  return MPI_SUCCESS;
}

void Runtime::leave_to_host(MPI_Comm handle) {
  if (handle == MPI_COMM_NULL) return;
  int keyval = left_to_host_.load(std::memory_order_acquire);
  if (keyval == MPI_KEYVAL_INVALID) {
    const std::lock_guard lock(mutex_);
    keyval = left_to_host_.load(std::memory_order_relaxed);
    const auto on_dup = [](MPI_Comm, int, void*, void* attribute, void* copy, int* flag) -> int {
      *static_cast<void**>(copy) = attribute;
      *flag = 1;
      return MPI_SUCCESS;
    };
    const auto on_free = [](MPI_Comm, int, void*, void*) -> int { return MPI_SUCCESS; };
    if (keyval == MPI_KEYVAL_INVALID) host.Comm_create_keyval(on_dup, on_free, &keyval, nullptr);
    left_to_host_.store(keyval, std::memory_order_release);
  }
  host.Comm_set_attr(handle, keyval, this);
}

bool Runtime::is_left_to_host(MPI_Comm handle) const {
  const int keyval = left_to_host_.load(std::memory_order_acquire);
  if (keyval == MPI_KEYVAL_INVALID) return false;
  void* attribute = nullptr;
  int is_found = 0;
  host.Comm_get_attr(handle, keyval, static_cast<void*>(&attribute), &is_found);
  return is_found != 0;
}

void Runtime::forget(const Communicator& communicator) {
  const std::lock_guard lock(mutex_);
  if (std::erase(communicators_, &communicator) == 0) return;
  for (std::size_t k = 0; k < collectives.size(); ++k)
    counts_of_destroyed_communicators_[k] += communicator.counts(collective_at(k));
}

void Runtime::destroy(Communicator* communicator) {
  // The host may call this while offbeat makes a call of it.
  const bool was_inside = std::exchange(inside_offbeat, true);
  if (communicator->abandon()) delete communicator;
  inside_offbeat = was_inside;
}

void Runtime::destroy_abandoned() {
  const bool was_inside = std::exchange(inside_offbeat, true);
  operations_under_way.clear();
  inside_offbeat = was_inside;
}

int Runtime::free_communicator(MPI_Comm handle, HostFunction<int(MPI_Comm*)> host_call, MPI_Comm* argument) {
  // From now on no thread finds the communicator in its cache.
  destroyed_communicators_.fetch_add(1, std::memory_order_acq_rel);
  Communicator* entry_to_destroy = nullptr;
  const int code = call_while_freeing(handle, host_call, argument, entry_to_destroy);
  // The host may have freed other communicators without notice. In Open MPI these are the halves of an
  // inter-communicator, on which attribute functions may have made calls.
  destroyed_communicators_.fetch_add(1, std::memory_order_acq_rel);
  if (entry_to_destroy != nullptr) destroy(entry_to_destroy);
  destroy_abandoned();
  return code;
}

void Runtime::remove(MPI_Comm handle) {
  void* attribute = nullptr;
  int found = 0;
  if (host.Comm_get_attr(handle, keyval_, static_cast<void*>(&attribute), &found) == MPI_SUCCESS &&
      found != 0) {
    host.Comm_delete_attr(handle, keyval_);
  }
}

Counts Runtime::counts(Collective collective) {
  const std::lock_guard lock(mutex_);
  Counts total = counts_of_destroyed_communicators_[index_of(collective)];
  total.intercepted += without_communicator_[index_of(collective)].load(std::memory_order_relaxed);
  for (const Communicator* communicator : communicators_) total += communicator->counts(collective);
  return total;
}

// MPI_Finalize first deletes the attributes of MPI_COMM_SELF, the last one first. The program's delete
// functions may communicate, and may complete what was begun before MPI_Finalize. So offbeat serves calls
// until the host deletes this attribute. MPI_Init sets it, before the program can set one.
void Runtime::arrange_end() {
  int keyval = MPI_KEYVAL_INVALID;
  const auto on_end = [](MPI_Comm, int, void*, void* self) -> int {
    const InsideOffbeat guard;
    static_cast<Runtime*>(self)->end();
    return MPI_SUCCESS;
  };
  host_calls_end_ = host.Comm_create_keyval(on_copy, on_end, &keyval, this) == MPI_SUCCESS &&
                    host.Comm_set_attr(MPI_COMM_SELF, keyval, this) == MPI_SUCCESS;
}

void Runtime::begin_to_finalize() {
  if (!is_mpi_running() || is_finalizing_.exchange(true)) return;  // the host reports such an error
  progress.prepare_to_stop();
  destroy_abandoned();
  if (!host_calls_end_) return end();
  remove(MPI_COMM_SELF);
}

void Runtime::end() {
  if (has_ended_.exchange(true)) return;
  if (settings.report && host.rank_in(MPI_COMM_WORLD) == 0) run_ignoring_exceptions([&] { report(); });
  stop_answering();
  if (!is_started_.load(std::memory_order_acquire)) return;
  progress.stop();
  {
    const std::lock_guard lock(mutex_);
    for (Communicator* communicator : communicators_) communicator->leave();
  }
  remove(MPI_COMM_WORLD);
  if (!host_calls_end_) remove(MPI_COMM_SELF);
  if (HostVariables* known = host_variables_.load(std::memory_order_acquire)) known->end();
}

// Prints one line for each collective that was called, and what to type next. If no line appears, the preload
// did not reach the ranks.
void Runtime::report() {
  bool any = false;
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    const auto collective = collective_at(k);
    const Counts total = counts(collective);
    if (total.intercepted == 0) continue;
    any = true;
    say(std::string(name_of(collective)) + ": " + std::to_string(total.intercepted) + " calls intercepted, " +
        std::to_string(total.served) + " served, " + std::to_string(total.intercepted - total.served) +
        " native");
  }
  // The line is printed at the end of the program. A program without collectives expects nothing from
  // offbeat, and may be in the middle of its own line.
  if (!any) {
    std::atexit([] { say("no call intercepted"); });
    return;
  }
  for (const std::string& line : lines_on_time(time_in_collectives(counters), " of MPI_COMM_WORLD"))
    say(line);
  if (const std::string line = line_on_contention(contention()); !line.empty()) say(line);
  say(printable(line_on_next_command(settings, host.size_of(MPI_COMM_WORLD), program_line('\0')), 400));
}

}  // namespace offbeat
