// SPDX-License-Identifier: BSD-3-Clause
// A plan: all that is decided about one collective on one communicator, before its first call. A call only
// looks up the row for its length.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/collective.hpp"
#include "collectives/algorithm.hpp"
#include "selection/rules.hpp"

namespace offbeat {

// How a call is carried out.
enum class RowForm : std::uint8_t {
  native,     // by the host's own function
  immediate,  // by the immediate form of the algorithm, which is a plain function
  task,       // by the coroutine of the algorithm, or by a pipeline of the host's own collectives
};
[[nodiscard]] std::string_view name_of(RowForm form);

// What a row needs of its communicator.
class Means {
 public:
  constexpr Means() = default;
  static const Means board;          // shared memory of each node
  static const Means messages;       // a private communicator of the host
  static const Means host_pipeline;  // another one, for pipelines of the host's own collectives

  [[nodiscard]] friend constexpr Means operator|(Means one, Means other) {
    return Means(static_cast<std::uint8_t>(one.bits_ | other.bits_));
  }
  [[nodiscard]] constexpr bool contain(Means other) const { return (other.bits_ & ~bits_) == 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  friend constexpr bool operator==(Means, Means) = default;

  // For people: "board, messages"; "nothing".
  [[nodiscard]] std::string text() const;

 private:
  explicit constexpr Means(std::uint8_t bits) : bits_(bits) {}
  std::uint8_t bits_ = 0;
};
inline constexpr Means Means::board{1};
inline constexpr Means Means::messages{2};
inline constexpr Means Means::host_pipeline{4};

// The widths of elements, in bytes, that a task can take. Only objects of the program are wider than a chunk
// of the board.
struct ElementLimits {
  std::size_t narrow = any_length;  // up to the width of a chunk
  std::size_t wide = 0;             // above that
};

// What is done with calls of `bytes` bytes.
struct PlanRow {
  Range<std::size_t> bytes;
  const Expression* expression = nullptr;  // interned; native is one like any other
  RowForm form = RowForm::native;
  const Immediate* immediate = nullptr;  // that form of the expression; null: it is not taken
  Means needs;
  ElementLimits elements;
  // All that the rule offers and that can run here, `expression` first.
  std::vector<const Expression*> alternatives;
  std::string reason;  // for people
  std::string origin;  // for people: the file and line of the rule, or the setting; empty: nothing was chosen
};

// The rows, one after the other, cover all lengths. Empty: the host serves the collective.
struct Plan {
  std::vector<PlanRow> rows;
  PlanRow native;
  // For calls that the host cannot serve, or with elements that no row takes. It needs messages only.
  PlanRow without_host;

  [[nodiscard]] bool empty() const { return rows.empty(); }
  [[nodiscard]] const PlanRow& row_for(std::size_t bytes) const {
    auto row = rows.begin();
    while (bytes > row->bytes.most) ++row;
    return *row;
  }
  // For elements of `width` bytes. The host serves calls whose elements are too wide for a board. Messages
  // serve those with an object of the program that an algorithm would cut, or pass on whole in many steps.
  [[nodiscard]] const PlanRow& row_for(std::size_t bytes, std::size_t width) const;
  // What all rows together need.
  [[nodiscard]] Means needs() const;
};

// The plans of one communicator.
struct Plans {
  std::array<Plan, collectives.size()> by_collective;
  std::uint64_t generation = 0;  // of the Selection

  [[nodiscard]] const Plan& of(Collective collective) const { return by_collective[index_of(collective)]; }
  // Whether a plan of one of these collectives needs this.
  [[nodiscard]] bool need(Means means, Collectives some = served) const;
};

// An expression for every length.
struct FixedChoice {
  const Expression* expression;
  std::string origin;  // the setting or function that says so

  friend auto operator<=>(const FixedChoice&, const FixedChoice&) = default;
};

// What a plan is made from. The ranks of a communicator have equal values of all of it.
struct PlanBasis {
  HostMpi host = HostMpi::other;
  Placement placement;
  const FixedChoice* fixed = nullptr;     // null: the rules decide
  std::size_t window_bytes = any_length;  // of a board
  // Those that come first hold first; null: none.
  std::array<const Rules*, 2> rules{};
};

// The one place that decides. A rule that cannot run on the communicator is passed over; a fixed choice that
// cannot becomes native.
[[nodiscard]] Plan make_plan(Collective collective, const PlanBasis& basis);

}  // namespace offbeat
