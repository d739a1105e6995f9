// SPDX-License-Identifier: BSD-3-Clause
// Include this before a file of src/ whose atomics, copies and waits a model shall run. Headers of the
// standard library come first, because they must not see the macros.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "model.hpp"

// These are not parts of any protocol here.
#include "base/pool.hpp"
#include "base/task.hpp"

namespace std {

template <class Value>
class modelled_atomic {
 public:
  static constexpr bool is_always_lock_free = true;

  constexpr modelled_atomic() = default;
  modelled_atomic(const modelled_atomic&) = delete;
  modelled_atomic& operator=(const modelled_atomic&) = delete;
  // Only zero, which a cell is at the beginning.
  constexpr modelled_atomic(Value) {}

  [[nodiscard]] Value load(memory_order order = memory_order_seq_cst,
                           source_location where = source_location::current()) const {
    return value_of(offbeat::model::load(cell_, order, where));
  }
  void store(Value value, memory_order order = memory_order_seq_cst,
             source_location where = source_location::current()) {
    offbeat::model::store(cell_, bits_of(value), order, where);
  }
  Value exchange(Value value, memory_order order = memory_order_seq_cst,
                 source_location where = source_location::current()) {
    return value_of(
        offbeat::model::exchange(cell_, offbeat::model::Exchange::swap, bits_of(value), order, where));
  }
  Value fetch_add(Value value, memory_order order = memory_order_seq_cst,
                  source_location where = source_location::current()) {
    return value_of(
        offbeat::model::exchange(cell_, offbeat::model::Exchange::add, bits_of(value), order, where));
  }
  bool compare_exchange_strong(Value& expected, Value value, memory_order order = memory_order_seq_cst,
                               source_location where = source_location::current()) {
    std::uint64_t before = bits_of(expected);
    const bool exchanged = offbeat::model::compare_exchange(cell_, before, bits_of(value), order, where);
    expected = value_of(before);
    return exchanged;
  }

 private:
  static_assert(sizeof(Value) <= sizeof(std::uint64_t));
  static std::uint64_t bits_of(Value value) {
    std::uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    return bits;
  }
  static Value value_of(std::uint64_t bits) {
    Value value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
  }
  std::uint64_t cell_ = 0;
};

inline void modelled_thread_fence(memory_order order, source_location where = source_location::current()) {
  offbeat::model::fence(order, where);
}

inline void* modelled_memcpy(void* to, const void* from, std::size_t bytes) {
  offbeat::model::note_read(from, bytes);
  offbeat::model::note_write(to, bytes);
  return __builtin_memcpy(to, from, bytes);
}

}  // namespace std

#define atomic modelled_atomic
#define atomic_thread_fence modelled_thread_fence
#define memcpy modelled_memcpy
#define sched_yield offbeat::model::yield
