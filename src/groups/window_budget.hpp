// SPDX-License-Identifier: BSD-3-Clause
// WindowBudget bounds the memory in the windows of all boards of this process (OFFBEAT_MEMORY_MIB).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace offbeat {

class NodeBoard;

// The budget counts how much of its windows each board has used. Beyond the bound, the least recently used
// boards give their pages back, unless a collective is under way there. So a program that makes thousands of
// communicators keeps only as many windows as it has busy communicators.
class WindowBudget {
 public:
  // `most_bytes` bounds the windows of this rank.
  explicit WindowBudget(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  // Counts `more_bytes` of the windows of `board` that are touched for the first time. The board is in use.
  void add(NodeBoard& board, std::size_t more_bytes) noexcept;
  // Counts `more_bytes` of `board` that are never given back before it is destroyed.
  void add_for_good(NodeBoard& board, std::size_t more_bytes) noexcept;
  // Call before `board` is destroyed.
  void remove(NodeBoard& board) noexcept;

  // A child of fork() has no other thread that could unlock the mutex. So the thread that forks locks it
  // before.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

  // Returns a time that grows with each change, so it tells which of two boards was used longer ago.
  [[nodiscard]] std::uint64_t now() const { return now_.load(std::memory_order_relaxed); }

 private:
  void make_room(const NodeBoard& keep);

  const std::size_t most_bytes_;
  std::atomic<std::uint64_t> now_{0};
  std::mutex mutex_;  // guards the members below
  std::size_t bytes_ = 0;
  struct Listed {
    NodeBoard* board;
    std::uint64_t last_use;  // as of the last make_room(); other threads may have used the board since
  };
  std::vector<Listed> boards_;
};

}  // namespace offbeat
