// SPDX-License-Identifier: BSD-3-Clause
// Which algorithm runs: from the number of ranks and of bytes, which MPI guarantees to be equal on all ranks.
#pragma once

#include <array>
#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/repertoire.hpp"

namespace offbeat {

// The one expression of this process that has this canonical spelling; made when it is first asked for, and
// never freed: communicators, collectives under way and the last algorithm of each thread point to it, and a
// program may call MPI while it exits. Throws ExpressionError.
[[nodiscard]] const Expression* interned_expression(Collective collective, std::string_view text);

// The expression for calls of at most so many bytes that no choice before it holds for.
struct Choice {
  std::size_t most_bytes = any_length;
  const Expression* expression = nullptr;  // interned; native is one like any other
  std::string reason;                      // why, for people
  bool uses_board = false;                 // there

  friend auto operator<=>(const Choice&, const Choice&) = default;
};

// For one collective on one communicator, in the order of their lengths: the last one holds for any length.
// Empty: the host serves the collective.
using Choices = std::vector<Choice>;

[[nodiscard]] inline const Choice& choice_for(const Choices& choices, std::size_t bytes) {
  auto choice = choices.begin();
  while (bytes > choice->most_bytes) ++choice;
  return *choice;
}

// For all collectives on one communicator.
struct ChoiceTable {
  std::array<Choices, collectives.size()> by_collective;
  std::uint64_t generation = 0;

  [[nodiscard]] const Choices& of(Collective collective) const { return by_collective[index_of(collective)]; }
  // Whether one of the choices for these collectives uses a board,
  [[nodiscard]] bool use_board(Collectives some) const;
  // or sends messages of offbeat's own.
  [[nodiscard]] bool use_messages(Collectives some) const;
  // Whether any choice is a pipeline of the host's own collectives. None is by default.
  [[nodiscard]] bool use_host_pipeline() const;
};

// Hosts of which something is known.
enum class HostMpi : std::uint8_t { other, open_mpi, mpich, intel };

// What is chosen in this process, for every collective.
class Selection {
 public:
  explicit Selection(HostMpi host = HostMpi::other);

  // The expression that every length starts with, and returns to. Before the first call only. Throws
  // ExpressionError.
  void start_with(Collective collective, std::string_view expression, std::string_view reason);

  // `expression` for every length from now on; empty: back to the start. Throws ExpressionError.
  void choose_always(Collective collective, std::string_view expression, std::string_view reason);

  // For a communicator. An expression that cannot run there becomes native.
  [[nodiscard]] ChoiceTable table(const Placement& placement) const;

  // For a communicator that the host serves, whatever is chosen. No reason is given.
  [[nodiscard]] const ChoiceTable& native() const { return native_; }

  // For calls that the host cannot serve: messages are all that it needs. Null: there is none.
  [[nodiscard]] const Expression* without_host(Collective collective) const {
    return of_[index_of(collective)].without_host;
  }

  // Whether `native` is chosen for every length and communicator.
  [[nodiscard]] bool is_left_to_host(Collective collective) const {
    const Choice* always = of_[index_of(collective)].always.load(std::memory_order_acquire);
    return always != nullptr && always->expression->is_native();
  }

  // Extends `hash` by all built-in values that decide anything: the defaults of every collective, and the
  // cases in which this host is faster.
  [[nodiscard]] std::uint64_t hash_of_defaults(std::uint64_t hash) const;

  // Moves whenever a choice changes: those of a communicator are stale when it differs.
  [[nodiscard]] std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

 private:
  [[nodiscard]] Choices choices(Collective collective, const Placement& placement) const;
  [[nodiscard]] Choice default_choice(Collective collective, const Placement& placement,
                                      std::size_t bytes) const;

  struct OfCollective {
    std::atomic<const Choice*> always{nullptr};
    const Choice* at_start = nullptr;  // null: the defaults
    const Expression* without_host = nullptr;
  };
  const HostMpi host_;
  std::array<OfCollective, collectives.size()> of_;
  std::mutex mutex_;
  std::set<Choice> ever_chosen_;  // each once, and never freed: table() reads `always` without the lock
  ChoiceTable native_;
  std::atomic<std::uint64_t> generation_{1};
};

}  // namespace offbeat
