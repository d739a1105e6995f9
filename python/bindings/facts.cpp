// SPDX-License-Identifier: BSD-3-Clause
// What the core knows: its algorithms, MPI's collectives, the settings, and how expressions are spelled.
#include <string>
#include <vector>

#include "answer.hpp"
#include "base/settings.hpp"
#include "collectives/repertoire.hpp"
#include "node/call_counters.hpp"
#include "node/whereabouts.hpp"

namespace offbeat::python {

std::string& answer_text() {
  static thread_local std::string text;
  return text;
}

namespace {

std::string algorithm_list() {
  Json json;
  {
    const auto list = json.list();
    for (std::size_t k = 0; k < collectives.size(); ++k) {
      const auto collective = collective_at(k);
      for (const Algorithm* algorithm : repertoire(collective).algorithms) {
        std::string parameters;
        for (const Parameter parameter : algorithm->parameters)
          parameters.append(parameters.empty() ? "" : ", ").append(name_of(parameter));
        const auto entry = json.object();
        json.add("name", algorithm->name);
        json.add("collective", name_of(collective));
        json.add("parameters", parameters);
        json.add("summary", algorithm->summary);
        json.add("cost", algorithm->cost);
        json.add("needs", algorithm->needs.text());
        json.add("source", algorithm->source);
        json.add("every_run", algorithm->same_bits_every_run);
      }
    }
  }
  return std::move(json).text();
}

std::string collective_list() {
  Json json;
  {
    const auto list = json.list();
    for (std::size_t k = 0; k < collectives.size(); ++k) {
      const auto collective = collective_at(k);
      const CollectiveFacts& known = facts_of(collective);
      const auto entry = json.object();
      json.add("name", known.name);
      json.add("function", known.function);
      json.add("moves", known.description);
      json.add("has_root", known.has_root);
      json.add("has_operation", known.has_operation);
      json.add("served", served_collectives.contain(collective));
    }
  }
  return std::move(json).text();
}

std::string setting_list() {
  Json json;
  {
    const auto list = json.list();
    for (const SettingDescription& setting : setting_descriptions()) {
      const auto entry = json.object();
      json.add("name", setting.name);
      json.add("default", setting.default_value);
      json.add("values", setting.values);
      json.add("meaning", setting.meaning);
      json.add("equal_on_all_ranks", setting.equal_on_all_ranks);
    }
  }
  return std::move(json).text();
}

}  // namespace
}  // namespace offbeat::python

using namespace offbeat::python;

extern "C" {

Text offbeat_python_text() { return {answer_text().data(), answer_text().size()}; }

int offbeat_python_version() {
  return answer([] { return json(OFFBEAT_VERSION); });
}
int offbeat_python_algorithms() { return answer(algorithm_list); }
int offbeat_python_collectives() { return answer(collective_list); }
// Returns this moment by the clock of the counters, and in nanoseconds of CLOCK_MONOTONIC.
int offbeat_python_clock() {
  return answer([] {
    const offbeat::TickRate now = offbeat::TickRate::begin();
    return "[" + std::to_string(now.begun_ticks) + "," + std::to_string(now.begun_ns) + "]";
  });
}
// Asks a process where its program is. The text is empty if it does not answer.
int offbeat_python_where(int pid) {
  return answer([&] {
    const std::vector<offbeat::MappedCounters> found = offbeat::counters_of_process(pid);
    return json(found.empty() ? std::string() : offbeat::ask_where(found.front()));
  });
}
// Asks a process for the frames of its program.
int offbeat_python_stack(int pid) {
  return answer([&] {
    const std::vector<offbeat::MappedCounters> found = offbeat::counters_of_process(pid);
    Json written;
    {
      const auto list = written.list();
      if (!found.empty())
        for (const std::string& line : offbeat::ask_for_stack(found.front())) written.add(line);
    }
    return std::move(written).text();
  });
}
int offbeat_python_settings() { return answer(setting_list); }

// Returns the canonical spelling of an expression.
int offbeat_python_check_expression(Text collective, Text expression) {
  return answer([&] {
    return json(offbeat::parse_expression(known_collective(collective), expression).canonical_text());
  });
}

}  // extern "C"
