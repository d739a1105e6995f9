// SPDX-License-Identifier: BSD-3-Clause
// The immediate form of an algorithm: for calls so small that their data fit beside a sequence number, in a
// slot of the board. No chunk and one step: a rank gives what the others wait for, and takes what they gave.
#pragma once

#include <array>

#include "collectives/algorithm.hpp"
#include "node/board.hpp"

namespace offbeat {

// An algorithm provides a class Form:
//
//     static constexpr int most_ranks;                  at most most_immediate_ranks
//     static constexpr std::size_t most_bytes_of_all;   of the vectors of all ranks together
//     static constexpr bool all_meet;                   no rank can end before every rank has begun
//     Form(Board& board, const Call& call);             for collective number board.sequence.present
//     void give();                         what others wait for
//     bool has_come(int rank) const;       whether all is there that this rank needs from that one
//     const void* data(int rank) const;    and where
//     void take(const void* const* data);  of all ranks, in their order
//
// The same text runs in real time, where it is a plain function, and in the simulator.
inline constexpr int most_immediate_ranks = 16;

template <class Form>
void run_immediately(Board& board, const Call& call) {
  board.sequence.next(Form::all_meet);
  if constexpr (!Form::all_meet) {
    const Board::Mark begun(board.sequence.present, board.rank);
    board.signs(board.rank).sequence.store(begun.word(), std::memory_order_release);
    board.bell().ring();
  }
  if (!board.is_free(board.sequence)) [[unlikely]] {
    Patience::Wait wait(board.patience);
    while (!board.is_free(board.sequence)) wait.pause();
  }
  Form form(board, call);
  form.give();
  board.bell().ring();
  // Not in the form, which so can stay in registers.
  std::array<const void*, most_immediate_ranks> data;
  const auto has_come = [&form](int rank) { return form.has_come(rank); };
  const int ranks = board.size;
  for (int rank = 0; rank < ranks; ++rank) {
    if (!has_come(rank)) [[unlikely]] {
      Patience::Wait wait(board.patience);
      while (!has_come(rank)) wait.pause(board.patience.shares_cores && board.core_is_wanted(has_come));
    }
    data[static_cast<std::size_t>(rank)] = form.data(rank);
  }
  form.take(data.data());
}

template <class Form>
Task run_in_steps(Endpoint net, Call call) {
  Board& board = *net.board();
  board.sequence.next(Form::all_meet);
  if constexpr (!Form::all_meet) {
    co_await board.announce(board.signs(board.rank).sequence, {board.sequence.present, board.rank});
  }
  {
    Patience::Wait wait(board.patience);
    while (!board.is_free(board.sequence)) co_await board.pause(wait);
  }
  Form form(board, call);
  co_await board.touch();
  form.give();
  board.bell().ring();
  std::array<const void*, most_immediate_ranks> data;
  for (int rank = 0; rank < board.size; ++rank) {
    Patience::Wait wait(board.patience);
    while (!form.has_come(rank)) co_await board.pause(wait);
    data[static_cast<std::size_t>(rank)] = form.data(rank);
  }
  co_await board.touch();
  form.take(data.data());
}

template <class Form>
inline constexpr Immediate immediate{.most_ranks = Form::most_ranks,
                                     .most_bytes_of_all = Form::most_bytes_of_all,
                                     .run = run_immediately<Form>,
                                     .run_in_steps = run_in_steps<Form>};

}  // namespace offbeat
