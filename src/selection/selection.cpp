// SPDX-License-Identifier: BSD-3-Clause
#include "selection/selection.hpp"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <map>
#include <utility>

#include "base/hash.hpp"

namespace offbeat {
namespace {

enum class Where : std::uint8_t {
  one_node,
  nodes,      // several
  node_each,  // a rank on each of several
};

// Where, and from which length on, the host's own is faster than offbeat's default: see the sections on every
// other collective in benchmarks/README.md.
struct FasterHost {
  HostMpi host;
  Collective collective;
  Where where;
  std::size_t least_bytes;
  int least_ranks = 1;
  int most_ranks = std::numeric_limits<int>::max();
};
constexpr std::size_t kib = 1024;
constexpr FasterHost faster_hosts[] = {
    {HostMpi::intel, Collective::alltoall, Where::one_node, 512 * kib, 1, 2},
    {HostMpi::intel, Collective::gather, Where::one_node, 2048 * kib, 1, 2},
    {HostMpi::intel, Collective::gather, Where::one_node, 1024 * kib, 3},
    {HostMpi::intel, Collective::scatter, Where::one_node, 1024 * kib, 5},
    {HostMpi::mpich, Collective::alltoall, Where::one_node, 1024 * kib, 1, 2},
    {HostMpi::intel, Collective::alltoall, Where::node_each, 0},
    {HostMpi::intel, Collective::alltoall, Where::nodes, 1 * kib},
    {HostMpi::intel, Collective::reduce, Where::nodes, 0},
    {HostMpi::intel, Collective::gather, Where::nodes, 0},
    {HostMpi::intel, Collective::scatter, Where::nodes, 0},
    {HostMpi::open_mpi, Collective::scatter, Where::nodes, 0},
};

bool has_node_each(const Placement& placement) {
  return placement.nodes > 1 && placement.nodes == placement.ranks;
}

bool holds(const FasterHost& known, const Placement& placement) {
  if (placement.ranks < known.least_ranks || placement.ranks > known.most_ranks) return false;
  switch (known.where) {
    case Where::one_node:
      return placement.nodes == 1;
    case Where::nodes:
      return placement.nodes > 1;
    case Where::node_each:
      return has_node_each(placement);
  }
  return false;
}

constexpr std::string_view nothing_better = "offbeat has nothing better here";

bool holds(const Default& entry, const Placement& placement) {
  if (placement.nodes > entry.most_nodes) return false;
  return entry.spread == Spread::any || has_node_each(placement);
}

}  // namespace

const Expression* interned_expression(Collective collective, std::string_view text) {
  using Known = std::map<std::pair<Collective, std::string>, Expression>;
  static std::mutex mutex;
  static auto* known = new Known;
  Expression expression = parse_expression(collective, text);
  std::pair key{collective, expression.text()};
  const std::lock_guard lock(mutex);
  return &known->try_emplace(std::move(key), std::move(expression)).first->second;
}

namespace {

template <class Holds>
bool any_choice(const ChoiceTable& table, Collectives some, Holds&& holds) {
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    if (some.contain(collective_at(k)) && std::ranges::any_of(table.by_collective[k], holds)) return true;
  }
  return false;
}

}  // namespace

bool ChoiceTable::use_board(Collectives some) const { return any_choice(*this, some, &Choice::uses_board); }

bool ChoiceTable::use_messages(Collectives some) const {
  return any_choice(*this, some, [](const Choice& choice) {
    return !choice.expression->runs_on_host() &&
           choice.expression->algorithm->needs.board != OnBoard::one_node;
  });
}

bool ChoiceTable::use_host_pipeline() const {
  return any_choice(*this, served, [](const Choice& choice) {
    return choice.expression->runs_on_host() && !choice.expression->is_native();
  });
}

Selection::Selection(HostMpi host) : host_(host) {
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    const auto collective = static_cast<Collective>(k + 1);
    if (repertoire(collective).algorithms.empty()) continue;
    native_.by_collective[k] = {{any_length, interned_expression(collective, "native"), ""}};
    of_[k].without_host = interned_expression(collective, repertoire(collective).without_host);
  }
}

