// SPDX-License-Identifier: BSD-3-Clause
#include "selection/plan.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/own_floating_point.hpp"
#include "collectives/automatic_grid.hpp"
#include "collectives/repertoire.hpp"
#include "node/board_shape.hpp"

namespace offbeat {
namespace {

// A rule that fits the communicator of the plan.
struct FittingRule {
  Range<std::size_t> bytes;
  std::vector<const Expression*> alternatives;  // only those that can run on the communicator
  const Rule* rule;
  std::string_view file;
};

// Keeps the alternatives that always give the same bits as the first one, so that the bits do not depend on
// what was measured.
void keep_alternatives_with_equal_bits(std::vector<const Expression*>& alternatives, Collective collective,
                                       Adapt adapt) {
  if (adapt == Adapt::off) alternatives.erase(alternatives.begin() + 1, alternatives.end());
  if (adapt == Adapt::any) return;
  const Expression* const first = alternatives.front();
  std::erase_if(alternatives,
                [&](const Expression* each) { return !give_equal_bits(collective, *first, *each); });
}

const Machine& machine_of(const PlanInputs& inputs) {
  return inputs.machine != nullptr ? *inputs.machine : built_in_machine();
}

// If nodes differ in size, another algorithm may run instead of the outermost one. Returns it, or null if the
// outermost one runs.
const Algorithm* replacement_on_unequal_nodes(const Expression& expression, const Placement& placement) {
  return placement.equal_nodes ? nullptr : expression.algorithm->for_unequal_nodes;
}

// Returns the expression that calls of `bytes` bytes run: with a grid instead of grid(auto), and with what
// replaces it on nodes that differ in size.
const Expression* expression_on_placement(Collective collective, const Expression& expression,
                                          const PlanInputs& inputs, std::size_t bytes) {
  const Algorithm* const replacement = replacement_on_unequal_nodes(expression, inputs.placement);
  if (!has_automatic_grid(expression) && replacement == nullptr) return &expression;
  Expression found = replace_automatic_grids(expression, machine_of(inputs), inputs.placement, bytes);
  if (replacement != nullptr) found.algorithm = replacement;
  return interned_expression(collective, found.canonical_text());
}

// Returns the reason why an expression cannot run on the communicator of the plan. Empty if it can.
std::string why_rule_unsuitable(Collective collective, const Expression& expression,
                                const PlanInputs& inputs) {
  std::string reason =
      expression_on_placement(collective, expression, inputs, 1)->why_unsuitable(inputs.placement);
  if (reason.empty() && inputs.without_mpi && expression.algorithm->needs.board != OnBoard::one_node)
    reason = "needs an MPI";
  if (reason.empty() && expression.is_host_grid() && !inputs.takes_host_grids)
    reason = "does not notice every process that dies, and ULFM is on";
  if (reason.empty() && inputs.offer != nullptr)
    reason = inputs.offer->why_not(collective, inputs.calls == CallForm::nonblocking, expression,
                                   inputs.placement.ranks);
  return reason;
}

std::vector<FittingRule> fitting_rules(Collective collective, const PlanInputs& inputs) {
  std::vector<FittingRule> found;
  for (const Rules* rules : inputs.rules) {
    if (rules == nullptr) continue;
    for (const Rule& rule : rules->rules) {
      const HostMpi host = inputs.by_network && rules->file.empty() ? HostMpi::other : inputs.host;
      if (rule.collective != collective || !rule.fits(host, inputs.placement, inputs.calls)) continue;
      FittingRule fitting{rule.bytes.on_nodes(inputs.placement.nodes), {}, &rule, rules->file};
      if (fitting.bytes.is_empty()) continue;
      std::ranges::copy_if(
          rule.alternatives, std::back_inserter(fitting.alternatives),
          [&](const Expression* each) { return why_rule_unsuitable(collective, *each, inputs).empty(); });
      if (fitting.alternatives.empty()) continue;
      keep_alternatives_with_equal_bits(fitting.alternatives, collective, inputs.adapt);
      found.push_back(std::move(fitting));
    }
  }
  return found;
}

// Collects the rows of a plan. Each row begins where the one before it ends.
class RowsOfPlan {
 public:
  RowsOfPlan(Collective collective, const PlanInputs& inputs)
      : collective_(collective),
        inputs_(inputs),
        placement_(inputs.placement),
        window_bytes_(inputs.window_bytes),
        names_need_shadows_(inputs.offer != nullptr && inputs.offer->needs_communicators &&
                            inputs.calls == CallForm::blocking) {}

