// SPDX-License-Identifier: BSD-3-Clause
// Copies of what is too long for a first-level cache.
#pragma once

#include <cstddef>

namespace offbeat {

// Bytes that one core takes from another at once.
inline constexpr std::size_t cache_line = 64;

// memcpy with vectors. That of the C library takes `rep movsb` for such lengths, which is as fast where the
// destination is in a cache, and on Zen 4 slower by up to 40 % where it is not.
void copy(void* to, const void* from, std::size_t bytes);

// memcpy with non-temporal stores: memory that is only written need not be read first. Slower than
// copy where the destination is in a cache, or would have been when it is read next.
void copy_past_cache(void* to, const void* from, std::size_t bytes);

// Of the largest cache of this machine.
[[nodiscard]] std::size_t last_level_cache_bytes();

}  // namespace offbeat
