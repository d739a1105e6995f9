// SPDX-License-Identifier: BSD-3-Clause
#include "base/copy.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace offbeat {

#if defined(__x86_64__)

void copy_past_cache(void* to, const void* from, std::size_t bytes) {
  constexpr std::size_t line = 64;
  auto* destination = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  const std::size_t to_line = (line - reinterpret_cast<std::uintptr_t>(destination) % line) % line;
  const std::size_t head = std::min(bytes, to_line);
  std::memcpy(destination, source, head);
  std::size_t done = head;
  for (; done + line <= bytes; done += line) {
    for (std::size_t k = 0; k < line; k += sizeof(__m128i)) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(destination + done + k),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + done + k)));
    }
  }
  std::memcpy(destination + done, source + done, bytes - done);
  _mm_sfence();  // these stores are not ordered with later ones
}

#else

void copy_past_cache(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

#endif

// From the kernel: on some virtual machines, sysconf and CPUID tell the sum over sockets that are not ours.
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
