// SPDX-License-Identifier: BSD-3-Clause
#include "groups/node_board.hpp"

#include "base/error.hpp"

namespace offbeat {

NodeBoard::Stage::Stage(NodeBoard& owner, int index)
    : board(owner.memory_.data(), owner.shape_, owner.locality_.member, {}, index), owner_(owner) {
  board.patience.turn = {.call =
                             [](void* state) {
                               auto* stage = static_cast<Stage*>(state);
                               stage->owner_.progress(*stage);
                             },
                         .state = this};
  board.patience.stall = {
      .call =
          [](void* state, std::int64_t waited_ns, bool over) {
            auto* stage = static_cast<Stage*>(state);
            run_unless_out_of_memory([&] { stage->owner_.report_stall(*stage, waited_ns, over); });
          },
      .state = this};
}

// The budget makes other boards give their pages back, but never this one, because it is in use.
void NodeBoard::Stage::keep(std::size_t used) noexcept {
  const std::size_t whole = board.shape().in_whole_pages(used);
  const std::size_t before = kept_bytes_.exchange(whole, std::memory_order_relaxed);
  owner_.budget_.add(owner_, 2 * (whole - before));
}

// A driver copies from and to the pages that it found here. So nobody may give them back.
void NodeBoard::Stage::register_windows(const StandInCopies& vectors) noexcept {
  const DeviceCopies* const copies = vectors.device_copies();
  const DeviceMemory* const memory = copies != nullptr ? copies->device_in_use() : nullptr;
  if (memory == nullptr || registration_) return;
  registration_.emplace(*memory, board.windows(), board.shape().windows_bytes());
  if (!*registration_) return;
  board.keep_pages();
  if (board.shape().window_bytes > kept_bytes_.load(std::memory_order_relaxed))
    keep(board.shape().window_bytes);
}

// A system that refuses once, because this process has locked its memory, would do so again. So no rank asks
// for the pages of this board any more.
void NodeBoard::give_pages_back() noexcept {
  board().give_pages_back([this](int index, std::byte* pages, std::size_t bytes) {
    if (!SharedMemory::give_back(pages, bytes)) return board().keep_pages();
    const std::size_t given = 2 * stage(index).kept_bytes_.exchange(0, std::memory_order_relaxed);
    kept_bytes -= std::min(kept_bytes, given);
  });
}

void NodeBoard::show_arrival(std::uint64_t number, std::uint64_t ticks) noexcept {
  using Presence = Board::Presence;
  board()
      .presence(locality_.member)
      .arrival(number)
      .store((ticks & ~Presence::low_bits) | (number & Presence::low_bits), std::memory_order_relaxed);
}

std::optional<NodeBoard::Arrival> NodeBoard::last_arrival(std::uint64_t number) {
  using Presence = Board::Presence;
  Arrival last;
  for (int member = 0; member < shape_.ranks; ++member) {
    const std::uint64_t word = board().presence(member).arrival(number).load(std::memory_order_relaxed);
    if ((word & Presence::low_bits) != (number & Presence::low_bits)) return std::nullopt;
    if (word > last.ticks) last = {number_of(member), word};
  }
  return last;
}

void NodeBoard::rest() {
  client_.reset();
  for (int k = 0; k < stages(); ++k) stage(k).board.waiters = nullptr;
  board().current_call_number = 0;
  board().presence(locality_.member).entered.store(0, std::memory_order_relaxed);
  for (Board::Word& arrival : board().presence(locality_.member).arrivals)
    arrival.store(0, std::memory_order_relaxed);
}

}  // namespace offbeat
