// SPDX-License-Identifier: BSD-3-Clause
// Selection holds the choices of this process. A user's choice for one collective comes first, then the
// user's rules, then the built-in rules.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "selection/plan.hpp"

namespace offbeat {

class Selection {
 public:
  // `window_bytes` is the window size of the boards that communicators get.
  explicit Selection(HostMpi host = HostMpi::other, std::size_t window_bytes = max_length,
                     Adapt adapt = Adapt::on);

  // Takes the user's rules, machine file and expressions from the settings, as the functions below do. Throws
  // UsageError, which names the setting.
  void set_initial_choice(const Settings& settings);

  // Sets the expression that calls of every length run until choose_for_every_length() chooses another one.
  // Only valid before plans(). Throws ExpressionError.
  void set_initial_choice(Collective collective, std::string_view expression, std::string_view origin);

  // Sets the user's rules, which come before the built-in ones. Only valid before plans().
  void set_initial_choice(Rules rules);

  // Sets the user's machine, which gives grid(auto) its shape. Only valid before plans().
  void set_initial_choice(Machine machine) { machine_ = std::move(machine); }

  // Sets the function that finds out what native(NAME) can name under this host. plans() calls it once a rule
  // or a choice names something, with MPI running. Set the function before that.
  using HostAlgorithmsFunction = const NamedHostAlgorithms& (*)();
  void set_host_algorithms_function(HostAlgorithmsFunction offer) { host_algorithms_ = offer; }
  // Grids of the host's own algorithms do not run from now on. Call this before plans().
  void refuse_host_grids() { takes_host_grids_ = false; }
  // Returns true if a rule or a choice has named an algorithm of the host.
  [[nodiscard]] bool names_host_algorithms() const {
    return names_host_algorithms_.load(std::memory_order_acquire);
  }
  // Returns the expression that the user chose for every length, or null if the rules decide.
  [[nodiscard]] const UserChoice* choice(Collective collective) const {
    return choices_[index_of(collective)].by_program.load(std::memory_order_acquire);
  }

  // From now on, calls of every length run `expression`. An empty text restores the initial choice. Throws
  // ExpressionError.
  void choose_for_every_length(Collective collective, std::string_view expression, std::string_view origin);

  // Make the plans for a communicator with this placement. If `has_choices` is false, the first alternative
  // of each rule runs. If `has_network` is true, the messages of calls that only begin something go by
  // offbeat's own network.
  [[nodiscard]] Plans plans(const Placement& placement, bool has_choices = true,
                            bool has_network = false) const;
  [[nodiscard]] Plan plan(Collective collective, const Placement& placement, bool has_choices = true) const {
    return make_plan(collective, plan_inputs(collective, placement, has_choices));
  }

  // Makes the plans for a group of ranks of one node that have no MPI.
  [[nodiscard]] Plans plans_without_mpi(int ranks) const;

  // Returns plans for a communicator that the host serves, whatever the choices are. They give no reason.
  [[nodiscard]] const Plans& native() const { return native_plans_; }

  // Returns true if `native` is chosen for every length and communicator.
  [[nodiscard]] bool is_left_to_host(Collective collective) const {
    const UserChoice* by_program = choices_[index_of(collective)].by_program.load(std::memory_order_acquire);
    return by_program != nullptr && by_program->expression->is_native();
  }

  // Returns `hash` extended by all built-in values that influence decisions. They belong to the identity of
  // the build.
  [[nodiscard]] std::uint64_t hash_of_built_in(std::uint64_t hash) const;
  // Returns a number that almost surely differs if the user's rules or machines decide differently, or if
  // something is named and the hosts have different algorithms. 0 means no rules, no machine and no names.
  [[nodiscard]] std::uint64_t hash_of_user_rules() const;

  // Returns a number that grows with each change of a choice. The plans of a communicator are stale if their
  // number differs.
  [[nodiscard]] std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

 private:
  struct FixedChoices {
    std::atomic<const UserChoice*> by_program{nullptr};
    const UserChoice* at_start = nullptr;  // null: the rules decide
  };
  [[nodiscard]] PlanInputs plan_inputs(Collective collective, const Placement& placement,
                                       bool has_choices) const;
  // Returns what native(NAME) can name, or null if nothing is named.
  [[nodiscard]] const NamedHostAlgorithms* offer() const;

  const HostMpi host_;
  const std::size_t window_bytes_;
  const Adapt adapt_;
  HostAlgorithmsFunction host_algorithms_ = nullptr;  // null: nothing is known of the host's algorithms
  std::atomic<bool> names_host_algorithms_{built_in_rules().name_host_algorithms()};
  bool takes_host_grids_ = true;
  Rules user_rules_;
  std::optional<Machine> machine_;  // empty: the built-in one
  std::array<FixedChoices, collectives.size()> choices_;
  std::mutex mutex_;
  std::set<UserChoice> all_choices_;  // never shrinks, because plan() reads `by_program` without the lock
  Plans native_plans_;
  std::atomic<std::uint64_t> generation_{1};
};

}  // namespace offbeat
