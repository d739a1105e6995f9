// SPDX-License-Identifier: BSD-3-Clause
// Counters of the collectives of one process. They lie in a file without a name, which the process keeps
// open. So any process of the same user can read them while the job runs (`offbeat top`), and nothing is left
// when the job ends. Only their own rank writes them, with plain loads and stores.
//
// The file begins with a CounterHeader of counter_block_bytes bytes. Blocks of the same size follow, one for
// each communicator or group. The first block has the sums of those that are gone. Python reads the same
// layout (python/offbeat/live/layout.py), so a change here is also a change of counter_layout.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "base/collective.hpp"

namespace offbeat {

inline constexpr std::uint32_t counter_layout = 2;
inline constexpr std::size_t counter_block_bytes = 8192;
inline constexpr char counter_file_name[] = "offbeat-counters";

// A number that one thread at a time writes and any process may read. Relaxed loads and stores suffice,
// without a locked instruction.
class Counter {
 public:
  void increment() { add(1); }
  void add(std::uint64_t more) { set(value() + more); }
  void set(std::uint64_t value) { value_.store(value, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// The counters of one collective on one communicator. A call writes the first cache line. The rest is written
// only if the rank waited long enough to notice it (CallTimer). Times are ticks of ProcessorClock. Calls are
// timed by samples if they are frequent, and each timed call then counts as many times as there are calls for
// each sample.
struct alignas(64) CollectiveCounters {
  static constexpr std::size_t wait_classes = 24;
  static constexpr std::size_t most_late_ranks = 6;
  static constexpr std::size_t algorithm_bytes = 64;

  Counter calls;  // that the program has made
  Counter served;
  Counter bytes;          // of the calls, by the length that chooses the algorithm
  Counter since;          // when the present call blocked the rank; 1: it is not timed; 0: there is none
  Counter ticks;          // in blocking calls
  Counter waiting_ticks;  // until the last rank of the node had come
  Counter waits;          // blocking calls for which it is known who came last
  Counter blocking;       // blocking calls that are over
  // Counts waits by their length: class k has those of less than 2^k units (CounterHeader::wait_unit_ticks).
  std::array<std::atomic<std::uint32_t>, wait_classes> waits_by_length;
  // The ranks for which this rank waited most often. If another one comes, it takes the place of the one with
  // the fewest calls, and its count goes on from there, so a rank that is often last is never lost.
  struct LateRank {
    std::atomic<std::uint32_t> number_plus_1;  // as people know it; 0: the place is free
    std::atomic<std::uint32_t> calls;
    Counter ticks;
  };
  std::array<LateRank, most_late_ranks> late_ranks;
  std::array<char, algorithm_bytes> algorithm;  // of the last timed call; empty: the host's own

  // Counts a wait of `ticks`, which are `units`, for rank `number`, as `weight` waits.
  void add_wait(int number, std::uint64_t ticks, std::uint64_t units, std::uint32_t weight);
  // Counts `ticks` of waiting for rank `number` in `calls` calls.
  void add_late(int number, std::uint64_t ticks, std::uint32_t calls);
  // `has_same_numbers`: both number the late ranks alike.
  void add(const CollectiveCounters& other, bool has_same_numbers);
};
static_assert(sizeof(CollectiveCounters) == 320);

struct alignas(64) CommunicatorCounters {
  enum State : std::uint32_t { free, in_use, sums };
  std::atomic<std::uint32_t> state;
  std::uint32_t rank;
  std::uint32_t size;
  std::uint32_t is_group;  // 1: a group without MPI
  std::uint64_t identity;  // equal on all ranks of the communicator; 0: unknown
  std::array<char, 64> name;
  // The call under way that blocks a thread of the program, which has begun it before: of a group
  // (groups/begun_timer.hpp), or of a communicator, where `since` of its collective says when the wait began.
  Counter awaited_number;  // 0: there is none
  Counter awaited_collective;
  Counter awaited_us;  // how long it has blocked the thread, when it was last looked at
  std::array<CollectiveCounters, collectives.size()> of_collectives;

  [[nodiscard]] CollectiveCounters& of(Collective collective) { return of_collectives[index_of(collective)]; }
};
static_assert(sizeof(CommunicatorCounters) <= counter_block_bytes);

// What readers have to know about the process.
struct CounterHeader {
  std::array<char, 8> magic;  // "offbeat" and a zero
  std::uint32_t layout;
  std::uint32_t blocks;  // that may be in use; the file may have room for more
  std::uint64_t job;     // equal on all ranks of the job; 0: unknown
  std::int32_t pid;
  std::int32_t rank;  // in MPI_COMM_WORLD, or in the world of its groups
  std::int32_t ranks;
  std::uint32_t wait_unit_ticks;  // about a microsecond
  std::uint64_t begun_ticks;      // this moment by ProcessorClock, and in nanoseconds by CLOCK_MONOTONIC
  std::int64_t begun_ns;
  std::array<char, 64> host;
  std::array<char, 64> mpi;  // "" without an MPI
};

// The counters of this process.
class CounterFile {
 public:
  static constexpr std::size_t most_blocks = 512;
  static constexpr std::size_t file_bytes = (most_blocks + 1) * counter_block_bytes;

  // Adds counters to the sums, and takes them back.
  struct Remove {
    CounterFile* file;
    void operator()(CommunicatorCounters* gone) const { file->remove(*gone); }
  };
  using Owner = std::unique_ptr<CommunicatorCounters, Remove>;

  // Returns the counters of this process, which are never destroyed. If `is_shared` is false, or the system
  // has no memory for a file, nobody else can read them.
  [[nodiscard]] static CounterFile& of_process(bool is_shared);

  // Says which rank this process is. The first call counts.
  void join(std::uint64_t job, int rank, int ranks, std::string_view mpi);

  // Returns counters that are zero. Throws std::bad_alloc.
  [[nodiscard]] Owner add();
  [[nodiscard]] CommunicatorCounters& sums() { return *sums_; }
  // Returns the job that this process has joined; 0: unknown.
  [[nodiscard]] std::uint64_t job() const { return header_ != nullptr ? header_->job : 0; }
  // Returns true if this process is rank `number` of a world of `ranks`.
  [[nodiscard]] bool is_rank(int number, int ranks) const {
    return header_ != nullptr && header_->rank == number && header_->ranks == ranks;
  }

 private:
  explicit CounterFile(bool is_shared);
  void remove(CommunicatorCounters& gone);
  [[nodiscard]] CommunicatorCounters& block(std::size_t index);

  pid_t pid_;
  CounterHeader* header_ = nullptr;  // null: the blocks are private memory
  std::mutex mutex_;
  CommunicatorCounters* sums_;
};

// Converts ticks of ProcessorClock, whose rate follows from the time that has passed since begin(). That is
// exact after some milliseconds.
struct TickRate {
  std::uint64_t begun_ticks;
  std::int64_t begun_ns;
  [[nodiscard]] static TickRate begin();
  // Returns `ticks` in nanoseconds.
  [[nodiscard]] std::int64_t to_ns(std::uint64_t ticks) const;
};

// Copies a text, cut to the room that there is, with a zero behind it.
template <std::size_t bytes>
void copy_text(std::string_view text, std::array<char, bytes>& room) {
  room[text.copy(room.data(), bytes - 1)] = '\0';
}

}  // namespace offbeat
