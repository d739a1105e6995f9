// SPDX-License-Identifier: BSD-3-Clause
#include "selection/selection.hpp"

#include <utility>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/own_floating_point.hpp"
#include "collectives/repertoire.hpp"

namespace offbeat {

Selection::Selection(HostMpi host, std::size_t window_bytes, Adapt adapt)
    : host_(host), window_bytes_(window_bytes), adapt_(adapt) {
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    if (repertoire(collective_at(k)).algorithms.empty()) continue;
    const UserChoice fixed{interned_expression(collective_at(k), "native"), ""};
    native_plans_.by_collective[k] =
        make_plan(collective_at(k), {.host = host, .placement = {}, .fixed = &fixed});
  }
}

void Selection::set_initial_choice(const Settings& settings) {
  const auto named = [](const std::string& setting, auto&& start) {
    try {
      start();
    } catch (const UsageError& error) {
      throw UsageError(setting + error.what());
    }
  };
  if (!settings.rules.empty())
    named("OFFBEAT_RULES: ", [&] { set_initial_choice(read_rules(settings.rules)); });
  if (!settings.machine.empty())
    named("OFFBEAT_MACHINE: ", [&] {
      const OwnFloatingPoint own;
      set_initial_choice(read_machine(settings.machine));
    });
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    const Collective collective = collective_at(k);
    const std::string& expression = settings.algorithm(collective);
    if (expression.empty()) continue;
    const std::string name = algorithm_setting(collective);
    named(name + "='" + printable(expression) + "': ",
          [&] { set_initial_choice(collective, expression, name); });
  }
}

void Selection::set_initial_choice(Rules rules) {
  user_rules_ = std::move(rules);
  if (user_rules_.name_host_algorithms()) names_host_algorithms_.store(true, std::memory_order_release);
}

const NamedHostAlgorithms* Selection::offer() const {
  if (!names_host_algorithms()) return nullptr;
  if (host_algorithms_ != nullptr) return &host_algorithms_();
  static const auto* const nothing = new NamedHostAlgorithms{.host = "this MPI",
                                                             .reason_for_none = "offbeat does not know it",
                                                             .reason_for_no_blocking = {},
                                                             .algorithms = {}};
  return nothing;
}

void Selection::set_initial_choice(Collective collective, std::string_view expression,
                                   std::string_view origin) {
  choose_for_every_length(collective, expression, origin);
  FixedChoices& mine = choices_[index_of(collective)];
  mine.at_start = mine.by_program.load(std::memory_order_relaxed);
}

void Selection::choose_for_every_length(Collective collective, std::string_view expression,
                                        std::string_view origin) {
  FixedChoices& mine = choices_[index_of(collective)];
  const UserChoice* choice = mine.at_start;
  if (!expression.empty()) {
    UserChoice chosen{interned_expression(collective, expression), std::string(origin)};
    if (chosen.expression->names_host_algorithm())
      names_host_algorithms_.store(true, std::memory_order_release);
    const std::lock_guard lock(mutex_);
    choice = &*all_choices_.insert(std::move(chosen)).first;
  }
  mine.by_program.store(choice, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_acq_rel);
}

PlanInputs Selection::plan_inputs(Collective collective, const Placement& placement, bool has_choices) const {
  return {.host = host_,
          .placement = placement,
          .fixed = choices_[index_of(collective)].by_program.load(std::memory_order_acquire),
          .window_bytes = window_bytes_,
          .adapt = has_choices ? adapt_ : Adapt::off,
          .rules = {&user_rules_, &built_in_rules()},
          .offer = offer(),
          .takes_host_grids = takes_host_grids_,
          .machine = machine_ ? &*machine_ : nullptr};
}

Plans Selection::plans(const Placement& placement, bool has_choices, bool has_network) const {
  Plans plans;
  plans.generation = generation();
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    const Collective collective = collective_at(k);
    PlanInputs of_calls = plan_inputs(collective, placement, has_choices);
    plans.by_collective[k] = make_plan(collective, of_calls);
    if (!has_network && !distinguish_call_forms(of_calls, collective)) continue;
    of_calls.calls = CallForm::nonblocking;
    of_calls.by_network = has_network;
    if (has_network) of_calls.adapt = Adapt::off;
    plans.nonblocking[k] = make_plan(collective, of_calls);
  }
  return plans;
}

Plans Selection::plans_without_mpi(int ranks) const {
  Plans plans;
  plans.generation = generation();
  const Placement placement{.ranks = ranks, .nodes = 1, .board = true, .in_rank_order = true};
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    plans.by_collective[k] =
        make_plan(collective_at(k), {.host = HostMpi::other,
                                     .placement = placement,
                                     .fixed = choices_[k].by_program.load(std::memory_order_acquire),
                                     .window_bytes = window_bytes_,
                                     .adapt = Adapt::off,
                                     .rules = {&user_rules_, &built_in_rules()},
                                     .offer = nullptr,
                                     .without_mpi = true});
  }
  return plans;
}

std::uint64_t Selection::hash_of_built_in(std::uint64_t hash) const {
  hash = fnv1a(name_of(host_), hash);
  for (std::size_t k = 0; k < collectives.size(); ++k)
    hash = fnv1a(repertoire(collective_at(k)).without_host, fnv1a(name_of(collective_at(k)), hash));
  return built_in_rules().hash(hash) ^ built_in_machine().hash();
}

std::uint64_t Selection::hash_of_user_rules() const {
  std::uint64_t hash = user_rules_.rules.empty() ? 0 : user_rules_.hash(fnv1a("rules"));
  if (machine_) hash ^= machine_->hash();
  const NamedHostAlgorithms* const offered = offer();
  return offered != nullptr ? hash ^ offered->hash() : hash;
}

}  // namespace offbeat
