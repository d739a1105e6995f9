// SPDX-License-Identifier: BSD-3-Clause
// Tables by handle that are read in each call: no lock, no malloc once warm.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace offbeat {

using Handle = std::uintptr_t;

[[nodiscard]] constexpr std::size_t hash(Handle handle, std::size_t slots) {
  return (handle * 0x9E3779B97F4A7C15ULL) >> (64 - std::countr_zero(slots));  // Fibonacci hashing
}

// The last value of each handle, as long as no other handle takes its place.
template <class Value, std::size_t Slots>
class DirectCache {
 public:
  // Null if it is not there.
  [[nodiscard]] const Value* find(Handle handle) const {
    const Entry& entry = entries_[hash(handle, Slots)];
    return entry.is_set && entry.handle == handle ? &entry.value : nullptr;
  }
  void insert(Handle handle, Value value) {
    entries_[hash(handle, Slots)] = {handle, true, std::move(value)};
  }
  void erase(Handle handle) {
    Entry& entry = entries_[hash(handle, Slots)];
    if (entry.handle == handle) entry = {};
  }

 private:
  static_assert(Slots >= 2 && std::has_single_bit(Slots));
  struct Entry {
    Handle handle = 0;
    bool is_set = false;
    Value value{};
  };
  std::array<Entry, Slots> entries_{};
};

// Open addressing with linear probing; grows when half full. A handle may be there several times: MPIs give
// one and the same request for everything that is complete at once.
template <class Value>
class HandleTable {
 public:
  [[nodiscard]] std::size_t size() const { return size_; }

  // The first entry of `handle` that `wanted` accepts; null if there is none. Valid until the next insert or
  // erase.
  template <class Predicate>
  [[nodiscard]] Value* find(Handle handle, Predicate&& wanted) {
    if (size_ == 0) return nullptr;
    for (std::size_t i = hash(handle, entries_.size()); entries_[i].is_set; i = next(i)) {
      if (entries_[i].handle == handle && wanted(entries_[i].value)) return &entries_[i].value;
    }
    return nullptr;
  }

  Value& insert(Handle handle, Value value) {
    if (2 * (size_ + 1) > entries_.size()) grow();
    ++size_;
    return place(handle, std::move(value));
  }

  // Erases the first entry of `handle` that `wanted` accepts.
  template <class Predicate>
  void erase(Handle handle, Predicate&& wanted) {
    if (size_ == 0) return;
    std::size_t hole = hash(handle, entries_.size());
    while (entries_[hole].is_set && !(entries_[hole].handle == handle && wanted(entries_[hole].value))) {
      hole = next(hole);
    }
    if (!entries_[hole].is_set) return;
    // Entries behind the hole move into it unless that is before the place where their search begins.
    for (std::size_t i = next(hole); entries_[i].is_set; i = next(i)) {
      const std::size_t home = hash(entries_[i].handle, entries_.size());
      const std::size_t mask = entries_.size() - 1;
      if (((i - home) & mask) < ((i - hole) & mask)) continue;
      entries_[hole] = std::move(entries_[i]);
      hole = i;
    }
    entries_[hole] = {};
    --size_;
  }

 private:
  struct Entry {
    Handle handle = 0;
    bool is_set = false;
    Value value{};
  };

  [[nodiscard]] std::size_t next(std::size_t i) const { return (i + 1) & (entries_.size() - 1); }

  Value& place(Handle handle, Value value) {
    std::size_t i = hash(handle, entries_.size());
    while (entries_[i].is_set) i = next(i);
    entries_[i] = {handle, true, std::move(value)};
    return entries_[i].value;
  }

  void grow() {
    std::vector<Entry> old =
        std::exchange(entries_, std::vector<Entry>(entries_.empty() ? 64 : 2 * entries_.size()));
    for (Entry& entry : old) {
      if (entry.is_set) place(entry.handle, std::move(entry.value));
    }
  }

  std::vector<Entry> entries_;
  std::size_t size_ = 0;
};

}  // namespace offbeat
