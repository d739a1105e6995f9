// SPDX-License-Identifier: BSD-3-Clause
// Functions that copy memory: for long vectors, shared memory, and destinations that are better not cached.
#pragma once

#include <cstddef>
#include <cstring>

namespace offbeat {

// The number of bytes that a core fetches from another core at once.
inline constexpr std::size_t cache_line = 64;

// memcpy with vector registers. From 2 KiB on the C library's memcpy uses `rep movsb`. On Zen 4 that is as
// fast if the destination is in a cache, and up to 40 % slower if it is not. It takes 10 to 30 times as long
// if the destination is less than 32 bytes ahead of the source within a page, as memory from malloc often is.
void copy_long(void* to, const void* from, std::size_t bytes);

// copy() leaves shorter vectors to the C library.
inline constexpr std::size_t long_copy_bytes = 2048;

// Copies any number of bytes.
inline void copy(void* to, const void* from, std::size_t bytes) {
  bytes < long_copy_bytes ? void(std::memcpy(to, from, bytes)) : copy_long(to, from, bytes);
}

// Copies with `rep movsb` on cores where that is faster than memcpy. No other core may be writing to the
// source. `rep movsb` reads far ahead: close behind a core that is writing, it takes the next lines away from
// that core, and both become slow.
void copy_stable_source(void* to, const void* from, std::size_t bytes);

// memcpy into shared memory whose lines another core has read last, for any number of bytes. `rep movsb`
// claims whole lines without asking that core for their contents, so it is two to three times as fast there
// (benchmark_lines).
void copy_long_to_shared(void* to, const void* from, std::size_t bytes);
inline void copy_to_shared(void* to, const void* from, std::size_t bytes) {
  bytes < long_copy_bytes ? void(std::memcpy(to, from, bytes)) : copy_long_to_shared(to, from, bytes);
}

// memcpy with non-temporal stores, which do not read the destination first. It is slower than copy() if the
// destination is in a cache, or would still be there at its next read.
void copy_past_cache(void* to, const void* from, std::size_t bytes);

// Returns the size of the largest cache of this machine.
[[nodiscard]] std::size_t last_level_cache_bytes();

}  // namespace offbeat
