// SPDX-License-Identifier: BSD-3-Clause
#include "node/call_counters.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/file_size_limit.hpp"
#include "base/fork_lock.hpp"
#include "base/time.hpp"
#include "node/host_turns.hpp"
#include "node/shared_memory.hpp"

namespace offbeat {
namespace {

// Gives a block its pages. Returns false if there is no memory: a later access would end the process.
bool has_memory(void* block) {
#ifdef MADV_POPULATE_WRITE
  return madvise(block, counter_block_bytes, MADV_POPULATE_WRITE) == 0 || errno == EINVAL;
#else
  static_cast<void>(block);
  return true;
#endif
}

// Maps a new file, which stays open. Returns null if the system refuses. Pages that nobody touches take no
// memory.
void* map_counters(std::size_t bytes) {
  if (!has_address_space_for(bytes)) return nullptr;
  const FileSizeLimitIsError scope;
  const int lowest = memfd_create(counter_file_name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (lowest < 0) return nullptr;
  // Not in the place of standard output, if the program has closed that.
  const int file = fcntl(lowest, F_DUPFD_CLOEXEC, 3);
  close(lowest);
  if (file < 0) return nullptr;
  void* const data = ftruncate(file, static_cast<off_t>(bytes)) == 0
                         ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                         : MAP_FAILED;
  if (data == MAP_FAILED) {
    close(file);
    return nullptr;
  }
  auto* const first = static_cast<std::byte*>(data);
  if (!has_memory(first) || !has_memory(first + counter_block_bytes)) {
    munmap(data, bytes);
    close(file);
    return nullptr;
  }
  // No process can then remove pages under this one.
  static_cast<void>(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
  return data;
}

constexpr std::uint32_t saturated_sum(std::uint32_t a, std::uint64_t b) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(a + b, UINT32_MAX));
}

void add_to(std::atomic<std::uint32_t>& sum, std::uint64_t more) {
  sum.store(saturated_sum(sum.load(std::memory_order_relaxed), more), std::memory_order_relaxed);
}

}  // namespace

void CollectiveCounters::add_wait(int number, std::uint64_t ticks, std::uint64_t units,
                                  std::uint32_t weight) {
  waits.add(weight);
  const auto length =
      std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(units)), wait_classes - 1);
  add_to(waits_by_length[length], weight);
  add_late(number, ticks, weight);
}

void CollectiveCounters::add_late(int number, std::uint64_t ticks, std::uint32_t calls) {
  const auto wanted = static_cast<std::uint32_t>(number) + 1;
  LateRank* place = &late_ranks.front();
  for (LateRank& each : late_ranks) {
    if (each.number_plus_1.load(std::memory_order_relaxed) == wanted) {
      place = &each;
      break;
    }
    if (each.calls.load(std::memory_order_relaxed) < place->calls.load(std::memory_order_relaxed))
      place = &each;
  }
  if (place->number_plus_1.load(std::memory_order_relaxed) != wanted) {
    place->number_plus_1.store(wanted, std::memory_order_relaxed);
    place->ticks.set(0);
  }
  add_to(place->calls, calls);
  place->ticks.add(ticks);
}

void CollectiveCounters::add(const CollectiveCounters& other, bool has_same_numbers) {
  calls.add(other.calls.value());
  served.add(other.served.value());
  bytes.add(other.bytes.value());
  ticks.add(other.ticks.value());
  waiting_ticks.add(other.waiting_ticks.value());
  blocking.add(other.blocking.value());
  waits.add(other.waits.value());
  for (std::size_t k = 0; k < wait_classes; ++k)
    add_to(waits_by_length[k], other.waits_by_length[k].load(std::memory_order_relaxed));
  for (const LateRank& each : other.late_ranks) {
    const std::uint32_t number_plus_1 = each.number_plus_1.load(std::memory_order_relaxed);
    if (has_same_numbers && number_plus_1 != 0)
      add_late(static_cast<int>(number_plus_1) - 1, each.ticks.value(),
               each.calls.load(std::memory_order_relaxed));
  }
  if (other.algorithm[0] != '\0') algorithm = other.algorithm;
}

TickRate TickRate::begin() { return {ProcessorClock::now(), monotonic_ns()}; }

