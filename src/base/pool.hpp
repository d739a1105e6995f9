// SPDX-License-Identifier: BSD-3-Clause
// Memory that comes back: coroutine frames, scratch vectors and task lists are taken from size classes
// of freed blocks, so that the second call of a collective allocates nothing.
//
// One pool per thread, without locks. A block may be freed in another thread than the one that took it; it
// then joins that thread's pool. What a thread keeps is bounded: beyond the bound blocks go back to malloc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace offbeat::pool {

inline constexpr std::size_t alignment = 64;

// Never null: throws std::bad_alloc. Aligned to 64 bytes.
[[nodiscard]] void* allocate(std::size_t bytes);

// `bytes` is what was asked for.
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

// How many bytes of freed blocks one thread keeps, for all threads; 256 MiB unless set, nothing under
// AddressSanitizer. Returns what it was.
std::size_t set_cache_limit(std::size_t bytes);

// Blocks this thread has taken from malloc so far: a test asserts that it stands still.
[[nodiscard]] std::uint64_t malloc_calls();

// Give every cached block of this thread back to malloc.
void trim() noexcept;

}  // namespace offbeat::pool