void Selection::start_with(Collective collective, std::string_view expression, std::string_view reason) {
  choose_always(collective, expression, reason);
  OfCollective& mine = of_[index_of(collective)];
  mine.at_start = mine.always.load(std::memory_order_relaxed);
}

void Selection::choose_always(Collective collective, std::string_view expression, std::string_view reason) {
  OfCollective& mine = of_[index_of(collective)];
  const Choice* choice = mine.at_start;
  if (!expression.empty()) {
    Choice chosen{any_length, interned_expression(collective, expression), std::string(reason)};
    const std::lock_guard lock(mutex_);
    choice = &*ever_chosen_.insert(std::move(chosen)).first;
  }
  mine.always.store(choice, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_acq_rel);
}

// The default for calls of so many bytes, and of more up to its limit.
Choice Selection::default_choice(Collective collective, const Placement& placement, std::size_t bytes) const {
  std::size_t limit = any_length;
  for (const FasterHost& known : faster_hosts) {
    if (known.host != host_ || known.collective != collective || !holds(known, placement)) continue;
    if (bytes >= known.least_bytes)
      return {any_length, interned_expression(collective, "native"), "the host's own is faster here"};
    limit = std::min(limit, known.least_bytes - 1);
  }
  for (const Default& entry : repertoire(collective).defaults) {
    if (bytes > entry.most_bytes || !holds(entry, placement)) continue;
    const std::size_t least = entry.least_of_node * static_cast<std::size_t>(placement.nodes);
    const Expression* expression = interned_expression(collective, entry.expression);
    // Its part alone does the same, and is a default, too.
    if (expression->algorithm->needs.board != OnBoard::no && !expression->uses_board(placement)) continue;
    if (!expression->unsuitable(placement).empty()) continue;
    if (bytes < least) {
      limit = std::min(limit, least - 1);
      continue;
    }
    const std::string_view reason =
        expression->is_native() ? nothing_better : "offbeat's default for this size";
    return {std::min(limit, entry.most_bytes), expression, std::string(reason)};
  }
  return {limit, interned_expression(collective, "native"), std::string(nothing_better)};
}

Choices Selection::choices(Collective collective, const Placement& placement) const {
  if (repertoire(collective).algorithms.empty()) return {};
  if (const Choice* always = of_[index_of(collective)].always.load(std::memory_order_acquire)) {
    const std::string why_not = always->expression->unsuitable(placement);
    if (why_not.empty()) return {*always};
    return {
        {any_length, interned_expression(collective, "native"), always->expression->text() + " " + why_not}};
  }
  Choices by_default{default_choice(collective, placement, 0)};
  while (by_default.back().most_bytes != any_length) {
    Choice next = default_choice(collective, placement, by_default.back().most_bytes + 1);
    Choice& last = by_default.back();
    if (next.expression == last.expression && next.reason == last.reason) {
      last.most_bytes = next.most_bytes;
    } else {
      by_default.push_back(std::move(next));
    }
  }
  return by_default;
}

std::uint64_t Selection::hash_of_defaults(std::uint64_t hash) const {
  const auto add = [&](std::string_view text, std::initializer_list<std::size_t> numbers) {
    hash = fnv1a(text, hash);
    for (const std::size_t number : numbers) hash = fnv1a(std::to_string(number) + ' ', hash);
  };
  const auto number = [](auto value) { return static_cast<std::size_t>(value); };
  for (const FasterHost& known : faster_hosts) {
    if (known.host != host_) continue;
    add(name_of(known.collective),
        {number(known.where), known.least_bytes, number(known.least_ranks), number(known.most_ranks)});
  }
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    const Repertoire& mine = repertoire(collective_at(k));
    add(name_of(collective_at(k)), {number(host_)});
    add(mine.without_host, {});
    for (const Default& entry : mine.defaults) {
      add(entry.expression,
          {entry.most_bytes, number(entry.most_nodes), number(entry.spread), entry.least_of_node});
    }
  }
  return hash;
}

ChoiceTable Selection::table(const Placement& placement) const {
  ChoiceTable table;
  table.generation = generation();
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    table.by_collective[k] = choices(collective_at(k), placement);
    for (Choice& choice : table.by_collective[k])
      choice.uses_board = choice.expression->uses_board(placement);
  }
  return table;
}

}  // namespace offbeat