// In integers, because the program may trap what rounds.
std::int64_t TickRate::to_ns(std::uint64_t ticks) const {
  const std::uint64_t all_ticks = std::max<std::uint64_t>(1, ProcessorClock::now() - begun_ticks);
  const auto all_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(1, monotonic_ns() - begun_ns));
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::int64_t>(static_cast<Wide>(ticks) * all_ns / all_ticks);
}

CounterFile::CounterFile(bool is_shared) : pid_(getpid()) {
  void* const data = is_shared ? map_counters(file_bytes) : nullptr;
  if (data == nullptr) {
    sums_ = new CommunicatorCounters{};
    return;
  }
  header_ = static_cast<CounterHeader*>(data);
  const TickRate begun = TickRate::begin();
  header_->layout = counter_layout;
  header_->blocks = 1;
  header_->pid = pid_;
  header_->ranks = 0;
  header_->wait_unit_ticks = static_cast<std::uint32_t>(ProcessorClock::ticks_per_us());
  header_->begun_ticks = begun.begun_ticks;
  header_->begun_ns = begun.begun_ns;
  std::array<char, 64> host{};
  static_cast<void>(gethostname(host.data(), host.size() - 1));
  header_->host = host;
  sums_ = &block(0);
  sums_->state.store(CommunicatorCounters::sums, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(header_->magic.data(), "offbeat", header_->magic.size());
}

// A child of fork() shares the parent's file, and makes its own.
CounterFile& CounterFile::of_process(bool is_shared) {
  static constinit ForkLock lock;
  static CounterFile* of_this = nullptr;
  const std::lock_guard guard(lock);
  if (of_this == nullptr || of_this->pid_ != getpid()) of_this = new CounterFile(is_shared);
  return *of_this;
}

void CounterFile::join(std::uint64_t job, int rank, int ranks, std::string_view mpi) {
  const std::lock_guard guard(mutex_);
  if (header_ == nullptr || header_->ranks != 0) return;
  header_->job = job;
  header_->rank = rank;
  copy_text(mpi, header_->mpi);
  std::atomic_thread_fence(std::memory_order_release);
  header_->ranks = ranks;
}

CommunicatorCounters& CounterFile::block(std::size_t index) {
  auto* const first = reinterpret_cast<std::byte*>(header_) + counter_block_bytes;
  return *reinterpret_cast<CommunicatorCounters*>(first + index * counter_block_bytes);
}

CounterFile::Owner CounterFile::add() {
  const std::lock_guard guard(mutex_);
  for (std::size_t k = 1; header_ != nullptr && k < most_blocks; ++k) {
    CommunicatorCounters& mine = block(k);
    if (k < header_->blocks && mine.state.load(std::memory_order_relaxed) != CommunicatorCounters::free)
      continue;
    if (!has_memory(&mine)) break;
    // A block that was in use is not zero.
    if (k < header_->blocks) std::memset(static_cast<void*>(&mine), 0, sizeof mine);
    mine.state.store(CommunicatorCounters::in_use, std::memory_order_release);
    header_->blocks = std::max(header_->blocks, static_cast<std::uint32_t>(k) + 1);
    return Owner(&mine, {this});
  }
  return Owner(new CommunicatorCounters{}, {this});
}

void CounterFile::remove(CommunicatorCounters& gone) {
  if (pid_ != getpid()) return;  // a child of fork() frees what is its parent's
  const std::lock_guard guard(mutex_);
  // The numbers of late ranks are those of MPI_COMM_WORLD, or of their group, which may have other ranks than
  // the world of the groups.
  const bool is_world = header_ != nullptr && gone.size == static_cast<std::uint32_t>(header_->ranks);
  for (std::size_t k = 0; k < collectives.size(); ++k)
    sums_->of_collectives[k].add(gone.of_collectives[k], gone.is_group == 0 || is_world);
  const auto* const begin = reinterpret_cast<const std::byte*>(header_);
  const auto* const mine = reinterpret_cast<const std::byte*>(&gone);
  const bool is_in_file = header_ != nullptr && mine > begin && mine < begin + file_bytes;
  if (is_in_file) {
    gone.state.store(CommunicatorCounters::free, std::memory_order_release);
  } else {
    delete &gone;
  }
}

}  // namespace offbeat
