// SPDX-License-Identifier: BSD-3-Clause
#include "base/copy.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace offbeat {

#if defined(__x86_64__)

namespace {

template <bool past_cache>
void copy_lines(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t line = 64;
  const std::size_t to_line = (line - reinterpret_cast<std::uintptr_t>(to) % line) % line;
  const std::size_t head = std::min(bytes, to_line);
  std::memcpy(to, from, head);
  std::size_t done = head;
  for (; done + line <= bytes; done += line) {
    __m128i parts[line / sizeof(__m128i)];
    for (std::size_t k = 0; k < std::size(parts); ++k)
      parts[k] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + done) + k);
    for (std::size_t k = 0; k < std::size(parts); ++k) {
      auto* place = reinterpret_cast<__m128i*>(to + done) + k;
      past_cache ? _mm_stream_si128(place, parts[k]) : _mm_store_si128(place, parts[k]);
    }
  }
  std::memcpy(to + done, from + done, bytes - done);
}

}  // namespace

void copy(void* to, const void* from, std::size_t bytes) {
  copy_lines<false>(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
}

void copy_past_cache(void* to, const void* from, std::size_t bytes) {
  copy_lines<true>(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
  _mm_sfence();  // these stores are not ordered with later ones
}

#else

void copy(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
void copy_past_cache(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

#endif

// The kernel knows. On some virtual machines sysconf and CPUID add up the caches of sockets that are not
// ours.
std::size_t last_level_cache_bytes() {
  static const std::size_t bytes = [] {
    std::size_t largest_kib = 0;
    for (int index = 0; index < 5; ++index) {
      const std::string path = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size";
      std::size_t kib = 0;
      if (std::ifstream(path) >> kib) largest_kib = std::max(largest_kib, kib);  // "32768K"
    }
    return (largest_kib > 0 ? largest_kib : std::size_t{32} * 1024) * 1024;
  }();
  return bytes;
}

}  // namespace offbeat
