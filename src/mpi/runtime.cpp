// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/runtime.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/error.hpp"
#include "base/pool.hpp"
#include "mpi/return_errors.hpp"

namespace offbeat {

constinit thread_local const Expression* last_algorithm [[gnu::tls_model("initial-exec")]] = nullptr;
constinit thread_local bool inside_offbeat [[gnu::tls_model("initial-exec")]] = false;
std::atomic<Runtime*> the_runtime{nullptr};

// A lock and not std::call_once: an exception may not pass through glibc's pthread_once when libgcc is linked
// statically.
Runtime& start_runtime() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  Runtime* running = the_runtime.load(std::memory_order_acquire);
  if (running == nullptr) {
    running = new Runtime;  // lives until the process ends
    the_runtime.store(running, std::memory_order_release);
  }
  return *running;
}

Runtime& start_runtime_or_exit() {
  try {
    return start_runtime();
  } catch (const UsageError& error) {
    // One rank speaks; the launcher then ends the others before they repeat it, unless only they failed.
    if (launcher_rank() != 0) sleep(1);
    say(error.what());
    _exit(2);
  }
}

Runtime::Runtime() : settings(Settings::from_environment()) {
  pool::set_cache_limit(settings.cache_bytes);
  if (!settings.allreduce.empty()) {
    try {
      allreduce.start_with(settings.allreduce, "OFFBEAT_ALLREDUCE");
    } catch (const UsageError& error) {
      throw UsageError("OFFBEAT_ALLREDUCE='" + settings.allreduce + "': " + error.what());
    }
  }
}

namespace {

// The communicators that this thread used last. Entries are valid while no context has died since.
struct Recent {
  std::uintptr_t communicator;
  Context* context;
  std::uint64_t deaths;
};
constexpr std::size_t recent_count = 8;
constinit thread_local std::array<Recent, recent_count> recent [[gnu::tls_model("initial-exec")]]{};

Recent& recent_slot(std::uintptr_t communicator) {
  return recent[(communicator * 0x9E3779B97F4A7C15ULL) >> 61];
}
static_assert(recent_count == 1 << 3);

}  // namespace

Context* Runtime::context(MPI_Comm communicator) {
  const std::uintptr_t key = abi::bits(communicator);
  Recent& entry = recent_slot(key);
  const std::uint64_t deaths = deaths_.load(std::memory_order_acquire);
  if (entry.communicator == key && entry.deaths == deaths) [[likely]]
    return entry.context;
  Context* found = find_or_create(communicator);
  if (found != nullptr) entry = {key, found, deaths};
  return found;
}

Context* Runtime::find_or_create(MPI_Comm communicator) {
  int initialized = 0;
  int finalized = 0;
  host.Initialized(&initialized);
  host.Finalized(&finalized);
  if (initialized == 0 || finalized != 0 || communicator == MPI_COMM_NULL) return nullptr;
  const bool can_have_contexts = start_with_mpi();
  if (can_have_contexts) {
    void* attribute = nullptr;
    int found = 0;
    if (host.Comm_get_attr(communicator, keyval_, static_cast<void*>(&attribute), &found) != MPI_SUCCESS)
      return nullptr;
    if (found != 0) return static_cast<Context*>(attribute);
  }
  // A rank without memory must not leave the others alone: all have a context, or none, and try again.
  Context* mine = can_have_contexts ? add(communicator) : nullptr;
  if (Context::start(mine, host, communicator)) return mine;
  if (mine != nullptr) host.Comm_delete_attr(communicator, keyval_);
  return nullptr;
}

Context* Runtime::add(MPI_Comm communicator) {
  std::unique_ptr<Context> created;
  const bool is_known = try_to([&] {
    created = std::make_unique<Context>(host, communicator, settings, allreduce);
    const std::lock_guard lock(mutex_);
    contexts_.push_back(created.get());
  });
  if (!is_known) return nullptr;
  const ReturnErrors scope(host, communicator);
  if (host.Comm_set_attr(communicator, keyval_, created.get()) == MPI_SUCCESS) return created.release();
  const std::lock_guard lock(mutex_);
  std::erase(contexts_, created.get());
  return nullptr;
}

bool Runtime::start_with_mpi() {
  const std::lock_guard lock(mutex_);
  if (types_ != nullptr) return true;
  std::unique_ptr<Types> types;
  if (!try_to([&] { types = std::make_unique<Types>(host); })) return false;
  if (host.Comm_create_keyval(on_copy, on_delete, &keyval_, this) != MPI_SUCCESS) return false;
  types_ = std::move(types);
  return true;
}

// A duplicate gets a context of its own when it is used.
int Runtime::on_copy(MPI_Comm, int, void*, void*, void*, int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}

int Runtime::on_delete(MPI_Comm, int, void* attribute, void* state) {
  auto* self = static_cast<Runtime*>(state);
  auto* context = static_cast<Context*>(attribute);
  {
    const std::lock_guard lock(self->mutex_);
    std::erase(self->contexts_, context);
    self->of_dead_contexts_.intercepted += context->intercepted.value();
    self->of_dead_contexts_.served += context->served.value();
  }
  self->deaths_.fetch_add(1, std::memory_order_acq_rel);
  delete context;
  return MPI_SUCCESS;
}

void Runtime::forget(MPI_Comm communicator) {
  if (types_ == nullptr || communicator == MPI_COMM_NULL) return;
  void* attribute = nullptr;
  int found = 0;
  if (host.Comm_get_attr(communicator, keyval_, static_cast<void*>(&attribute), &found) == MPI_SUCCESS &&
      found != 0) {
    host.Comm_delete_attr(communicator, keyval_);
  }
}

Runtime::Counts Runtime::counts() {
  const std::lock_guard lock(mutex_);
  Counts total = of_dead_contexts_;
  for (const Context* context : contexts_) {
    total.intercepted += context->intercepted.value();
    total.served += context->served.value();
  }
  return total;
}

void Runtime::finalize() {
  int initialized = 0;
  int finalized = 0;
  host.Initialized(&initialized);
  host.Finalized(&finalized);
  if (initialized == 0 || finalized != 0) return;  // the host reports it
  if (settings.report) {
    int rank = 0;
    host.Comm_rank(MPI_COMM_WORLD, &rank);
    const Counts total = counts();
    if (rank == 0) {
      say("allreduce: " + std::to_string(total.intercepted) + " calls intercepted, " +
          std::to_string(total.served) + " served, " + std::to_string(total.intercepted - total.served) +
          " native");
    }
  }
  forget(MPI_COMM_WORLD);
  forget(MPI_COMM_SELF);
}

}  // namespace offbeat
