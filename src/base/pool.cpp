// SPDX-License-Identifier: BSD-3-Clause
#include "base/pool.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <new>

namespace offbeat::pool {
namespace {

struct FreeBlock {
  FreeBlock* next;
};

constexpr int smallest_class = 6;  // 64 bytes
constexpr int class_count = 64;

// Returns the size class of a block: the exponent of the next power of two. A coroutine frame then wastes at
// most half of itself, and finding the class takes one instruction.
constexpr int class_of(std::size_t bytes) {
  return bytes <= (std::size_t{1} << smallest_class) ? smallest_class
                                                     : static_cast<int>(std::bit_width(bytes - 1));
}
constexpr std::size_t class_bytes(int size_class) { return std::size_t{1} << size_class; }

#if defined(__SANITIZE_ADDRESS__)
std::atomic<std::size_t> cache_limit{0};  // keep nothing: a reused block would hide a use after free
#else
std::atomic<std::size_t> cache_limit{std::size_t{256} << 20};
#endif

struct Cache {
  std::array<FreeBlock*, class_count> free{};
  std::size_t bytes = 0;
  std::uint64_t malloc_calls = 0;
  bool will_be_trimmed = false;
};

// The cache is constant-initialised and trivially destructible, so accessing it takes no guard. It takes one
// instruction where this file is compiled for libraries that are loaded with the program (CMakeLists.txt).
constinit thread_local Cache cache;

// Trims the cache when its thread exits. Only threads that cached something have this object.
struct TrimAtThreadExit {
  ~TrimAtThreadExit() {
    trim();
    exiting = true;
  }
  static constinit thread_local bool exiting;
};
constinit thread_local bool TrimAtThreadExit::exiting = false;

void trim_at_thread_exit() {
  thread_local TrimAtThreadExit at_exit;
  static_cast<void>(at_exit);
  cache.will_be_trimmed = true;
}

}  // namespace

void* allocate(std::size_t bytes) {
  const int size_class = class_of(bytes);
  Cache& mine = cache;
  if (FreeBlock* block = mine.free[size_class]) {
    mine.free[size_class] = block->next;
    mine.bytes -= class_bytes(size_class);
    return block;
  }
  ++mine.malloc_calls;
  void* block = std::aligned_alloc(alignment, class_bytes(size_class));
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void release(void* block, std::size_t bytes) noexcept {
  const int size_class = class_of(bytes);
  Cache& mine = cache;
  if (mine.bytes + class_bytes(size_class) > cache_limit.load(std::memory_order_relaxed) ||
      TrimAtThreadExit::exiting) {
    std::free(block);
    return;
  }
  if (!mine.will_be_trimmed) trim_at_thread_exit();
  mine.free[size_class] = new (block) FreeBlock{mine.free[size_class]};
  mine.bytes += class_bytes(size_class);
}

std::size_t set_cache_limit(std::size_t bytes) {
  return cache_limit.exchange(bytes, std::memory_order_relaxed);
}

std::uint64_t malloc_calls() { return cache.malloc_calls; }

void trim() noexcept {
  for (FreeBlock*& head : cache.free) {
    while (head != nullptr) {
      FreeBlock* next = head->next;
      std::free(head);
      head = next;
    }
  }
  cache.bytes = 0;
}

}  // namespace offbeat::pool
