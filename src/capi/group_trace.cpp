// SPDX-License-Identifier: BSD-3-Clause
#include "capi/group_trace.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/line_of_node.hpp"
#include "base/settings.hpp"
#include "trace/communicator_filter.hpp"
#include "trace/header.hpp"
#include "trace/sampling.hpp"
#include "trace/writer.hpp"

namespace offbeat::trace {
namespace {

constexpr std::size_t window_bytes = std::size_t{256} << 10;
constexpr std::uint64_t not_recorded = ~std::uint64_t{0};

std::uint32_t slots_of(std::size_t bytes) {
  return static_cast<std::uint32_t>((bytes + slot_bytes - 1) / slot_bytes);
}

// Returns true if the process has PyTorch: the report then looks for the steps of a training.
bool has_torch() {
  void* const torch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (torch != nullptr) dlclose(torch);
  return torch != nullptr;
}

// The trace file of this process. Each function needs the lock.
class File {
 public:
  File(const Settings& settings, const GroupWorld& world)
      : records_(world.rank % settings.trace_ranks_every == 0),
        recorded_collectives_(records_ && !settings.trace_paused ? settings.trace_collectives
                                                                 : Collectives()),
        record_every_(static_cast<std::uint64_t>(settings.trace_every)),
        filter_(settings.trace_communicators),
        world_(world),
        writer_(rank_file_path(settings.trace, world.rank), window_bytes, settings.trace_bytes) {
    if (!writer_.failure().empty()) throw UsageError(writer_.failure());
    const bool is_partial =
        recorded_collectives_.count() < static_cast<int>(collectives.size()) || !filter_.empty();
    fill_header(writer_.header(),
                {.rank = world.rank,
                 .ranks = world.ranks,
                 .run = world.run,
                 .records = records_,
                 .is_partial = is_partial,
                 .mpi = has_torch() ? "no MPI, PyTorch" : "no MPI",
                 .clock = own_clock()},
                settings);
  }

  void finish() {
    Header& header = writer_.header();
    header.end = own_clock();
    header.contention_at_end = contention_so_far();
    writer_.finish();
    std::atomic_ref(header.flags).store(header.flags | ended_in_order, std::memory_order_release);
  }

  [[nodiscard]] bool wants(const ObservedGroup& group) const {
    return filter_.empty() ||
           matches_communicator(filter_, static_cast<int>(group.world_ranks.size()), world_.ranks, "");
  }
  [[nodiscard]] bool wants(Collective collective, std::uint64_t number) const {
    return recorded_collectives_.contain(collective) && is_sampled(number, record_every_);
  }

  // Writes the record of a group. Returns its number, or the largest one if there is no room.
  std::uint32_t define(const ObservedGroup& group) {
    const auto& ranks = group.world_ranks;
    bool is_first = true;
    for (std::size_t k = 0; k < ranks.size(); ++k) is_first = is_first && ranks[k] == static_cast<int>(k);
    const bool follow = !is_first && group.rank == 0;
    const bool is_of_several = std::ranges::find(ranks, -1) != ranks.end();
    const auto listed = std::as_bytes(std::span(ranks)).first(follow ? ranks.size() * sizeof(int) : 0);
    const CommunicatorRecord record{.kind = RecordKind::communicator,
                                    .flags = static_cast<std::uint8_t>(
                                        (is_first ? has_first_ranks_of_world : 0) |
                                        (follow ? ranks_follow : 0) | (is_of_several ? of_several_jobs : 0)),
                                    .zero = 0,
                                    .slots = slots_of(communicator_ranks_offset + listed.size()),
                                    .number = defined_,
                                    .ranks = static_cast<std::uint32_t>(ranks.size()),
                                    .identity = group.identity,
                                    .rank = static_cast<std::uint32_t>(group.rank)};
    const auto head = std::as_bytes(std::span(&record, 1)).first(communicator_ranks_offset);
    return writer_.write(head, listed) ? defined_++ : std::numeric_limits<std::uint32_t>::max();
  }

  void count_call() { writer_.header().calls += 1; }

  std::uint64_t begin(std::uint32_t group, std::uint64_t number, const ObservedGroupCall& call,
                      clock::Nanoseconds arrival) {
    // The names come first, because each may take slots.
    const auto type = static_cast<std::uint16_t>(
        name(Named::type, call.type, call.width, std::numeric_limits<std::uint16_t>::max()));
    const std::uint8_t operation = short_name(Named::operation, call.operation);
    CallRecord* record = writer_.next();
    if (record == nullptr) {
      writer_.header().lost += 1;
      return not_recorded;
    }
    const int flags = incomplete | (call.is_in_place ? in_place : 0) | (call.is_blocking ? 0 : nonblocking);
    *record = {.kind = RecordKind::call,
               .flags = static_cast<std::uint8_t>(flags),
               .collective = call.collective,
               .zero = 0,
               .communicator = group,
               .arrival = arrival,
               .exit = 0,
               .completion = 0,
               .number = number,
               .bytes = call.bytes,
               .count = call.count,
               .root = call.root,
               .operation = operation,
               .algorithm = 0,
               .type = type};
    return writer_.publish();
  }
  void leave(std::uint64_t slot, clock::Nanoseconds exit, bool is_complete, const char* algorithm) {
    const std::uint8_t number = algorithm != nullptr ? short_name(Named::algorithm, algorithm) : 0;
    writer_.update_record(slot, [&](CallRecord& record) {
      record.exit = exit;
      record.algorithm = number;
      if (is_complete) {
        end(record, exit);
      } else if ((record.flags & incomplete) == 0) {
        record.completion = std::max(record.completion, exit);  // it was over before it returned
      }
    });
  }
  void complete(std::uint64_t slot, clock::Nanoseconds completion) {
    writer_.update_record(slot, [&](CallRecord& record) { end(record, completion); });
  }

