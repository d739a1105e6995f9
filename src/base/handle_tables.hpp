// SPDX-License-Identifier: BSD-3-Clause
// Hash tables whose keys are MPI handles. Every call reads them, so a warm table allocates nothing and a
// reader takes no lock.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace offbeat {

using Handle = std::uintptr_t;

[[nodiscard]] constexpr std::size_t hash(Handle handle, std::size_t slots) {
  return (handle * 0x9E3779B97F4A7C15ULL) >> (64 - std::countr_zero(slots));  // Fibonacci hashing
}

// A cache with one slot per hash value. A handle's value stays until another handle with the same hash value
// replaces it.
template <class Value, std::size_t Slots>
class DirectCache {
 public:
  // Returns null if the handle is not in the cache.
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

// A hash table with open addressing and linear probing that grows when it is half full. It may contain a
// handle several times, because an MPI may give the same request to all operations that are complete at once.
template <class Value>
class HandleTable {
 public:
  [[nodiscard]] std::size_t size() const { return size_; }

  // Returns the first entry of `handle` that `wanted` accepts, or null if there is none. The pointer is valid
  // until the next insert or erase.
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
    // Later entries move into the hole, unless their search begins behind it.
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

// A hash table of pointers for several threads. One thread at a time may write while others read without a
// lock. A reader that notices a change tries again. A handle must not be 0, and the table contains it at most
// once.
//
// Outgrown tables are never freed, because a reader may still use one. All of them together take no more
// memory than the present table.
template <class Value>
class SharedHandleTable {
 public:
  // Returns null if the handle is not in the table.
  [[nodiscard]] Value* find(Handle handle) const {
    for (;;) {
      const std::uint64_t version = version_.load(std::memory_order_acquire);
      const Table* const table = table_.load(std::memory_order_acquire);
      if (table == nullptr) return nullptr;
      Value* const found = table->slots[table->find_slot(handle)].value.load(std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (version % 2 == 0 && version_.load(std::memory_order_relaxed) == version) [[likely]]
        return found;
    }
  }

  // Allocates memory for one more insertion, or throws std::bad_alloc.
  void reserve() {
    const Table* const old = table_.load(std::memory_order_relaxed);
    if (old == nullptr || 2 * (size_ + reserved_slots_ + 1) > old->size()) grow();
    ++reserved_slots_;
  }
  void cancel_reservation() noexcept { --reserved_slots_; }
  // Call reserve() before each insert().
  void insert(Handle handle, Value& value) noexcept {
    --reserved_slots_;
    ++size_;
    const WriteSection change(*this);
    place(*table_.load(std::memory_order_relaxed), handle, &value);
  }
  void erase(Handle handle) noexcept {
    Table* const table = table_.load(std::memory_order_relaxed);
    if (table == nullptr) return;
    std::size_t hole = table->find_slot(handle);
    if (table->slots[hole].handle.load(std::memory_order_relaxed) == 0) return;
    const WriteSection change(*this);
    // Later entries move into the hole, unless their search begins behind it.
    for (std::size_t i = table->next(hole);; i = table->next(i)) {
      const Handle moving = table->slots[i].handle.load(std::memory_order_relaxed);
      if (moving == 0) break;
      const std::size_t home = hash(moving, table->size());
      if (((i - home) & table->mask) < ((i - hole) & table->mask)) continue;
      table->set(hole, moving, table->slots[i].value.load(std::memory_order_relaxed));
      hole = i;
    }
    table->set(hole, 0, nullptr);
    --size_;
  }
  // Calls `visit` for each value. Only the thread that may write calls this.
  template <class Visit>
  void for_each(Visit&& visit) {
    Table* const table = table_.load(std::memory_order_relaxed);
    for (std::size_t i = 0; table != nullptr && i < table->size(); ++i) {
      if (Value* value = table->slots[i].value.load(std::memory_order_relaxed)) visit(*value);
    }
  }

 private:
  struct Slot {
    std::atomic<Handle> handle{0};  // 0: the slot is free
    std::atomic<Value*> value{nullptr};
  };
  struct Table {
    explicit Table(std::size_t size) : mask(size - 1), slots(new Slot[size]) {}
    [[nodiscard]] std::size_t size() const { return mask + 1; }
    [[nodiscard]] std::size_t next(std::size_t i) const { return (i + 1) & mask; }
    // Returns the slot of the handle, or the free slot at which every search for it ends.
    [[nodiscard]] std::size_t find_slot(Handle handle) const {
      for (std::size_t i = hash(handle, size());; i = next(i)) {
        const Handle there = slots[i].handle.load(std::memory_order_relaxed);
        if (there == handle || there == 0) return i;
      }
    }
    void set(std::size_t i, Handle handle, Value* value) {
      slots[i].value.store(value, std::memory_order_relaxed);
      slots[i].handle.store(handle, std::memory_order_relaxed);
    }
    const std::size_t mask;
    const std::unique_ptr<Slot[]> slots;
  };
  // The version is odd while a change is under way.
  class WriteSection {
   public:
    explicit WriteSection(SharedHandleTable& table) : version_(table.version_) {
      version_.store(version_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_release);
    }
    ~WriteSection() {
      version_.store(version_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    WriteSection(const WriteSection&) = delete;
    WriteSection& operator=(const WriteSection&) = delete;

   private:
    std::atomic<std::uint64_t>& version_;
  };

  static void place(Table& table, Handle handle, Value* value) {
    table.set(table.find_slot(handle), handle, value);
  }
  void grow() {
    const Table* const old = table_.load(std::memory_order_relaxed);
    auto larger = std::make_unique<Table>(old == nullptr ? 64 : 2 * old->size());
    for (std::size_t i = 0; old != nullptr && i < old->size(); ++i) {
      const Handle handle = old->slots[i].handle.load(std::memory_order_relaxed);
      if (handle != 0) place(*larger, handle, old->slots[i].value.load(std::memory_order_relaxed));
    }
    table_.store(larger.release(), std::memory_order_release);
  }

  std::atomic<Table*> table_{nullptr};
  std::atomic<std::uint64_t> version_{0};
  std::size_t size_ = 0;
  std::size_t reserved_slots_ = 0;
};

}  // namespace offbeat
