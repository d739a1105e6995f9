// SPDX-License-Identifier: BSD-3-Clause
// A plan holds everything that is decided about one collective on one communicator before its first call. A
// call only looks up the row for its length.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/collective.hpp"
#include "base/settings.hpp"
#include "collectives/algorithm.hpp"
#include "models/machine.hpp"
#include "selection/host_algorithms.hpp"
#include "selection/rules.hpp"

namespace offbeat {

// RowForm says how a call is carried out.
enum class RowForm : std::uint8_t {
  native,     // the host's own function runs it
  by_name,    // so it does, with the algorithm that native(NAME) names
  immediate,  // the immediate form of the algorithm runs it, a plain function
  task,       // the coroutine of the algorithm runs it, or a pipeline or a grid of the host's collectives
};
[[nodiscard]] std::string_view name_of(RowForm form);

// The resources that a communicator must have for a row: a set, stored as bits.
class Means {
 public:
  constexpr Means() = default;
  static const Means board;          // shared memory of each node
  static const Means messages;       // a private communicator of the host
  static const Means host_pipeline;  // another one, for pipelines of the host's own collectives
  static const Means by_name;        // one for each name of a row of blocking calls (Shadows)
  static const Means host_grid;      // one for each dimension of a grid of the host's algorithms (HostGrids)
  static const Means network;        // messages of offbeat's own, which any thread may move

  [[nodiscard]] friend constexpr Means operator|(Means one, Means other) {
    return Means(static_cast<std::uint8_t>(one.bits_ | other.bits_));
  }
  [[nodiscard]] constexpr bool contain(Means other) const { return (other.bits_ & ~bits_) == 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  friend constexpr bool operator==(Means, Means) = default;

  // Returns the set as text for people, such as "board, messages" or "nothing".
  [[nodiscard]] std::string text() const;

 private:
  explicit constexpr Means(std::uint8_t bits) : bits_(bits) {}
  std::uint8_t bits_ = 0;
};
inline constexpr Means Means::board{1};
inline constexpr Means Means::messages{2};
inline constexpr Means Means::host_pipeline{4};
inline constexpr Means Means::by_name{8};
inline constexpr Means Means::host_grid{16};
inline constexpr Means Means::network{32};

// The widest elements, in bytes, that a task can take. A user-defined type or operation can make an element
// wider than a chunk of the board; nothing else does.
struct ElementLimits {
  std::size_t most_narrow_bytes = max_length;  // for elements up to the width of a chunk
  std::size_t most_wide_bytes = 0;             // for wider elements
};

// One way to carry out a call.
struct Alternative {
  const Expression* expression = nullptr;  // interned; `native` is an expression, too
  RowForm form = RowForm::native;
  const Immediate* immediate = nullptr;  // null if `form` is not immediate
  Means needs;

  friend bool operator==(const Alternative&, const Alternative&) = default;
};

// Says how calls of `bytes` bytes are carried out.
struct PlanRow : Alternative {
  Range<std::size_t> bytes;
  ElementLimits elements{max_length, max_length};
  // The alternatives that the rule offers and that can run here, the row itself first. If there are several,
  // calls measure them (selection/trial.hpp).
  std::vector<Alternative> alternatives;
  std::string reason;  // for people
  std::string origin;  // for people: the rule's file and line, or the setting; empty if nothing was chosen

  [[nodiscard]] bool has_choice() const { return alternatives.size() > 1; }
  // Returns what all alternatives need together.
  [[nodiscard]] Means needs_of_all() const;
};

// The rows follow one another and cover all lengths. If there are none, the host serves the collective.
struct Plan {
  std::vector<PlanRow> rows;
  PlanRow native;
  // This row serves calls that the host cannot serve, and calls whose elements no other row takes. It needs
  // messages only.
  PlanRow without_host;

  [[nodiscard]] bool empty() const { return rows.empty(); }
  [[nodiscard]] const PlanRow& row_for(std::size_t bytes) const {
    auto row = rows.begin();
    while (bytes > row->bytes.most) ++row;
    return *row;
  }
  // Returns the row for a call whose elements have `width` bytes. If the row for its length cannot take such
  // elements, the result is `native`. For elements wider than the smallest chunk it is `without_host`,
  // because the algorithm of the row would cut an element, or pass it on whole in many steps.
  [[nodiscard]] const PlanRow& row_for(std::size_t bytes, std::size_t width) const;
  // Returns every native(NAME) expression among the alternatives, in the order of the rows and without
  // duplicates.
  [[nodiscard]] std::vector<const Expression*> native_names() const;
  // Returns what the rows need, all of them together.
  [[nodiscard]] Means needs() const;
};

// The plans of all collectives, for one placement of ranks and one set of choices. Communicators of the same
// ranks share them.
struct Plans {
  std::array<Plan, collectives.size()> by_collective;
  // The plans of calls that only begin something; empty if rules treat them like blocking calls.
  std::array<std::optional<Plan>, collectives.size()> nonblocking;
  std::uint64_t generation = 0;  // Selection::generation() when the plans were made

  [[nodiscard]] const Plan& of(Collective collective, CallForm form = CallForm::blocking) const {
    const std::optional<Plan>& own = nonblocking[index_of(collective)];
    return form == CallForm::nonblocking && own ? *own : by_collective[index_of(collective)];
  }
  // Returns true if the plan of any of these collectives needs all of `means`.
  [[nodiscard]] bool need(Means means, Collectives some = served_collectives) const;
};

// A choice of one expression for every length.
struct UserChoice {
  const Expression* expression;
  std::string origin;  // the setting or function that made the choice

  friend auto operator<=>(const UserChoice&, const UserChoice&) = default;
};

// The values from which a plan is made. Each of them is equal on all ranks of the communicator.
struct PlanInputs {
  HostMpi host = HostMpi::other;
  CallForm calls = CallForm::blocking;
  Placement placement;
  const UserChoice* fixed = nullptr;      // null: the rules decide
  std::size_t window_bytes = max_length;  // the size of each half of a rank's window on a board
  Adapt adapt = Adapt::on;
  // The first set of rules takes precedence. Null: no rules.
  std::array<const Rules*, 2> rules{};
  // The algorithms of the host that native(NAME) can name. Null: no rule and no choice names one.
  const NamedHostAlgorithms* offer = nullptr;
  // False: processes may die without an end of the job, and a grid of the host does not notice each of them.
  bool takes_host_grids = true;
  const Machine* machine = nullptr;  // gives grid(auto) its shape; null: the built-in one
  // There is no MPI: only algorithms that need nothing but the board of one node can run. A fixed choice of
  // another one counts as none.
  bool without_mpi = false;
  // The messages of these calls go by offbeat's own network, because the host cannot advance them while the
  // program computes. So `native` counts only where the user has chosen it.
  bool by_network = false;
};

// Returns true if both expressions combine the operands in the same known order, or combine none. Otherwise
// calls do not choose between them, unless OFFBEAT_ADAPT is `any`.
[[nodiscard]] bool give_equal_bits(Collective collective, const Expression& first, const Expression& other);

// Returns true if a rule or a choice tells blocking calls of the collective from those that only begin
// something.
[[nodiscard]] bool distinguish_call_forms(const PlanInputs& inputs, Collective collective);

// Makes the plan of one collective; nothing else decides which algorithms may run. A rule that cannot run on
// the communicator is skipped. If a fixed choice cannot run there, the plan is native.
[[nodiscard]] Plan make_plan(Collective collective, const PlanInputs& inputs);

}  // namespace offbeat