 private:
  // The ranks of one machine have one clock. Between machines nobody compares the clocks, and the reader says
  // so.
  [[nodiscard]] Clock own_clock() const {
    const auto source = world_.has_one_clock ? clock::Source::shared : clock::Source::none;
    return to_stored_clock(clock::Model{.source = source, .at = clock::now()});
  }
  static void end(CallRecord& record, clock::Nanoseconds completion) {
    record.completion = completion;
    const auto flags = static_cast<std::uint8_t>(record.flags & ~incomplete);
    std::atomic_ref(record.flags).store(flags, std::memory_order_release);
  }
  [[nodiscard]] std::uint8_t short_name(Named what, const char* text) {
    return static_cast<std::uint8_t>(name(what, text, 0, std::numeric_limits<std::uint8_t>::max()));
  }
  // Returns the number of a name, which lives as long as the process, and records it if it is new. Returns 0
  // if there is no room for another one.
  [[nodiscard]] std::uint32_t name(Named what, const char* text, std::uint32_t size, std::uint32_t most) {
    if (*text == '\0') return 0;
    const auto known = names_.find({what, text});
    if (known != names_.end()) return known->second;
    const std::uint32_t number = named_[what] + 1;
    if (number > most) return 0;
    const std::size_t length = std::strlen(text);
    const NameRecord head{.kind = RecordKind::name,
                          .what = what,
                          .length = static_cast<std::uint16_t>(length),
                          .slots = slots_of(sizeof(NameRecord) + length),
                          .number = number,
                          .size = size};
    const std::span<const char> letters(text, length);
    if (!writer_.write(std::as_bytes(std::span(&head, 1)), std::as_bytes(letters))) return 0;
    return named_[what] = names_[{what, text}] = number;
  }

  const bool records_;
  const Collectives recorded_collectives_;
  const std::uint64_t record_every_;
  const std::string filter_;
  const GroupWorld world_;
  Writer writer_;
  std::uint32_t defined_ = 0;
  std::map<std::pair<Named, const char*>, std::uint32_t> names_;
  std::map<Named, std::uint32_t> named_;
};

std::mutex mutex;                                       // guards the file
constinit std::atomic<File*> file_of_process{nullptr};  // null: nothing is recorded at present

// Calls use(file) if there is a file.
template <class Use>
void with_file(Use&& use) noexcept {
  if (file_of_process.load(std::memory_order_acquire) == nullptr) return;
  run_ignoring_exceptions([&] {
    const std::lock_guard lock(mutex);
    if (File* const file = file_of_process.load(std::memory_order_relaxed)) use(*file);
  });
}

class Log final : public GroupCallLog {
 public:
  explicit Log(std::uint32_t number) : number_(number) {}

  std::uint64_t begins(const ObservedGroupCall& call) noexcept override {
    const clock::Nanoseconds arrival = clock::now();
    std::uint64_t slot = not_recorded;
    with_file([&](File& file) {
      file.count_call();
      const std::uint64_t number = calls_++;
      if (file.wants(call.collective, number)) slot = file.begin(number_, number, call, arrival);
    });
    return slot;
  }
  void returns(std::uint64_t slot, bool is_complete, const char* algorithm) noexcept override {
    if (slot == not_recorded) return;
    const clock::Nanoseconds exit = clock::now();
    with_file([&](File& file) { file.leave(slot, exit, is_complete, algorithm); });
  }
  void completes(std::uint64_t slot) noexcept override {
    if (slot == not_recorded) return;
    const clock::Nanoseconds completion = clock::now();
    with_file([&](File& file) { file.complete(slot, completion); });
  }

 private:
  const std::uint32_t number_;
  std::uint64_t calls_ = 0;
};

void finish() {
  with_file([](File& file) {
    file.finish();
    file_of_process.store(nullptr, std::memory_order_release);
  });
}

class Observer final : public GroupObserver {
 public:
  GroupCallLog* joins(const ObservedGroup& group) noexcept override {
    GroupCallLog* log = nullptr;
    try {
      open(group.world);
      with_file([&](File& file) {
        if (!file.wants(group)) return;
        const std::uint32_t number = file.define(group);
        if (number != std::numeric_limits<std::uint32_t>::max()) log = new Log(number);
      });
    } catch (const std::exception& error) {
      run_ignoring_exceptions(
          [&] { say_once_on_node(std::string("calls in groups are not traced: ") + error.what()); });
    }
    return log;
  }

 private:
  // The child of a fork() must not write to the file, which is the parent's.
  static void open(const GroupWorld& world) {
    static std::atomic<bool> is_decided{false};
    if (world.run == 0 || is_decided.exchange(true)) return;
    const Settings settings = Settings::from_environment();
    if (settings.trace.empty()) return;
    file_of_process.store(new File(settings, world), std::memory_order_release);  // never destroyed
    pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); },
                   [] {
                     file_of_process.store(nullptr, std::memory_order_release);
                     mutex.unlock();
                   });
    std::atexit(finish);
  }
};

}  // namespace

GroupObserver& group_trace() {
  static Observer observer;
  return observer;
}

}  // namespace offbeat::trace
