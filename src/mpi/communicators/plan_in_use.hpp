// SPDX-License-Identifier: BSD-3-Clause
// The plan of one collective on one communicator, with what its short calls need within reach: a core that
// has just waited does one load after the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "selection/plan.hpp"

namespace offbeat {

class Board;

// How one call is carried out.
struct Chosen {
  const Expression* expression = nullptr;  // null: the host serves the call
  // The immediate form. False on all ranks: the task of the expression has to follow. Null: there is none.
  bool (*at_once)(Board& board, const Call& call) = nullptr;

  [[nodiscard]] explicit operator bool() const { return expression != nullptr; }
};

class PlanInUse {
 public:
  // `plan` lasts until the next call of this, on a communicator of `ranks` ranks. It holds for `generation`
  // of the Selection; 0: something that it needs is missing, so it is never up to date.
  void use(const Plan& plan, std::uint64_t generation, int ranks) {
    plan_ = &plan;
    generation_ = generation;
    short_ = {};
    short_least_ = any_length;
    short_span_ = 0;
    for (const PlanRow& row : plan.rows) {
      if (row.form != RowForm::immediate) continue;
      short_ = how(row, ranks);
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

  // What a row says, for a call of any length.
  [[nodiscard]] static Chosen how(const PlanRow& row, int ranks) {
    if (row.form == RowForm::native) return {};
    if (row.form == RowForm::task) return {row.expression};
    return {row.expression, immediate_form(*row.expression->algorithm, ranks)->run};
  }

 private:
  std::uint64_t generation_ = 0;
  std::size_t short_least_ = any_length;
  std::size_t short_span_ = 0;
  Chosen short_;
  const Plan* plan_ = nullptr;
};

}  // namespace offbeat
