// SPDX-License-Identifier: BSD-3-Clause
// BitVector counts the bits that a rank contributes to a bitwise and, and those that other ranks clear.
//
// Frameworks such as Horovod agree in this way on the tensors that are ready on all ranks: each rank sets one
// bit per tensor. A rank that loses bits was ready and has to wait; a rank that loses none while others do is
// the one they wait for. The arrival times do not show this, because a thread of their own makes these calls.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "mpi/tracer/tracer.hpp"
#include "node/device_memory.hpp"

namespace offbeat::trace {

class BitVector {
 public:
  BitVector() = default;  // for calls of other kinds
  // Counts the set bits of an allreduce before it begins, if it is such a call.
  template <class Call>
  BitVector(const Tracer& tracer, const ArgumentFacts& facts, const Call& call) {
    if (!facts.is_in_place || facts.bytes > most_bytes || facts.bytes != facts.count * word_bytes) return;
    if (!tracer.is_bitwise_and(call.op) || !is_in_host_memory(call.output.data)) return;
    data_ = static_cast<const std::byte*>(call.output.data);
    words_ = static_cast<std::size_t>(facts.count);
    bits_set_ = count();
  }
  [[nodiscard]] bool is_one() const { return data_ != nullptr; }
  // Call this after the call. Returns how many bits this rank had set, and how many of them the call cleared.
  [[nodiscard]] Bits set_and_cleared() const {
    return {bits_set_, static_cast<std::uint16_t>(bits_set_ - count())};
  }

 private:
  static constexpr std::int64_t most_bytes = 1024;
  static constexpr std::int64_t word_bytes = 8;  // only integers have a bitwise and: these are 64-bit ones

  [[nodiscard]] static bool is_in_host_memory(const void* data) {
    if (devices::has_level_zero()) return false;  // nobody can tell
    return !devices::may_have_memory() || !DeviceMemory::at(data);
  }
  [[nodiscard]] std::uint16_t count() const {
    int bits = 0;
    for (std::size_t i = 0; i < words_; ++i) {
      std::uint64_t word;
      std::memcpy(&word, data_ + i * word_bytes, sizeof word);
      bits += std::popcount(word);
    }
    return static_cast<std::uint16_t>(bits);
  }

  const std::byte* data_ = nullptr;
  std::size_t words_ = 0;
  std::uint16_t bits_set_ = 0;
};

}  // namespace offbeat::trace
