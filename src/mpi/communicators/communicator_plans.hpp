// SPDX-License-Identifier: BSD-3-Clause
// The decisions for the calls on one communicator.
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
class RowTrial;

// Chosen says how one call is carried out.
struct ChosenAlternative {
  const Expression* expression = nullptr;  // null if the host serves the call
  union {
    // The immediate form, or null if there is none. If it returns false, on all ranks alike, the task of the
    // expression must follow.
    bool (*immediate_form)(Board& board, const Call& call) = nullptr;
    // If the host serves the call: the native(NAME) with which it does so, or null. One member serves both,
    // because a Chosen is returned in two registers.
    const Expression* named_host_algorithm;
  };

  [[nodiscard]] static ChosenAlternative from_alternative(const Alternative& alternative) {
    if (alternative.form == RowForm::native) return {};
    if (alternative.form == RowForm::by_name) [[unlikely]] {
      ChosenAlternative chosen;
      chosen.named_host_algorithm = alternative.expression;
      return chosen;
    }
    return {alternative.expression, alternative.immediate != nullptr ? alternative.immediate->run : nullptr};
  }
  [[nodiscard]] explicit operator bool() const { return expression != nullptr; }
};

// A choice that calls may measure. If there is a trial, it counts the call (Communicator::begin_measured).
struct Choice : ChosenAlternative {
  RowTrial* trial = nullptr;  // null: the row has one alternative
};

// PlanInUse is the plan of one collective, with everything for short blocking calls stored close together: a
// core that has just waited does one load after the other.
class PlanInUse {
 public:
  // Puts `plan` into use, and `nonblocking` for calls that begin something. They must live until the next
  // call of use(). They hold for `generation` of the Selection. 0 means that something they need is missing,
  // so they are never up to date.
  void use(const Plan& plan, const Plan& nonblocking, std::uint64_t generation) {
    plan_ = &plan;
    nonblocking_ = &nonblocking;
    generation_ = generation_in_use_ = generation;
    immediate_row_ = {};
    immediate_least_bytes_ = max_length;
    immediate_span_bytes_ = 0;
    for (const PlanRow& row : plan.rows) {
      if (row.form != RowForm::immediate || row.has_choice()) continue;
      immediate_row_ = ChosenAlternative::from_alternative(row);
      immediate_least_bytes_ = row.bytes.least;
      immediate_span_bytes_ = row.bytes.most - row.bytes.least;
      break;
    }
  }
  void mark_outdated() { generation_ = 0; }
  // Undoes mark_outdated().
  void mark_as_before() { generation_ = generation_in_use_; }
  [[nodiscard]] bool has_generation(std::uint64_t generation) const { return generation_ == generation; }
  [[nodiscard]] const Plan& plan() const { return *plan_; }
  [[nodiscard]] const Plan& nonblocking() const { return *nonblocking_; }

  // Returns true if a call of `bytes` bytes takes immediate_row(), the first row that has an immediate form
  // and no other alternative.
  [[nodiscard]] bool is_in_immediate_row(std::size_t bytes) const {
    return bytes - immediate_least_bytes_ <= immediate_span_bytes_;
  }
  [[nodiscard]] const ChosenAlternative& immediate_row() const { return immediate_row_; }

 private:
  std::uint64_t generation_ = 0;
  std::size_t immediate_least_bytes_ = max_length;
  std::size_t immediate_span_bytes_ = 0;
  ChosenAlternative immediate_row_;
  const Plan* plan_ = nullptr;
  const Plan* nonblocking_ = nullptr;
  std::uint64_t generation_in_use_ = 0;
};

// CommunicatorPlans holds the plans of all collectives: those that the ranks have agreed on, and those in
// use.
class CommunicatorPlans {
 public:
  explicit CommunicatorPlans(const Selection& selection) : selection_(selection) {}

  // Returns the plans that all ranks have made, or null before they have.
  [[nodiscard]] const std::shared_ptr<const TeamPlans>& agreed() const { return agreed_; }
  void agree_on(std::shared_ptr<const TeamPlans> plans) { agreed_ = std::move(plans); }
  // Returns true if the plans agreed on belong to the present choices.
  [[nodiscard]] bool are_current() const {
    return agreed_ == nullptr || agreed_->generation() == selection_.generation();
  }

  // Puts plans into use. is_ready(collective) returns true if everything exists that its calls need.
  template <class IsReady>
  void use(const Plans& plans, IsReady&& is_ready) {
    const std::uint64_t generation = agreed_ != nullptr ? agreed_->generation() : selection_.generation();
    for (std::size_t k = 0; k < plans_in_use_.size(); ++k) {
      const Collective collective = collective_at(k);
      plans_in_use_[k].use(plans.of(collective), plans.of(collective, CallForm::nonblocking),
                           is_ready(collective) ? generation : 0);
    }
  }
  // Makes the next blocking call bring the plans up to date, although nothing may have changed.
  void mark_outdated() {
    for (PlanInUse& each : plans_in_use_) each.mark_outdated();
  }
  void mark_as_before() {
    for (PlanInUse& each : plans_in_use_) each.mark_as_before();
  }
  [[nodiscard]] const PlanInUse& of(Collective collective) const {
    return plans_in_use_[index_of(collective)];
  }
  [[nodiscard]] bool is_up_to_date(Collective collective) const {
    return of(collective).has_generation(selection_.generation());
  }

 private:
  const Selection& selection_;
  std::shared_ptr<const TeamPlans> agreed_;
  std::array<PlanInUse, collectives.size()> plans_in_use_;
};

}  // namespace offbeat
