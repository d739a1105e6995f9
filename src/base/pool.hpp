// SPDX-License-Identifier: BSD-3-Clause
// A pool of freed memory in size classes. Coroutine frames, scratch vectors and lists of tasks come from it,
// so the second call of a collective takes nothing from malloc.
//
// Each thread has its own pool without locks. If another thread frees a block, the block joins that thread's
// pool. A thread keeps a limited number of bytes; beyond that, blocks go back to malloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace offbeat::pool {

inline constexpr std::size_t alignment = 64;

// Returns `bytes` bytes aligned to 64 bytes. Throws std::bad_alloc; never returns null.
[[nodiscard]] void* allocate(std::size_t bytes);

// Gives a block back. `bytes` must be the argument of its allocate().
void release(void* block, std::size_t bytes) noexcept;

// A block of memory that is released at the end of the scope, also after an exception.
class Block {
 public:
  explicit Block(std::size_t bytes) : bytes_(bytes), data_(static_cast<std::byte*>(allocate(bytes))) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { release(data_, bytes_); }
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::size_t bytes_;
  std::byte* data_;
};

// Lets a standard container take its memory from the pool. List is a vector that does so.
template <class Element>
struct Allocator {
  using value_type = Element;
  Allocator() = default;
  template <class Other>
  Allocator(const Allocator<Other>& /*other*/) noexcept {}
  [[nodiscard]] Element* allocate(std::size_t count) {
    return static_cast<Element*>(pool::allocate(count * sizeof(Element)));
  }
  void deallocate(Element* elements, std::size_t count) noexcept {
    release(elements, count * sizeof(Element));
  }
  friend bool operator==(const Allocator&, const Allocator&) = default;
};
template <class Element>
using List = std::vector<Element, Allocator<Element>>;

// Sets how many bytes of freed blocks each thread keeps: 256 MiB by default, none under AddressSanitizer.
// Returns the old limit.
std::size_t set_cache_limit(std::size_t bytes);

// Returns how many blocks this thread has taken from malloc so far. A test checks that the number stops
// growing.
[[nodiscard]] std::uint64_t malloc_calls();

// Gives every cached block of this thread back to malloc.
void trim() noexcept;

}  // namespace offbeat::pool
