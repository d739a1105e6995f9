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

constexpr int smallest_size_class = 6;  // 64 bytes
constexpr int size_class_count = 64;

// Returns the size class of a block: the exponent of the next power of two. A coroutine frame then wastes at
// most half of itself, and finding the class takes one instruction.
constexpr int size_class_of(std::size_t bytes) {
  return bytes <= (std::size_t{1} << smallest_size_class) ? smallest_size_class
                                                          : static_cast<int>(std::bit_width(bytes - 1));
}
constexpr std::size_t size_class_bytes(int size_class) { return std::size_t{1} << size_class; }

#if defined(__SANITIZE_ADDRESS__)
std::atomic<std::size_t> cache_limit{0};  // keep nothing: a reused block would hide a use after free
#else
std::atomic<std::size_t> cache_limit{std::size_t{256} << 20};
#endif

struct ThreadCache {
  std::array<FreeBlock*, size_class_count> free{};
  std::size_t bytes = 0;
  std::uint64_t malloc_calls = 0;
  bool is_trimmed_at_exit = false;
};

// The cache is constant-initialised and trivially destructible, so accessing it takes no guard. It takes one
// instruction where this file is compiled for libraries that are loaded with the program (CMakeLists.txt).
constinit thread_local ThreadCache cache;

// Trims the cache when its thread exits. Only threads that cached something have this object.
struct TrimAtThreadExit {
  ~TrimAtThreadExit() {
    trim();
    has_exited = true;
  }
  static constinit thread_local bool has_exited;
};
constinit thread_local bool TrimAtThreadExit::has_exited = false;

void trim_at_thread_exit() {
  thread_local TrimAtThreadExit at_exit;
  static_cast<void>(at_exit);
  cache.is_trimmed_at_exit = true;
}

}  // namespace

void* allocate(std::size_t bytes) {
  const int size_class = size_class_of(bytes);
  ThreadCache& mine = cache;
  if (FreeBlock* block = mine.free[size_class]) {
    mine.free[size_class] = block->next;
    mine.bytes -= size_class_bytes(size_class);
    return block;
  }
  ++mine.malloc_calls;
  void* block = std::aligned_alloc(alignment, size_class_bytes(size_class));
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void release(void* block, std::size_t bytes) noexcept {
  const int size_class = size_class_of(bytes);
  ThreadCache& mine = cache;
  if (mine.bytes + size_class_bytes(size_class) > cache_limit.load(std::memory_order_relaxed) ||
      TrimAtThreadExit::has_exited) {
    std::free(block);
    return;
  }
  if (!mine.is_trimmed_at_exit) trim_at_thread_exit();
  mine.free[size_class] = new (block) FreeBlock{mine.free[size_class]};
  mine.bytes += size_class_bytes(size_class);
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
