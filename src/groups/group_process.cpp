// SPDX-License-Identifier: BSD-3-Clause
#include "groups/group_process.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/pool.hpp"
#include "groups/network.hpp"
#include "groups/operations_under_way.hpp"
#include "groups/own_network.hpp"
#include "groups/time_report.hpp"
#include "node/device_memory.hpp"

namespace offbeat {
namespace {

constinit std::atomic<std::uint64_t> forks{0};

// A thread that makes the GroupProcess holds this lock. A fork waits for it: otherwise the child would wait
// forever for a variable that the other thread was about to initialize.
constinit std::mutex making;
// True in the thread that makes it, which may fork itself, in a driver that it loads.
constinit thread_local bool makes_it = false;

class Maker {
 public:
  Maker() { makes_it = true; }
  Maker(const Maker&) = delete;
  Maker& operator=(const Maker&) = delete;
  ~Maker() { makes_it = false; }

 private:
  const std::lock_guard<std::mutex> lock_{making};
};

// The GroupProcess whose window budget this thread has locked, because it is about to fork.
constinit thread_local GroupProcess* locked_for_fork = nullptr;

void prepare_fork() {
  if (makes_it) return;
  making.lock();
  locked_for_fork = GroupProcess::find();
  if (locked_for_fork != nullptr) locked_for_fork->windows.lock();
  for (const ForkHandlers& each : fork_handlers_of_networks()) each.prepare();
}
void unlock_after_fork() {
  if (GroupProcess* const locked = std::exchange(locked_for_fork, nullptr)) locked->windows.unlock();
  if (!makes_it) making.unlock();
}
void be_the_parent() {
  if (!makes_it)
    for (const ForkHandlers& each : fork_handlers_of_networks()) each.be_the_parent();
  unlock_after_fork();
}
// The child has no other thread than the one that forked.
void be_a_child() {
  if (!makes_it)
    for (const ForkHandlers& each : fork_handlers_of_networks()) each.be_a_child();
  unlock_after_fork();
  forks.fetch_add(1, std::memory_order_relaxed);
  operations_under_way.forget_all();
  ProgressThread::forget_thread();
}

// Before any thread can fork while another one makes the GroupProcess.
[[gnu::constructor]] void register_fork_handlers() {
  pthread_atfork(prepare_fork, be_the_parent, be_a_child);
}

constinit std::atomic<GroupProcess*> made{nullptr};

// The process that prints the report when it ends.
constinit std::atomic<pid_t> reporter{0};

// With three ranks and two stages, a change of any number of the layout changes the text.
std::uint64_t identity_of_build(const Selection& selection) {
  constexpr BoardShape shape{.ranks = 3,
                             .window_bytes = std::size_t{1} << 20,
                             .stages = 2,
                             .compares_calls = true,
                             .ring_bytes = 8192};
  std::string text = "offbeat group " OFFBEAT_VERSION;
  for (const std::size_t number :
       {BoardShape::inline_bytes, BoardShape::smallest_chunk, shape.bell_offset(),
        shape.failure_texts_offset(), shape.stages_offset(), shape.signs_in_stage(),
        shape.round_words_in_stage(), shape.tree_lines_in_stage(), shape.records_in_stage(),
        shape.alltoallv_lengths_in_stage(), shape.steps_in_stage(), shape.relay_words_in_stage(),
        shape.windows_in_stage(), shape.channels_offset(), shape.rings_offset(), shape.total_bytes(),
        sizeof(NetworkAddress)})
    text += ' ' + std::to_string(number);
  return selection.hash_of_built_in(fnv1a(text));
}

}  // namespace

// This uses a lock instead of std::call_once, because an exception must not pass through glibc's pthread_once
// if libgcc is linked statically.
GroupProcess& GroupProcess::get() {
  if (GroupProcess* const known = find()) return *known;
  const Maker maker;
  if (find() == nullptr) made.store(new GroupProcess, std::memory_order_release);
  return *find();
}

GroupProcess* GroupProcess::find() { return made.load(std::memory_order_acquire); }

std::uint64_t GroupProcess::fork_generation() { return forks.load(std::memory_order_relaxed); }

GroupProcess::GroupProcess() : settings(Settings::from_environment()), build(identity_of_build(selection)) {
  pool::set_cache_limit(settings.cache_bytes);
  if (copies_device_memory(settings.gpu)) devices::look_for_drivers();
  selection.set_initial_choice(settings);
}

void GroupProcess::joins_group(int rank) {
  if (has_joined_.exchange(true) || rank != 0) return;
  run_ignoring_exceptions([] {
    const std::string line = unknown_settings();
    if (!line.empty()) say(line);
  });
  if (!settings.report) return;
  reporter = getpid();
  std::atexit([] {
    if (reporter == getpid()) run_ignoring_exceptions([] { get().report(); });
  });
}

GroupWorld GroupProcess::world() const {
  const std::lock_guard lock(world_lock_);
  return world_;
}

void GroupProcess::set_world(const GroupWorld& world) {
  const std::lock_guard lock(world_lock_);
  if (world_.run == 0) world_ = world;
}

void GroupProcess::report() const {
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    const auto collective = collective_at(k);
    if (calls(collective) > 0)
      say(std::string(name_of(collective)) + ": " + std::to_string(calls(collective)) + " calls in groups");
  }
  for (const std::string& line : lines_on_time(time_in_collectives(counters), "")) say(line);
  if (sent_ + received_ > 0)
    say("messages: " + std::to_string(sent_) + " sent and " + std::to_string(received_) +
        " received in groups");
}

}  // namespace offbeat