  // Adds a row that ends at `most`. If an alternative has an immediate form, short calls get a row of their
  // own. grid(auto) gets a row for each of its grids.
  void add(std::size_t most, const std::vector<const Expression*>& alternatives, const std::string& reason,
           const std::string& origin) {
    while (next_ <= most) {
      PlanRow row;
      row.bytes = {next_, most};
      row.reason = reason;
      row.origin = origin;
      for (const Expression* each : alternatives_on_placement(alternatives, row)) {
        row.alternatives.push_back(alternative_of(*each, row.bytes));
        if (row.alternatives.back().form != RowForm::task) continue;
        const ElementLimits elements = elements_of(*each);
        row.elements.most_narrow_bytes = std::min(row.elements.most_narrow_bytes, elements.most_narrow_bytes);
        row.elements.most_wide_bytes = std::min(row.elements.most_wide_bytes, elements.most_wide_bytes);
      }
      static_cast<Alternative&>(row) = row.alternatives.front();
      append(std::move(row));
      if (most == max_length && rows_.back().bytes.most == max_length) break;
    }
  }

  [[nodiscard]] std::size_t next() const { return next_; }
  [[nodiscard]] bool is_complete() const { return !rows_.empty() && rows_.back().bytes.most == max_length; }
  [[nodiscard]] std::vector<PlanRow> result() { return std::move(rows_); }

 private:
  // Returns what the alternatives are on the placement. Shortens the row to the lengths that have the same
  // grids, and says in its reason what was replaced.
  [[nodiscard]] std::vector<const Expression*> alternatives_on_placement(
      std::vector<const Expression*> alternatives, PlanRow& row) const {
    std::string grids;
    std::string unequal;
    for (const Expression*& each : alternatives) {
      if (has_automatic_grid(*each)) {
        row.bytes.most =
            longest_with_same_grids(*each, machine_of(inputs_), placement_, row.bytes.least, row.bytes.most);
        grids = "grid(auto) on " + printable(machine_of(inputs_).name, 60);
      }
      if (replacement_on_unequal_nodes(*each, placement_) != nullptr)
        unequal = std::string(each->algorithm->name) + " needs nodes of equal size";
      each = expression_on_placement(collective_, *each, inputs_, typical_length(row.bytes.least));
    }
    for (const std::string& why : {grids, unequal}) {
      if (!why.empty()) row.reason += (row.reason.empty() ? "" : "; ") + why;
    }
    std::vector<const Expression*> distinct;
    for (const Expression* each : alternatives)
      if (std::ranges::find(distinct, each) == distinct.end()) distinct.push_back(each);
    return distinct;
  }

  // Returns the alternative in the form that calls of length bytes.least take, and shortens `bytes` to the
  // lengths that take this form.
  [[nodiscard]] Alternative alternative_of(const Expression& expression, Range<std::size_t>& bytes) const {
    Alternative found{.expression = &expression,
                      .form = form_of(expression),
                      .immediate = nullptr,
                      .needs = needs_of(expression)};
    const bool is_on_board = placement_.nodes == 1 && found.needs.contain(Means::board);
    const Immediate* immediate =
        is_on_board ? immediate_form(*expression.algorithm, placement_.ranks, bytes.least) : nullptr;
    if (immediate == nullptr) return found;
    found.form = RowForm::immediate;
    found.immediate = immediate;
    bytes.most = std::min(bytes.most, immediate->most_bytes(placement_.ranks));
    return found;
  }

  [[nodiscard]] static RowForm form_of(const Expression& expression) {
    if (!expression.is_native()) return RowForm::task;
    return expression.name_in_host.empty() ? RowForm::native : RowForm::by_name;
  }

