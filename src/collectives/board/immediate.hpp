// SPDX-License-Identifier: BSD-3-Clause
// The immediate form for few ranks: the data of a call fit beside a sequence number in a slot of the board.
// It has no chunks and only one step, in which each rank gives its data to the others and takes theirs. Each
// rank reads the slots of all others; immediate_tree.hpp has the form for more ranks.
#pragma once

#include <array>

#include "collectives/algorithm.hpp"
#include "collectives/board/board_rounds.hpp"
#include "collectives/board/waits.hpp"

namespace offbeat {

// An algorithm provides a class Form:
//
//     static constexpr int most_ranks;
//     static std::size_t most_bytes(int ranks);         by Call::length
//     static constexpr bool all_meet;                   as in waits.hpp
//     Form(Board& board, const Call& call);             for collective number board.sequence.present
//     std::size_t reads(int rank) const;   bytes that this rank reads from the slot of `rank`; 0 for none
//     void give();                         provides the data that others wait for; writes no other slot
//     bool has_come(int rank) const;       true if all data that this rank needs from `rank` are there
//     const void* data(int rank) const;    the data of `rank`
//     void take(const void* const* data);  takes the data of all ranks, which are in rank order
//
// If ranks do not know each other's lengths, it provides two other functions instead of data() and
// take(data):
//
//     bool take();                         returns false on all ranks, and takes nothing, if some rank has
//                                          more than fits
//     bool is_too_long() const;            true if this rank has more than fits; it then waits for no other

// The data that a form takes, in rank order. A form whose take() has no parameter finds its data itself.
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

// The steps of this form, written once for both drivers (waits.hpp): each rank looks at the slots of all
// ranks.
template <class Form>
class LookAtAll {
 public:
  static constexpr bool all_meet = Form::all_meet;
  using Operands = TakenData<Form>;

  LookAtAll(Board& board, const Call& call, Operands& operands)
      : board_(board),
        beginning_(board, board.sequence, AllRanks(board, board.sequence), all_meet),
        form_(board, call),
        operands_(operands) {}

  template <class Waits>
  [[nodiscard]] bool advance(Waits& waits) {
    return sections_.run([&] { return beginning_.advance(waits); }, [&] { return give(waits); },
                         [&] { return is_too_long_ || look(waits); },
                         [&] { return is_too_long_ || take(waits); });
  }
  [[nodiscard]] bool has_served() const { return has_served_; }

 private:
  template <class Waits>
  bool give(Waits& waits) {
    if (!waits.touch()) return false;
    form_.give();
    board_.bell().ring();
    is_too_long_ = is_too_long(form_);
    return true;
  }
  template <class Waits>
  bool look(Waits& waits) {
    const auto has_come = [this](int rank) { return form_.has_come(rank); };
    for (const int ranks = board_.size; next_ < ranks; ++next_) {
      const int rank = next_;
      if (!waits.until([&] { return has_come(rank); }, has_come)) return false;
      if (!waits.fetch(rank, [&] { return reading_of(rank); })) return false;
      operands_.add(form_, rank);
    }
    return true;
  }
  template <class Waits>
  bool take(Waits& waits) {
    if (!waits.touch()) return false;
    has_served_ = operands_.take(form_);
    return true;
  }
  [[nodiscard]] Reading reading_of(int rank) const {
    return {&board_.inline_slot(board_.sequence.present, rank), form_.reads(rank)};
  }

  Board& board_;
  Sections sections_;
  RoundBeginning<AllRanks> beginning_;
  Form form_;
  Operands& operands_;
  int next_ = 0;  // the next rank whose slot is read
  bool is_too_long_ = false;
  bool has_served_ = false;
};

template <class Form, const Immediate* beyond = nullptr>
inline constexpr Immediate immediate{.most_ranks = Form::most_ranks,
                                     .most_bytes = Form::most_bytes,
                                     .run = run_spinning<LookAtAll<Form>>,
                                     .run_in_steps = run_in_steps<LookAtAll<Form>>,
                                     .beyond = beyond};

}  // namespace offbeat
