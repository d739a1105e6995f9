// SPDX-License-Identifier: BSD-3-Clause
#include "selection/selection.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <utility>

namespace offbeat {
namespace {

// The defaults: the first line that is suitable and whose limit is above the message's length.
// Every limit is a power of two, because a choice is made for a whole size class.
struct Default {
  std::size_t below_bytes;  // 0: any length
  std::string_view expression;
};
constexpr Default allreduce_defaults[] = {
    {0, "arrival_tree"},
    {std::size_t{32} << 10, "hierarchy(arrival_tree, recursive_doubling)"},
    {0, "hierarchy(arrival_tree, rabenseifner)"},
    {std::size_t{32} << 10, "recursive_doubling"},
    {0, "rabenseifner"},
};

constexpr std::span<const Default> defaults_of(Collective collective) {
  switch (collective) {
    case Collective::allreduce:
      return allreduce_defaults;
    default:
      return {};
  }
}

constexpr bool holds(const Default& entry, int size_class) {
  return entry.below_bytes == 0 || size_class < offbeat::size_class(entry.below_bytes);
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

bool ChoiceTable::all_native() const {
  return std::all_of(by_class.begin(), by_class.end(),
                     [](const Choice& choice) { return choice.expression->is_native(); });
}

bool ChoiceTable::any_on_board() const {
  return std::any_of(by_class.begin(), by_class.end(), [](const Choice& choice) {
    return choice.expression->algorithm->needs.board != OnBoard::no;
  });
}

void Selection::start_with(std::string_view expression, std::string_view reason) {
  choose_always(expression, reason);
  at_start_ = always_.load(std::memory_order_relaxed);
}

void Selection::choose_always(std::string_view expression, std::string_view reason) {
  const Choice* choice = at_start_;
  if (!expression.empty()) {
    Choice chosen{interned_expression(collective_, expression), std::string(reason)};
    const std::lock_guard lock(mutex_);
    choice = &*choices_.insert(std::move(chosen)).first;
  }
  always_.store(choice, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_acq_rel);
}

ChoiceTable Selection::table(const Placement& placement) const {
  const Expression* const native = interned_expression(collective_, "native");
  const auto by_default = [&](int size_class) {
    for (const Default& entry : defaults_of(collective_)) {
      if (!holds(entry, size_class)) continue;
      const Expression* expression = interned_expression(collective_, entry.expression);
      if (expression->unsuitable(placement).empty()) return expression;
    }
    return native;
  };

  ChoiceTable table;
  table.generation = generation();
  const Choice* always = always_.load(std::memory_order_acquire);
  for (int k = 0; k < size_class_count; ++k) {
    Choice choice = always != nullptr ? *always : Choice{by_default(k), "offbeat's default for this size"};
    if (std::string why_not = choice.expression->unsuitable(placement); !why_not.empty()) {
      choice = {native, choice.expression->text() + " " + why_not};
    }
    table.by_class[static_cast<std::size_t>(k)] = std::move(choice);
  }
  return table;
}

}  // namespace offbeat
