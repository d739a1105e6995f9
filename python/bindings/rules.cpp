// SPDX-License-Identifier: BSD-3-Clause
// What `offbeat rules` and `offbeat explain` show: rules and plans.
#include "selection/rules.hpp"

#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "answer.hpp"
#include "selection/plan.hpp"

namespace offbeat::python {
namespace {

HostMpi known_host(std::string_view name) {
  const auto known = host_named(name);
  if (!known) throw UsageError("unknown MPI '" + printable(name) + "'");
  return *known;
}

std::string error_lines(const ParsedRules& parsed) {
  Json json;
  {
    const auto list = json.list();
    for (const RuleError& error : parsed.errors) json.add(error.text(parsed.rules.file));
  }
  return std::move(json).text();
}

std::string rule_list(const ParsedRules& parsed) {
  Json json;
  {
    const auto list = json.list();
    for (const Rule& rule : parsed.rules.rules) {
      const auto entry = json.object();
      json.add("line", rule.line);
      json.add("text", rule.text());
      json.add("collective", name_of(rule.collective));
      json.add("nonblocking", rule.form.has_value());
      json.add("host", rule.host ? name_of(*rule.host) : std::string_view("*"));
      for (const auto& [name, span] : {std::pair{"nodes", rule.nodes}, std::pair{"ppn", rule.ppn}}) {
        const auto ends = json.list(name);
        json.add(span.least);
        json.add(span.most);
      }
      json.add("reason", rule.reason);
      const Expression& first = *rule.alternatives.front();
      json.add("first", first.canonical_text());
      const auto never_tried = json.list("never_tried");
      for (const Expression* each : rule.alternatives)
        if (!give_equal_bits(rule.collective, first, *each)) json.add(each->canonical_text());
    }
  }
  return std::move(json).text();
}

std::string row_list(const Plan& plan) {
  Json json;
  {
    const auto list = json.list();
    for (const PlanRow& row : plan.rows) {
      const auto entry = json.object();
      std::optional<std::size_t> most_bytes;
      if (row.bytes.most != max_length) most_bytes = row.bytes.most;
      json.add("least_bytes", row.bytes.least);
      json.add("most_bytes", most_bytes);
      json.add("expression", row.expression->canonical_text());
      json.add("form", name_of(row.form));
      json.add("needs", row.needs.text());
      json.add("reason", row.reason);
      json.add("origin", row.origin);
      const auto alternatives = json.list("alternatives");
      for (const Alternative& each : row.alternatives) json.add(each.expression->canonical_text());
    }
  }
  return std::move(json).text();
}

Adapt known_adapt(std::string_view name) {
  if (name == "off") return Adapt::off;
  return name == "any" ? Adapt::any : Adapt::on;
}

Plan plan(std::string_view calls, std::string_view host, int nodes, int ranks_per_node, bool board,
          const ParsedRules* users_rules, std::string_view fixed, std::string_view origin,
          const std::string& machine, std::string_view adapt) {
  if (nodes < 1 || ranks_per_node < 1 || nodes > std::numeric_limits<int>::max() / ranks_per_node)
    throw UsageError("the number of ranks must be from 1 to 2147483647");
  // No collective has a name that begins like those of non-blocking calls.
  const std::string_view prefix = prefix_of(CallForm::nonblocking);
  const bool nonblocking = calls.starts_with(prefix);
  const Collective known = known_collective(calls.substr(nonblocking ? prefix.size() : 0));
  UserChoice choice{nullptr, std::string(origin)};
  if (!fixed.empty()) choice.expression = interned_expression(known, fixed);
  const NamedHostAlgorithms offer = nameable_algorithms_of_any_version(known_host(host));
  const offbeat::Machine grids = machine.empty() ? built_in_machine() : read_machine(machine);
  return make_plan(known,
                   {.host = known_host(host),
                    .calls = nonblocking ? CallForm::nonblocking : CallForm::blocking,
                    .placement = {.ranks = nodes * ranks_per_node, .nodes = nodes, .board = board},
                    .fixed = choice.expression != nullptr ? &choice : nullptr,
                    .adapt = known_adapt(adapt),
                    .rules = {users_rules != nullptr ? &users_rules->rules : nullptr, &built_in_rules()},
                    .offer = &offer,
                    .machine = &grids});
}

std::string host_list() {
  Json json;
  {
    const auto list = json.list();
    for (const std::string_view name : host_names) json.add(name);
  }
  return std::move(json).text();
}

std::string host_algorithm_list() {
  Json json;
  {
    const auto list = json.list();
    for (const HostAlgorithm& each : host_algorithms()) {
      if (!each.may_be_named) continue;
      std::optional<int> ranks;
      if (each.ranks != 0) ranks = each.ranks;
      const auto entry = json.object();
      json.add("host", name_of(each.host));
      json.add("call", (each.is_nonblocking ? "i" : "") + std::string(name_of(each.collective)));
      json.add("name", each.name);
      json.add("spelling", each.name_in_host_mpi);
      json.add("number", each.number);
      json.add("ranks", ranks);
    }
  }
  return std::move(json).text();
}

}  // namespace
}  // namespace offbeat::python

using namespace offbeat::python;
using offbeat::ParsedRules;

extern "C" {

int offbeat_python_hosts() { return answer(host_list); }
int offbeat_python_host_algorithms() { return answer(host_algorithm_list); }

// Both make `*rules`, which offbeat_python_free_rules() deletes.
int offbeat_python_read_rules(Text path, const ParsedRules** rules) {
  return answer([&] {
    const std::string file(path);
    *rules = new ParsedRules(offbeat::parse_rules(file, offbeat::read_rules_text(file)));
    return json(true);
  });
}
int offbeat_python_built_in_rules(const ParsedRules** rules) {
  return answer([&] {
    *rules = new ParsedRules(offbeat::parse_rules("built-in rules", offbeat::built_in_rules_text()));
    return json(true);
  });
}
void offbeat_python_free_rules(const ParsedRules* rules) { delete rules; }
int offbeat_python_rule_errors(const ParsedRules* rules) {
  return answer([&] { return error_lines(*rules); });
}
int offbeat_python_rule_list(const ParsedRules* rules) {
  return answer([&] { return rule_list(*rules); });
}

// Returns the rows of the plan of `calls`, such as bcast or ibcast. `users_rules`, `fixed` and `machine` may
// be empty. `adapt` is a value of OFFBEAT_ADAPT.
int offbeat_python_plan(Text calls, Text host, int nodes, int ranks_per_node, bool board,
                        const ParsedRules* users_rules, Text fixed, Text origin, Text machine, Text adapt) {
  return answer([&] {
    return row_list(plan(calls, host, nodes, ranks_per_node, board, users_rules, fixed, origin,
                         std::string(machine), adapt));
  });
}

}  // extern "C"
