// SPDX-License-Identifier: BSD-3-Clause
// What is decided for the calls on one communicator.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "mpi/communicators/team.hpp"
#include "selection/selection.hpp"

namespace offbeat {

class Board;

// How one call is carried out.
struct Chosen {
  const Expression* expression = nullptr;  // null: the host serves the call
  // The immediate form. False on all ranks: the task of the expression has to follow. Null: there is none.
  bool (*at_once)(Board& board, const Call& call) = nullptr;

  [[nodiscard]] static Chosen by(const PlanRow& row) {
    if (row.form == RowForm::native) return {};
    return {row.expression, row.immediate != nullptr ? row.immediate->run : nullptr};
  }
  [[nodiscard]] explicit operator bool() const { return expression != nullptr; }
};

// The plan of one collective, with what its short calls need within reach: a core that has just waited does
// one load after the other.
class PlanInUse {
 public:
  // `plan` lasts until the next call of this. It holds for `generation` of the Selection; 0: something that
  // it needs is missing, so it is never up to date.
  void use(const Plan& plan, std::uint64_t generation) {
    plan_ = &plan;
    generation_ = generation;
    short_ = {};
    short_least_ = any_length;
    short_span_ = 0;
    for (const PlanRow& row : plan.rows) {
      if (row.form != RowForm::immediate) continue;
      short_ = Chosen::by(row);
      short_least_ = row.bytes.least;
      short_span_ = row.bytes.most - row.bytes.least;
      break;
    }
  }
  [[nodiscard]] bool is_of(std::uint64_t generation) const { return generation_ == generation; }
  [[nodiscard]] const Plan& plan() const { return *plan_; }

  // Whether a call of `bytes` takes the first row that has an immediate form, and that row.
  [[nodiscard]] bool is_short(std::size_t bytes) const { return bytes - short_least_ <= short_span_; }
  [[nodiscard]] const Chosen& short_row() const { return short_; }

 private:
  std::uint64_t generation_ = 0;
  std::size_t short_least_ = any_length;
  std::size_t short_span_ = 0;
  Chosen short_;
  const Plan* plan_ = nullptr;
};

// The plans of all collectives: those that the ranks have agreed on, and which of them are in use.
class CommunicatorPlans {
 public:
  explicit CommunicatorPlans(const Selection& selection) : selection_(selection) {}

  // The plans that all ranks have made, or null before they have.
  [[nodiscard]] const std::shared_ptr<const TeamPlans>& agreed() const { return agreed_; }
  void agree_on(std::shared_ptr<const TeamPlans> plans) { agreed_ = std::move(plans); }
  // Whether those are the plans of the present choices.
  [[nodiscard]] bool are_current() const {
    return agreed_ == nullptr || agreed_->generation() == selection_.generation();
  }
  // Whether they need a board where one can be had.
  [[nodiscard]] bool want_board(Collectives some) const {
    return agreed_ != nullptr && agreed_->with_board.need(Means::board, some);
  }

  enum class Which : std::uint8_t { native, without_board, with_board };
  // Those agreed on, or, while there are none, those of a communicator that the host serves.
  [[nodiscard]] const Plans& present(Which which) const {
    if (agreed_ == nullptr || which == Which::native) return selection_.native();
    return which == Which::with_board ? agreed_->with_board : agreed_->without_board;
  }

  // Puts plans into use. is_ready(collective): whether everything exists that calls of it need.
  template <class IsReady>
  void use(Which which, IsReady&& is_ready) {
    const std::uint64_t generation = agreed_ != nullptr ? agreed_->generation() : selection_.generation();
    for (std::size_t k = 0; k < in_use_.size(); ++k)
      in_use_[k].use(present(which).by_collective[k], is_ready(collective_at(k)) ? generation : 0);
  }
  [[nodiscard]] const PlanInUse& of(Collective collective) const { return in_use_[index_of(collective)]; }
  [[nodiscard]] bool is_up_to_date(Collective collective) const {
    return of(collective).is_of(selection_.generation());
  }

 private:
  const Selection& selection_;
  std::shared_ptr<const TeamPlans> agreed_;
  std::array<PlanInUse, collectives.size()> in_use_;
};

}  // namespace offbeat
