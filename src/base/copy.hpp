// SPDX-License-Identifier: BSD-3-Clause
// Copies that go past the cache.
#pragma once

#include <cstddef>

namespace offbeat {

// memcpy with non-temporal stores: memory that is only written need not be read first. Slower than memcpy
// where the destination is in a cache, or would have been when it is read next.
void copy_past_cache(void* to, const void* from, std::size_t bytes);

// Of the largest cache of this machine.
[[nodiscard]] std::size_t last_level_cache_bytes();

}  // namespace offbeat
