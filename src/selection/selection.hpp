// SPDX-License-Identifier: BSD-3-Clause
// Which algorithm runs: from the number of ranks and of bytes, which MPI guarantees to be equal on all ranks.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "collectives/algorithm.hpp"

namespace offbeat {

// Sizes are told apart by their highest bit: class 0 is empty, class k holds [2^(k-1), 2^k) bytes.
inline constexpr int size_class_count = 65;
[[nodiscard]] constexpr int size_class(std::size_t bytes) { return std::bit_width(bytes); }

// The one expression of this process that has this canonical spelling; made when it is first asked for, and
// never freed: communicators, collectives under way and the last algorithm of each thread point to it, and a
// program may call MPI while it exits. Throws ExpressionError.
[[nodiscard]] const Expression* interned_expression(Collective collective, std::string_view text);

struct Choice {
  const Expression* expression = nullptr;  // interned
  std::string reason;                      // why, for people

  friend auto operator<=>(const Choice&, const Choice&) = default;
};

// The choices for one communicator, one per size class.
struct ChoiceTable {
  std::array<Choice, size_class_count> by_class;
  std::uint64_t generation = 0;

  [[nodiscard]] bool all_native() const;
  [[nodiscard]] bool any_on_board() const;
};

// The choices of one collective in this process.
class Selection {
 public:
  explicit Selection(Collective collective) : collective_(collective) {}

  // The expression that every size starts with, and returns to. Before the first call only. Throws
  // ExpressionError.
  void start_with(std::string_view expression, std::string_view reason);

  // `expression` for every size from now on; empty: back to the start. Throws ExpressionError.
  void choose_always(std::string_view expression, std::string_view reason);

  // For a communicator. What cannot run there becomes native.
  [[nodiscard]] ChoiceTable table(const Placement& placement) const;

  // Moves whenever the choice changes: a communicator's table is stale when it differs.
  [[nodiscard]] std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

 private:
  Collective collective_;
  std::mutex mutex_;
  std::set<Choice> choices_;  // all that was ever chosen, each once: table() reads `always_` without the lock
  std::atomic<const Choice*> always_{nullptr};
  const Choice* at_start_ = nullptr;  // null: the defaults
  std::atomic<std::uint64_t> generation_{1};
};

}  // namespace offbeat
