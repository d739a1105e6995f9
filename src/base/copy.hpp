// SPDX-License-Identifier: BSD-3-Clause
// Copying vectors, also those that do not fit into a first-level cache.
#pragma once

#include <cstddef>
#include <cstring>

namespace offbeat {

// The bytes that one core takes from another at once.
inline constexpr std::size_t cache_line = 64;

// memcpy with vector registers: from 2 KiB on the C library's uses `rep movsb`, which on Zen 4 is as fast
// where the destination is in a cache, slower by up to 40 % where it is not, and 10 to 30 times as slow where
// the destination is less than 32 bytes ahead of the source within a page, as memory from malloc often is.
void copy_long(void* to, const void* from, std::size_t bytes);

// Shorter ones are left to the C library.
inline constexpr std::size_t long_from_bytes = 2048;

// For any length.
inline void copy(void* to, const void* from, std::size_t bytes) {
  bytes < long_from_bytes ? void(std::memcpy(to, from, bytes)) : copy_long(to, from, bytes);
}

// memcpy by `rep movsb` on cores that are faster with it, from where no other core writes. It reads far
// ahead: from right behind a core that is writing it takes the next lines away from that core, and both are
// slow.
void copy_at_rest(void* to, const void* from, std::size_t bytes);

// memcpy into shared memory, whose lines another core has read last. `rep movsb` claims whole lines and does
// not ask that core for what they hold, so it is two to three times as fast there (benchmark_lines). For any
// length.
void copy_to_shared(void* to, const void* from, std::size_t bytes);

// memcpy with non-temporal stores, which do not read the destination first. Slower than copy() where the
// destination is in a cache, or would still be there when it is read next.
void copy_past_cache(void* to, const void* from, std::size_t bytes);

// The size of the largest cache of this machine.
[[nodiscard]] std::size_t last_level_cache_bytes();

}  // namespace offbeat
