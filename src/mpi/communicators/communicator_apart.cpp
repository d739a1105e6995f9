// SPDX-License-Identifier: BSD-3-Clause
// Persistent requests have a Communicator of their own, and share boards.
#include <algorithm>
#include <memory>

#include "mpi/communicators/communicator.hpp"
#include "mpi/process/runtime.hpp"

namespace offbeat {

// Most persistent calls are short. Their boards have small windows, and therefore stages for more requests.
BoardSize Communicator::size_of_board_for(const Call& call) const {
  const auto ranks = static_cast<std::size_t>(size_);
  const std::size_t most = process_.settings.window_bytes;
  // This is the smallest window that has a channel for each rank.
  const std::size_t small = std::max(std::size_t{64} << 10, 2 * ranks * BoardShape::smallest_chunk);
  const std::size_t length = call.length(size_) * (roles(call.collective).is_personal ? ranks : 1);
  const bool is_short = call.collective != Collective::alltoallv && length <= small &&
                        call.output.width * ranks <= small && 2 * small <= most;
  if (!is_short) return {most, NodeBoard::stages_of_communicator};
  const auto times = static_cast<int>(std::min<std::size_t>(most / small, NodeBoard::most_stages));
  return {small, std::min(times * NodeBoard::stages_of_communicator, NodeBoard::most_stages)};
}

bool Communicator::suffice(const Berths& berths, Collective collective) const {
  if (berths.place == nullptr || berths.plans->generation() != selection_->generation()) return false;
  const bool has_board = berths.place->board != nullptr;
  const Plans& plans = has_board ? berths.plans->with_board : berths.plans->without_board;
  const bool may_want_board = process_.settings.window_bytes > 0 &&
                              berths.plans->with_board.need(Means::board, {collective}) &&
                              !berths.board_was_tried;
  const bool lacks_messages = plans.need(Means::messages, {collective}) &&
                              (berths.messages->handle() == MPI_COMM_NULL || !has_tags(berths.next));
  return !may_want_board && !lacks_messages && !plans.need(Means::host_pipeline);
}

Communicator::Berths Communicator::berths() const {
  const int stages = has_board() ? place_->board->stages() : NodeBoard::stages_of_communicator;
  if (!serves() || place_ == nullptr || stages == 1) return {};
  return {place_, 1, stages, plans_.agreed(), messages_, tag_base_, board_tried_};
}

void Communicator::use(const Berths& berths) {
  place_ = berths.place;
  stage_ = berths.next;
  plans_.agree_on(berths.plans);
  messages_ = berths.messages;
  tag_base_ = berths.tag_base;
  board_tried_ = berths.board_was_tried;
  if (has_board()) board_ = &place_->board->stage(stage_).board;
  apply();
}

// If the ranks have nothing to agree on, a rank without memory still takes its berth, and only this rank
// fails.
std::unique_ptr<Communicator> Communicator::apart(const Call& call) {
  const BoardSize size = size_of_board_for(call);
  if (!serves()) return std::make_unique<Communicator>(*this, size);
  Berths& shared = berths_[size.window_bytes < process_.settings.window_bytes ? 0 : 1];
  if (suffice(shared, call.collective)) {
    const Berths mine = shared;
    if (++shared.next == shared.end) shared = {};
    auto made = std::make_unique<Communicator>(*this, size);
    made->use(mine);
    return made;
  }
  std::unique_ptr<Communicator> made;
  static_cast<void>(try_to([&] { made = std::make_unique<Communicator>(*this, size); }));
  if (!start(made.get(), process_, handle_, call.collective)) return nullptr;
  shared = made->berths();
  return made;
}

}  // namespace offbeat