  [[nodiscard]] Means needs_of(const Expression& expression) const {
    if (expression.is_native())
      return names_need_shadows_ && !expression.name_in_host.empty() ? Means::by_name : Means();
    if (expression.is_host_grid()) return Means::host_grid;
    if (expression.runs_on_host()) return Means::host_pipeline;
    Means needs;
    if (expression.uses_board(placement_) && placement_.board) needs = Means::board;
    if (expression.algorithm->needs.board != OnBoard::one_node)
      needs = needs | (inputs_.by_network ? Means::network : Means::messages);
    return needs;
  }

  [[nodiscard]] ElementLimits elements_of(const Expression& expression) const {
    const OnBoard board = expression.algorithm->needs.board;
    if (board == OnBoard::no) return {};
    // The rounds of these collectives handle one chunk at a time, and a chunk may be as large as a window.
    const bool is_in_rounds = collective_ == Collective::allreduce || collective_ == Collective::reduce;
    return {.most_narrow_bytes = window_bytes_ / static_cast<std::size_t>(placement_.ranks),
            .most_wide_bytes = is_in_rounds && board == OnBoard::one_node ? window_bytes_ : 0};
  }

  void append(PlanRow row) {
    next_ = row.bytes.most + 1;
    if (!rows_.empty()) {
      PlanRow& last = rows_.back();
      const bool continues =
          last.alternatives == row.alternatives && last.reason == row.reason && last.origin == row.origin;
      if (continues) {
        last.bytes.most = row.bytes.most;
        return;
      }
    }
    rows_.push_back(std::move(row));
  }

  const Collective collective_;
  const PlanInputs& inputs_;
  const Placement placement_;
  const std::size_t window_bytes_;
  const bool names_need_shadows_;
  std::vector<PlanRow> rows_;
  std::size_t next_ = 0;
};

std::vector<PlanRow> rows_of_choice(Collective collective, const PlanInputs& inputs) {
  RowsOfPlan rows(collective, inputs);
  const UserChoice& fixed = *inputs.fixed;
  const std::string why_not = why_rule_unsuitable(collective, *fixed.expression, inputs);
  if (why_not.empty()) {
    rows.add(max_length, {fixed.expression}, fixed.origin, fixed.origin);
  } else {
    rows.add(max_length, {interned_expression(collective, "native")},
             fixed.expression->canonical_text() + " " + why_not, fixed.origin);
  }
  return rows.result();
}

std::vector<PlanRow> rows_of_rules(Collective collective, const PlanInputs& inputs) {
  const Expression* const without_rule =
      interned_expression(collective, inputs.by_network ? repertoire(collective).without_host : "native");
  const std::vector<FittingRule> all = fitting_rules(collective, inputs);
  RowsOfPlan rows(collective, inputs);
  while (!rows.is_complete()) {
    // The first rule that holds for this length applies. Its row ends before the length at which a rule
    // earlier in the list begins.
    std::size_t most = max_length;
    const FittingRule* chosen = nullptr;
    for (const FittingRule& each : all) {
      if (each.bytes.contains(rows.next())) {
        chosen = &each;
        most = std::min(most, each.bytes.most);
        break;
      }
      if (each.bytes.least > rows.next()) most = std::min(most, each.bytes.least - 1);
    }
    if (chosen == nullptr) {
      rows.add(most, {without_rule}, "no rule for this", "");
      continue;
    }
    const std::string line = std::to_string(chosen->rule->line);
    const bool is_built_in = chosen->file.empty();
    const std::string origin =
        is_built_in ? "built-in rules, line " + line : std::string(chosen->file) + ":" + line;
    const std::string& reason = chosen->rule->reason;
    const bool is_replaced = inputs.by_network && is_built_in && chosen->alternatives.front()->runs_on_host();
    if (is_replaced)
      rows.add(most, {without_rule}, "the host cannot advance it while the program computes", origin);
    else
      rows.add(most, chosen->alternatives,
               is_built_in ? reason : origin + (reason.empty() ? "" : ": ") + reason, origin);
  }
  return rows.result();
}

}  // namespace

std::string_view name_of(RowForm form) {
  switch (form) {
    case RowForm::native:
    case RowForm::by_name:
      return "native";
    case RowForm::immediate:
      return "immediate";
    case RowForm::task:
      return "task";
  }
  return "";
}

std::string Means::text() const {
  std::string text;
  const auto add = [&](Means means, const char* name) {
    if (contain(means)) text += (text.empty() ? "" : ", ") + std::string(name);
  };
  add(board, "board");
  add(messages, "messages");
  add(host_pipeline, "host pipeline");
  add(by_name, "a communicator for each name");
  add(host_grid, "a communicator for each dimension");
  add(network, "a network");
  return text.empty() ? "nothing" : text;
}

const PlanRow& Plan::row_for(std::size_t bytes, std::size_t width) const {
  const PlanRow& row = row_for(bytes);
  const bool is_wide = width > BoardShape::smallest_chunk;
  if (width <= (is_wide ? row.elements.most_wide_bytes : row.elements.most_narrow_bytes)) return row;
  return is_wide ? without_host : native;
}

std::vector<const Expression*> Plan::native_names() const {
  std::vector<const Expression*> found;
  for (const PlanRow& row : rows) {
    for (const Alternative& each : row.alternatives) {
      if (each.form == RowForm::by_name && std::ranges::find(found, each.expression) == found.end())
        found.push_back(each.expression);
    }
  }
  return found;
}

Means Plan::needs() const {
  Means all;
  for (const PlanRow& row : rows) all = all | row.needs_of_all();
  return all;
}

Means PlanRow::needs_of_all() const {
  Means all;
  for (const Alternative& each : alternatives) all = all | each.needs;
  return all;
}

bool Plans::need(Means means, Collectives some) const {
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    if (!some.contain(collective_at(k))) continue;
    if (by_collective[k].needs().contain(means)) return true;
    if (nonblocking[k] && nonblocking[k]->needs().contain(means)) return true;
  }
  return false;
}

