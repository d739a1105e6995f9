// SPDX-License-Identifier: BSD-3-Clause
// offbeat._core, the Python module through which the command line tool calls the C++ core.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <string>

#include "base/error.hpp"
#include "base/settings.hpp"
#include "bindings.hpp"
#include "collectives/repertoire.hpp"

using namespace nb::literals;

namespace {

nb::list algorithm_list() {
  nb::list result;
  for (std::size_t k = 0; k < offbeat::collectives.size(); ++k) {
    const auto collective = offbeat::collective_at(k);
    for (const offbeat::Algorithm* algorithm : offbeat::repertoire(collective).algorithms) {
      nb::list parameters;
      for (const offbeat::Parameter parameter : algorithm->parameters) parameters.append(name_of(parameter));
      nb::dict entry;
      entry["name"] = algorithm->name;
      entry["collective"] = name_of(collective);
      entry["parameters"] = nb::str(", ").attr("join")(parameters);
      entry["summary"] = algorithm->summary;
      entry["cost"] = algorithm->cost;
      entry["needs"] = algorithm->needs.text();
      entry["source"] = algorithm->source;
      entry["every_run"] = algorithm->every_run;
      result.append(entry);
    }
  }
  return result;
}

nb::list collective_list() {
  nb::list result;
  for (std::size_t k = 0; k < offbeat::collectives.size(); ++k) {
    const auto collective = offbeat::collective_at(k);
    const offbeat::CollectiveFacts& facts = offbeat::facts(collective);
    nb::dict entry;
    entry["name"] = facts.name;
    entry["function"] = facts.function;
    entry["moves"] = facts.moves;
    entry["has_root"] = facts.has_root;
    entry["has_operation"] = facts.has_operation;
    entry["served"] = offbeat::served.contain(collective);
    result.append(entry);
  }
  return result;
}

nb::list setting_list() {
  nb::list result;
  for (const offbeat::SettingDescription& setting : offbeat::setting_descriptions()) {
    nb::dict entry;
    entry["name"] = setting.name;
    entry["default"] = setting.default_value;
    entry["values"] = setting.values;
    entry["meaning"] = setting.meaning;
    entry["equal_on_all_ranks"] = setting.equal_on_all_ranks;
    result.append(entry);
  }
  return result;
}

}  // namespace

NB_MODULE(_core, module) {
  module.doc() = "The algorithms, the expression parser, the rules and the settings of offbeat's C++ core.";
  // nanobind tries the translator that was registered last first. So the derived class comes after its base.
  nb::exception<offbeat::UsageError>(module, "UsageError", PyExc_ValueError);
  nb::exception<offbeat::ExpressionError>(module, "ExpressionError", PyExc_ValueError);

  module.def(
      "version", [] { return OFFBEAT_VERSION; }, "Returns the version as text.");
  module.def(
      "algorithms", algorithm_list,
      "Returns one dict per algorithm: name, collective, parameters, summary, cost, needs, source, and "
      "every_run (whether every run gives the same bits).");
  module.def("collectives", collective_list,
             "Returns one dict per collective of MPI: name, function, moves, has_root, has_operation, and "
             "served (offbeat has algorithms for it, and offbeat bench measures it). The order is that of "
             "the numbers in trace files, which begin at 1.");
  module.def(
      "settings", setting_list,
      "Returns one dict per environment variable: name, default, values, meaning, equal_on_all_ranks.");
  module.def(
      "check_expression",
      [](std::string_view collective, std::string_view expression) {
        return offbeat::parse_expression(known_collective(collective), expression).text();
      },
      "collective"_a, "expression"_a,
      "Returns the canonical spelling of an expression. Raises ExpressionError, which names the column of "
      "the "
      "error.");
  register_models(module);
  register_rules(module);
  register_simulator(module);
}
