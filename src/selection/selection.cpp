// SPDX-License-Identifier: BSD-3-Clause
#include "selection/selection.hpp"

#include <algorithm>

namespace offbeat {
namespace {

// What runs when nobody chose: the first line that is suitable, up to this many bytes.
struct Default {
  std::size_t up_to_bytes;
  std::string_view expression;
};
constexpr Default allreduce_defaults[] = {
    {~std::size_t{0}, "arrival_tree"},
    {std::size_t{16} << 10, "hierarchy(arrival_tree, recursive_doubling)"},
    {~std::size_t{0}, "hierarchy(arrival_tree, rabenseifner)"},
    {std::size_t{16} << 10, "recursive_doubling"},
    {~std::size_t{0}, "rabenseifner"},
};

// What no Selection owns. Never destroyed: a program may call MPI while it exits.
const Expression* immortal(std::string_view text) {
  return new Expression(parse_expression("allreduce", text));
}

}  // namespace

bool ChoiceTable::all_native() const {
  return std::all_of(by_class.begin(), by_class.end(),
                     [](const Choice& choice) { return choice.expression->is_native(); });
}

bool ChoiceTable::any_on_board() const {
  return std::any_of(by_class.begin(), by_class.end(), [](const Choice& choice) {
    return choice.expression->algorithm->on_board != OnBoard::no;
  });
}

const Choice* Selection::keep(Expression expression, std::string_view reason) {
  const std::lock_guard lock(mutex_);
  const Expression& kept = expressions_.emplace_front(std::move(expression));
  return &choices_.emplace_front(Choice{&kept, std::string(reason)});
}

void Selection::start_with(std::string_view expression, std::string_view reason) {
  choose_always(expression, reason);
  at_start_ = always_.load(std::memory_order_relaxed);
}

void Selection::choose_always(std::string_view expression, std::string_view reason) {
  const Choice* choice = at_start_;
  if (!expression.empty()) choice = keep(parse_expression(collective_, expression), reason);
  always_.store(choice, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_acq_rel);
}

ChoiceTable Selection::table(const Placement& placement) const {
  static const Expression* const native = immortal("native");
  static const auto defaults = [] {
    std::array<const Expression*, std::size(allreduce_defaults)> parsed{};
    std::transform(std::begin(allreduce_defaults), std::end(allreduce_defaults), parsed.begin(),
                   [](const Default& entry) { return immortal(entry.expression); });
    return parsed;
  }();

  ChoiceTable table;
  table.generation = generation();
  const Choice* always = always_.load(std::memory_order_acquire);
  for (int k = 0; k < size_class_count; ++k) {
    Choice choice;
    if (always != nullptr) {
      choice = *always;
    } else {
      const std::size_t smallest = k == 0 ? 0 : std::size_t{1} << (k - 1);
      std::size_t entry = 0;
      while (smallest > allreduce_defaults[entry].up_to_bytes ||
             !defaults[entry]->unsuitable(placement).empty()) {
        ++entry;
      }
      choice = {defaults[entry], "offbeat's default for this size"};
    }
    if (std::string why_not = choice.expression->unsuitable(placement); !why_not.empty()) {
      choice = {native, choice.expression->text() + " " + why_not};
    }
    table.by_class[static_cast<std::size_t>(k)] = std::move(choice);
  }
  return table;
}

}  // namespace offbeat
