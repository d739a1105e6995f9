// SPDX-License-Identifier: BSD-3-Clause
#include "node/pinned_block.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "base/fork_lock.hpp"
#include "base/page_bytes.hpp"

namespace offbeat {

struct PinnedBlock::Memory {
  struct FreeHostMemory {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  Memory(const DeviceMemory& driver_of, std::size_t bytes)
      : bytes(bytes),
        driver_of(driver_of),
        data(static_cast<std::byte*>(std::aligned_alloc(page_bytes(), bytes))),
        registration(driver_of, data ? data.get() : throw std::bad_alloc(), bytes) {}

  const std::size_t bytes;
  const DeviceMemory driver_of;  // memory of the driver that knows this block
  const std::unique_ptr<std::byte, FreeHostMemory> data;
  const HostRegistration registration;  // ends before the memory
  std::atomic<Memory*> next{nullptr};
};

namespace {

// The blocks that nobody uses, at most this much. All are kept if the process ends: the driver may have ended
// before.
constexpr std::size_t most_spare_bytes = std::size_t{256} << 20;
constinit ForkLock mutex;  // guards the list, which is complete at every instant
constinit std::atomic<PinnedBlock::Memory*> cached_blocks{nullptr};
constinit std::size_t cached_bytes = 0;

PinnedBlock::Memory* take_cached_block(const DeviceMemory& driver_of, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  std::atomic<PinnedBlock::Memory*>* link = &cached_blocks;
  while (PinnedBlock::Memory* const each = link->load(std::memory_order_relaxed)) {
    if (each->bytes == bytes && each->driver_of.has_driver_of(driver_of)) {
      link->store(each->next.load(std::memory_order_relaxed), std::memory_order_relaxed);
      cached_bytes -= bytes;
      return each;
    }
    link = &each->next;
  }
  return nullptr;
}

bool cache_block(PinnedBlock::Memory& memory) {
  const std::lock_guard lock(mutex);
  if (cached_bytes + memory.bytes > most_spare_bytes) return false;
  memory.next.store(cached_blocks.load(std::memory_order_relaxed), std::memory_order_relaxed);
  cached_blocks.store(&memory, std::memory_order_release);
  cached_bytes += memory.bytes;
  return true;
}

}  // namespace

PinnedBlock::PinnedBlock(const DeviceMemory& driver_of, std::size_t bytes) {
  constexpr std::size_t smallest = std::size_t{64} << 10;
  bytes = std::bit_ceil(std::max({bytes, smallest, page_bytes()}));
  memory_ = take_cached_block(driver_of, bytes);
  if (memory_ == nullptr) memory_ = new Memory(driver_of, bytes);
}
PinnedBlock::PinnedBlock(PinnedBlock&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}
PinnedBlock::~PinnedBlock() {
  if (memory_ != nullptr && !cache_block(*memory_)) delete memory_;
}
std::byte* PinnedBlock::data() const { return memory_->data.get(); }

}  // namespace offbeat
