// SPDX-License-Identifier: BSD-3-Clause
// The immediate form for few ranks: the data of a call fit beside a sequence number in a slot of the board.
// It has no chunks and only one step, in which each rank gives its data to the others and takes theirs. Each
// rank reads the slots of all others; immediate_tree.hpp has a form for more ranks. An alltoall has this one
// for any number.
#pragma once

#include <array>

#include "collectives/algorithm.hpp"
#include "collectives/board/round_beginning.hpp"
#include "collectives/board/waits.hpp"

namespace offbeat {

// An algorithm provides a class Form:
//
//     static constexpr int most_ranks;
//     static std::size_t most_bytes(int ranks);    by Call::length
//     static constexpr bool all_meet;              as in waits.hpp
//     Form(Board& board, const Call& call);        for collective number board.sequence.present
//     Reading reading_of(int rank) const;          what is read in the slot of `rank`
//     void put_own_data();                         puts what others wait for into this rank's slot only
//     bool has_arrived(int rank) const;            true if all that this rank needs from `rank` is there
//     const void* data(int rank) const;            the data of `rank`
//     void take_result(const void* const* data);   takes the data of all ranks, in rank order
//
// It may also say after how many calls the same slot is used again, if not after 2:
//
//     static std::uint64_t turns(const Board& board, const Call& call);
//
// If ranks do not know each other's lengths, it provides two other functions instead of data() and
// take_result(data):
//
//     bool take_result();          false if the long form must follow; see Immediate::run
//     bool is_too_long() const;    true if this rank has more than fits; it then waits for no other
//
// `static constexpr bool may_use_windows = true` says that the long form may follow on some ranks only.

// The data that a form takes, in rank order. A form whose take_result() has no parameter finds its data
// itself.
template <class Form>
class DataOfAllRanks {
 public:
  void add(const Form& form, int rank) {
    if constexpr (!finds_them_itself) data_[static_cast<std::size_t>(rank)] = form.data(rank);
  }
  [[nodiscard]] bool take_result(Form& form) const {
    if constexpr (finds_them_itself) {
      return form.take_result();
    } else {
      form.take_result(data_.data());
      return true;
    }
  }

 private:
  static constexpr bool finds_them_itself = requires(Form & form) { form.take_result(); };
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
[[nodiscard]] std::uint64_t turns_of(const Board& board, const Call& call) {
  if constexpr (requires { Form::turns(board, call); }) {
    return Form::turns(board, call);
  } else {
    return 2;
  }
}

// The steps of this form, written once for both drivers (waits.hpp): each rank looks at the slots of all
// ranks.
template <class Form>
class WaitForAllSlots {
 public:
  static constexpr bool all_meet = Form::all_meet;
  static constexpr bool may_use_windows = requires { Form::may_use_windows; };
  using Operands = DataOfAllRanks<Form>;

  WaitForAllSlots(Board& board, const Call& call, Operands& operands)
      : board_(board),
        beginning_(board, board.sequence, AllRanks(board, board.sequence, turns_of<Form>(board, call)),
                   all_meet),
        form_(board, call),
        operands_(operands) {}

  template <class Waits>
  [[nodiscard]] bool advance(Waits& waits) {
    return resumable_sections_.run([&] { return beginning_.advance(waits); },
                                   [&] { return put_own_data(waits); },
                                   [&] { return is_too_long_ || wait_for_slots(waits); },
                                   [&] { return is_too_long_ || take_result(waits); });
  }
  [[nodiscard]] bool has_served() const { return has_served_; }

 private:
  template <class Waits>
  bool put_own_data(Waits& waits) {
    if (!waits.touch([this] { return form_.reading_of(board_.rank); })) return false;
    form_.put_own_data();
    board_.bell().ring();
    is_too_long_ = is_too_long(form_);
    return true;
  }
  template <class Waits>
  bool wait_for_slots(Waits& waits) {
    const auto has_arrived = [this](int rank) { return form_.has_arrived(rank); };
    for (const int ranks = board_.size; next_ < ranks; ++next_) {
      const int rank = next_;
      if (!waits.until([&] { return has_arrived(rank); }, has_arrived)) return false;
      if (!waits.charge_fetch(rank, [&] { return form_.reading_of(rank); })) return false;
      operands_.add(form_, rank);
    }
    return true;
  }
  template <class Waits>
  bool take_result(Waits& waits) {
    if (!waits.touch()) return false;
    has_served_ = operands_.take_result(form_);
    return true;
  }
  Board& board_;
  ResumableSections resumable_sections_;
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
                                     .run = run_spinning<WaitForAllSlots<Form>>,
                                     .run_in_steps = run_in_steps<WaitForAllSlots<Form>>,
                                     .for_more_ranks = beyond};

// The form for up to most_ranks. From 5 ranks on, `beyond` also serves calls that are too long for it.
template <class Form, const Immediate* beyond, int most_ranks>
inline constexpr Immediate immediate_on_some_ranks = [] {
  Immediate form = immediate<Form, beyond>;
  form.most_ranks = most_ranks;
  form.for_longer = beyond;
  return form;
}();
template <class Form, const Immediate* beyond, int most_ranks = Form::most_ranks>
inline constexpr Immediate immediate_and_longer = [] {
  Immediate form = immediate<Form, &immediate_on_some_ranks<Form, beyond, most_ranks>>;
  form.most_ranks = 4;
  return form;
}();

}  // namespace offbeat
