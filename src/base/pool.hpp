// SPDX-License-Identifier: BSD-3-Clause
// A pool of freed memory, by size classes. Coroutine frames, scratch vectors and lists of tasks come from it,
// so that the second call of a collective asks malloc for nothing.
//
// One pool per thread, without locks. A block may be freed in another thread than the one that took it; it
// then joins that thread's pool. What a thread keeps is bounded: beyond the bound blocks go back to malloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace offbeat::pool {

inline constexpr std::size_t alignment = 64;

// Never null: throws std::bad_alloc. Aligned to 64 bytes.
[[nodiscard]] void* allocate(std::size_t bytes);

// `bytes` is the argument of allocate().
void release(void* block, std::size_t bytes) noexcept;

// A block for the life of a scope, also of one that an exception leaves.
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

// A list whose memory comes from the pool.
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
// Returns the limit before.
std::size_t set_cache_limit(std::size_t bytes);

// How many blocks this thread has taken from malloc so far. A test asserts that the number stands still.
[[nodiscard]] std::uint64_t malloc_calls();

// Gives every cached block of this thread back to malloc.
void trim() noexcept;

}  // namespace offbeat::pool
