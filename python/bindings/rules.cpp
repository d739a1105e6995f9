// SPDX-License-Identifier: BSD-3-Clause
// The part of offbeat._core that `offbeat rules` and `offbeat explain` use: rules and plans.
#include "selection/rules.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "selection/plan.hpp"

using namespace nb::literals;

namespace {

offbeat::HostMpi known_host(std::string_view name) {
  const auto known = offbeat::host_named(name);
  if (!known) throw offbeat::UsageError("unknown MPI '" + offbeat::printable(name) + "'");
  return *known;
}

std::vector<std::string> error_lines(const offbeat::ParsedRules& parsed) {
  std::vector<std::string> lines;
  for (const offbeat::RuleError& error : parsed.errors) lines.push_back(error.text(parsed.rules.file));
  return lines;
}

nb::list rule_list(const offbeat::ParsedRules& parsed) {
  nb::list result;
  for (const offbeat::Rule& rule : parsed.rules.rules) {
    nb::dict entry;
    entry["line"] = rule.line;
    entry["text"] = rule.text();
    entry["collective"] = name_of(rule.collective);
    entry["nonblocking"] = rule.form.has_value();
    entry["host"] = rule.host ? name_of(*rule.host) : std::string_view("*");
    entry["nodes"] = nb::make_tuple(rule.nodes.least, rule.nodes.most);
    entry["ppn"] = nb::make_tuple(rule.ppn.least, rule.ppn.most);
    entry["reason"] = rule.reason;
    result.append(entry);
  }
  return result;
}

nb::dict row_dict(const offbeat::PlanRow& row) {
  nb::dict entry;
  entry["least_bytes"] = row.bytes.least;
  entry["most_bytes"] = row.bytes.most == offbeat::any_length ? nb::none() : nb::cast(row.bytes.most);
  entry["expression"] = row.expression->text();
  entry["form"] = name_of(row.form);
  entry["needs"] = row.needs.text();
  nb::list alternatives;
  for (const offbeat::Alternative& each : row.alternatives) alternatives.append(each.expression->text());
  entry["alternatives"] = alternatives;
  entry["reason"] = row.reason;
  entry["origin"] = row.origin;
  return entry;
}

nb::list plan(std::string_view calls, std::string_view host, int nodes, int ranks_per_node, bool board,
              const offbeat::ParsedRules* users_rules, std::string_view fixed, std::string_view origin,
              const std::string& machine) {
  if (nodes < 1 || ranks_per_node < 1 || nodes > std::numeric_limits<int>::max() / ranks_per_node)
    throw offbeat::UsageError("the number of ranks must be from 1 to 2147483647");
  // No collective has a name that begins like those of non-blocking calls.
  const std::string_view prefix = prefix_of(offbeat::CallForm::nonblocking);
  const bool nonblocking = calls.starts_with(prefix);
  const offbeat::Collective known = known_collective(calls.substr(nonblocking ? prefix.size() : 0));
  offbeat::FixedChoice choice{nullptr, std::string(origin)};
  if (!fixed.empty()) choice.expression = offbeat::interned_expression(known, fixed);
  const offbeat::HostOffer offer = offbeat::offer_of_any_version(known_host(host));
  const offbeat::Machine grids =
      machine.empty() ? offbeat::built_in_machine() : offbeat::read_machine(machine);
  const offbeat::Plan made = offbeat::make_plan(
      known, {.host = known_host(host),
              .calls = nonblocking ? offbeat::CallForm::nonblocking : offbeat::CallForm::blocking,
              .placement = {.ranks = nodes * ranks_per_node, .nodes = nodes, .board = board},
              .fixed = choice.expression != nullptr ? &choice : nullptr,
              .rules = {users_rules != nullptr ? &users_rules->rules : nullptr, &offbeat::built_in_rules()},
              .offer = &offer,
              .machine = &grids});
  nb::list rows;
  for (const offbeat::PlanRow& row : made.rows) rows.append(row_dict(row));
  return rows;
}

nb::list host_algorithm_list() {
  nb::list result;
  for (const offbeat::HostAlgorithm& each : offbeat::host_algorithms()) {
    if (!each.is_offered) continue;
    nb::dict entry;
    entry["host"] = name_of(each.host);
    entry["call"] = (each.is_nonblocking ? "i" : "") + std::string(name_of(each.collective));
    entry["name"] = each.name;
    entry["spelling"] = each.spelling;
    entry["number"] = each.number;
    entry["ranks"] = each.ranks == 0 ? nb::none() : nb::cast(each.ranks);
    result.append(entry);
  }
  return result;
}

}  // namespace

void register_rules(nb::module_& module) {
  nb::class_<offbeat::ParsedRules>(module, "Rules",
                                   "The contents of a file of rules: its rules and its errors.")
      .def_prop_ro("errors", error_lines, "One line per error, as FILE:LINE: FIELD: MESSAGE.")
      .def_prop_ro("rules", rule_list,
                   "The rules without an error. Each is a dict: line, text (the canonical spelling), "
                   "collective, nonblocking (whether it is for non-blocking calls only), host, "
                   "nodes, ppn, reason. nodes and ppn are pairs (least, most), both included.");
  module.def(
      "read_rules",
      [](const std::string& path) { return offbeat::parse_rules(path, offbeat::read_rules_text(path)); },
      "path"_a,
      "Reads a file of rules, which must be a regular file. Raises UsageError if it cannot be read.");
  module.def(
      "built_in_rules", [] { return offbeat::parse_rules("built-in rules", offbeat::built_in_rules_text()); },
      "Returns the rules that are built into offbeat.");
  module.def(
      "hosts",
      [] { return std::vector<std::string_view>(offbeat::host_names.begin(), offbeat::host_names.end()); },
      "Returns the names of the MPIs that rules can tell apart.");
  module.def(
      "host_algorithms", host_algorithm_list,
      "Returns the algorithms of the MPIs that native(NAME) can name, one dict each: host, call (such as "
      "allreduce or iallreduce), name, spelling (the MPI's own name), number (in the MPI's list, from 1), "
      "and ranks (the only number of ranks that it runs on, or None).");
  module.def(
      "plan", plan, "calls"_a, "host"_a, "nodes"_a, "ranks_per_node"_a, "board"_a, "users_rules"_a.none(),
      "fixed"_a, "origin"_a, "machine"_a = "",
      "Returns the plan of `calls`, such as bcast, or ibcast for its non-blocking calls, on a communicator "
      "of "
      "`nodes` times `ranks_per_node` ranks: one dict per byte range, shortest first. least_bytes and "
      "most_bytes are both included; most_bytes None means no upper end. "
      "The other keys are expression, form, needs, alternatives, reason and origin. `board` says whether the "
      "ranks of a node share memory. If `fixed` is not empty, calls of every length run that expression, and "
      "`origin` says who chose it. Otherwise `users_rules` decide, and after them the built-in rules. "
      "`machine` is the path of the machine file that gives grid(auto) its shape; empty: the built-in one.");
}
