// SPDX-License-Identifier: BSD-3-Clause
// The immediate form of an algorithm, for calls so small that their data fit beside a sequence number in a
// slot of the board. There are no chunks and one step: a rank gives its data to the others, and takes theirs.
// Each reads the slots of all, so this is for few ranks; immediate_tree.hpp is for more.
#pragma once

#include <array>

#include "collectives/algorithm.hpp"
#include "collectives/board/board_rounds.hpp"
#include "node/board_awaitables.hpp"

namespace offbeat {

// An algorithm provides a class Form:
//
//     static constexpr int most_ranks;
//     static std::size_t most_bytes(int ranks);         of Call::length
//     static constexpr bool all_meet;                   no rank can end before every rank has begun
//     Form(Board& board, const Call& call);             for collective number board.sequence.present
//     std::size_t reads(int rank) const;   bytes that this rank reads of that one's slot; 0: none
//     void give();                         provides the data that others wait for; writes no other slot
//     bool has_come(int rank) const;       whether all data are there that this rank needs from that one
//     const void* data(int rank) const;    where they are
//     void take(const void* const* data);  the data of all ranks, in rank order
//
// or, where ranks do not know the lengths of one another, instead of data() and take(data),
//
//     bool take();                         false on all ranks: some rank has more than fits; nothing is taken
//     bool is_too_long() const;            that rank is this one, which then does not wait for others
//
// The same code runs in real time, where it is a plain function, and in the simulator.

// The data that a form takes, in rank order.
template <class Form>
class TakenData {
 public:
  void add(const Form& form, int rank) {
    if constexpr (!finds_them_itself) data_[static_cast<std::size_t>(rank)] = form.data(rank);
  }
  [[nodiscard]] bool take(Form& form) const {
    if constexpr (finds_them_itself) {
      return form.take();
    } else {
      form.take(data_.data());
      return true;
    }
  }

 private:
  static constexpr bool finds_them_itself = requires(Form & form) { form.take(); };
  std::array<const void*, finds_them_itself ? 0 : std::size_t{Form::most_ranks}> data_;
};

template <class Form>
[[nodiscard]] bool is_too_long(const Form& form) {
  if constexpr (requires { form.is_too_long(); }) {
    return form.is_too_long();
  } else {
    return false;
  }
}

template <class Form>
bool run_immediately(Board& board, const Call& call) {
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
  if (is_too_long(form)) return false;
  // Kept outside the form, which can then stay in registers.
  TakenData<Form> data;
  const auto has_come = [&form](int rank) { return form.has_come(rank); };
  const int ranks = board.size;
  for (int rank = 0; rank < ranks; ++rank) {
    if (!has_come(rank)) [[unlikely]] {
      Patience::Wait wait(board.patience);
      while (!has_come(rank)) wait.pause(board.patience.shares_cores && board.core_is_wanted(has_come));
    }
    data.add(form, rank);
  }
  return data.take(form);
}

template <class Form>
Task run_in_steps(Endpoint net, Call call, const Expression& self) {
  Board& board = *net.board();
  board.sequence.next(Form::all_meet);
  if constexpr (!Form::all_meet) {
    co_await board.announce(board.signs(board.rank).sequence, {board.sequence.present, board.rank});
  }
  {
    Patience::Wait wait(board.patience);
    while (!board.is_free(board.sequence)) co_await board.pause(wait);
  }
  if (board.simulation != nullptr && board.sequence.follows_apart())
    co_await fetch_signs(board, board.sequence);
  Form form(board, call);
  co_await board.touch();
  form.give();
  board.bell().ring();
  if (is_too_long(form)) {
    co_await self.algorithm->run(net, call, self);
    co_return;
  }
  TakenData<Form> data;
  for (int rank = 0; rank < board.size; ++rank) {
    Patience::Wait wait(board.patience);
    while (!form.has_come(rank)) co_await board.pause(wait);
    co_await board.fetch(rank, &board.inline_slot(board.sequence.present, rank), form.reads(rank));
    data.add(form, rank);
  }
  co_await board.touch();
  if (!data.take(form)) co_await self.algorithm->run(net, call, self);
}

template <class Form, const Immediate* beyond = nullptr>
inline constexpr Immediate immediate{.most_ranks = Form::most_ranks,
                                     .most_bytes = Form::most_bytes,
                                     .run = run_immediately<Form>,
                                     .run_in_steps = run_in_steps<Form>,
                                     .beyond = beyond};

}  // namespace offbeat
