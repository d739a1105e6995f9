// SPDX-License-Identifier: BSD-3-Clause
#include "groups/group_process.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <string>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/pool.hpp"
#include "groups/operation.hpp"
#include "node/device_memory.hpp"

namespace offbeat {
namespace {

constinit std::atomic<std::uint64_t> forks{0};

void prepare_fork() { GroupProcess::find()->windows.lock(); }
void be_the_parent() { GroupProcess::find()->windows.unlock(); }
// The child has no other thread than the one that forked.
void be_a_child() {
  GroupProcess::find()->windows.unlock();
  forks.fetch_add(1, std::memory_order_relaxed);
  operations_under_way.forget_all();
  ProgressThread::forget_thread();
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
        shape.failure_texts_offset(), shape.stages_offset(), shape.signs_offset(), shape.round_words_offset(),
        shape.tree_lines_offset(), shape.records_offset(), shape.steps_offset(), shape.relay_words_offset(),
        shape.windows_offset(), shape.channels_offset(), shape.rings_offset(), shape.total_bytes()})
    text += ' ' + std::to_string(number);
  return selection.hash_of_built_in(fnv1a(text));
}

}  // namespace

// This uses a lock instead of std::call_once, because an exception must not pass through glibc's pthread_once
// if libgcc is linked statically.
GroupProcess& GroupProcess::get() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (find() == nullptr) {
    made.store(new GroupProcess, std::memory_order_release);
    pthread_atfork(prepare_fork, be_the_parent, be_a_child);
  }
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
  if (sent_ + received_ > 0)
    say("messages: " + std::to_string(sent_) + " sent and " + std::to_string(received_) +
        " received in groups");
}

}  // namespace offbeat