bool give_equal_bits(Collective collective, const Expression& first, const Expression& other) {
  if (&first == &other || !facts_of(collective).has_operation) return true;
  return !first.operand_order().empty() && other.operand_order() == first.operand_order();
}

bool distinguish_call_forms(const PlanInputs& inputs, Collective collective) {
  // The host's non-blocking calls have names of their own.
  const auto is_by_name = [](const Expression* each) {
    return each->is_native() && !each->name_in_host.empty();
  };
  if (inputs.fixed != nullptr) return is_by_name(inputs.fixed->expression);
  const auto tells = [&](const Rule& rule) {
    return rule.collective == collective &&
           (rule.form.has_value() || std::ranges::any_of(rule.alternatives, is_by_name));
  };
  return std::ranges::any_of(inputs.rules, [&](const Rules* rules) {
    return rules != nullptr && std::ranges::any_of(rules->rules, tells);
  });
}

Plan make_plan(Collective collective, const PlanInputs& inputs) {
  if (repertoire(collective).algorithms.empty()) return {};
  const OwnFloatingPoint own;  // grid(auto) compares costs, which must be equal on all ranks
  const auto row_of = [&](std::string_view expression, RowForm form, Means needs) {
    PlanRow row;
    row.expression = interned_expression(collective, expression);
    row.form = form;
    row.needs = needs;
    row.alternatives = {row};
    return row;
  };
  const bool is_fixed =
      inputs.fixed != nullptr &&
      (!inputs.without_mpi || why_rule_unsuitable(collective, *inputs.fixed->expression, inputs).empty());
  std::vector<PlanRow> rows =
      is_fixed ? rows_of_choice(collective, inputs) : rows_of_rules(collective, inputs);
  if (has_unknown_length(collective)) {
    // All calls take the row for length 0.
    rows.resize(1);
    rows.front().bytes.most = max_length;
  }
  return {.rows = std::move(rows),
          .native = row_of("native", RowForm::native, {}),
          .without_host = row_of(repertoire(collective).without_host, RowForm::task, Means::messages)};
}

}  // namespace offbeat
