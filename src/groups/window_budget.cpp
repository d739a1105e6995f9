// SPDX-License-Identifier: BSD-3-Clause
#include "groups/window_budget.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "groups/node_board.hpp"

namespace offbeat {

// If there is no memory for the list, the board stays uncounted.
void WindowBudget::add(NodeBoard& board, std::size_t more_bytes) noexcept {
  const std::lock_guard lock(mutex_);
  now_.fetch_add(1, std::memory_order_relaxed);
  const bool is_listed = run_unless_out_of_memory([&] {
    if (std::ranges::find(boards_, &board, &Listed::board) == boards_.end()) boards_.push_back({&board, 0});
  });
  if (!is_listed) return;
  board.kept_bytes += more_bytes;
  bytes_ += more_bytes;
  if (bytes_ > most_bytes_) make_room(board);
}

void WindowBudget::add_for_good(NodeBoard& board, std::size_t more_bytes) noexcept {
  const std::lock_guard lock(mutex_);
  board.kept_for_good_bytes += more_bytes;
  bytes_ += more_bytes;
  if (bytes_ > most_bytes_) make_room(board);
}

void WindowBudget::make_room(const NodeBoard& keep) {
  for (Listed& each : boards_) each.last_use = each.board->last_use();
  std::ranges::sort(boards_, {}, &Listed::last_use);
  std::erase_if(boards_, [&](const Listed& each) {
    if (bytes_ <= most_bytes_ || each.board == &keep) return false;
    const std::size_t kept_before = each.board->kept_bytes;
    each.board->give_pages_back();
    bytes_ -= kept_before - each.board->kept_bytes;
    return each.board->kept_bytes == 0;
  });
}

void WindowBudget::remove(NodeBoard& board) noexcept {
  const std::lock_guard lock(mutex_);
  bytes_ -= board.kept_for_good_bytes;
  if (std::erase_if(boards_, [&](const Listed& each) { return each.board == &board; }) > 0)
    bytes_ -= board.kept_bytes;
}

}  // namespace offbeat
