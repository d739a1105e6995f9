// SPDX-License-Identifier: BSD-3-Clause
// A SettingParser turns the text of an environment variable into a field of Settings, and back.
#pragma once

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/settings.hpp"

namespace offbeat {

struct SettingParser {
  std::string values;  // the values that it accepts, for people
  // Sets the field. Returns false if the text is not understood.
  std::function<bool(Settings&, std::string_view)> set_field;
  // Returns the field as text. Texts with the same meaning give equal results.
  std::function<std::string(const Settings&)> text;
};

inline SettingParser text_parser(std::string values, std::string Settings::*field) {
  return {std::move(values),
          [=](Settings& settings, std::string_view text) {
            settings.*field = text;
            return true;
          },
          [=](const Settings& settings) { return settings.*field; }};
}

// The name of an interface has letters, digits and a few other characters, but no blank.
inline SettingParser name_parser(std::string values, std::string Settings::*field) {
  SettingParser found = text_parser(std::move(values), field);
  found.set_field = [set = found.set_field](Settings& settings, std::string_view text) {
    const auto is_in_name = [](char each) {
      return std::isalnum(static_cast<unsigned char>(each)) != 0 ||
             std::string_view(".-_:@").find(each) != std::string_view::npos;
    };
    return std::ranges::all_of(text, is_in_name) && set(settings, text);
  };
  return found;
}

inline SettingParser algorithm_parser(Collective collective) {
  const std::size_t index = index_of(collective);
  // The expression is parsed later, where the algorithms are known.
  return {"an algorithm expression, such as native",
          [=](Settings& settings, std::string_view text) {
            settings.algorithms[index] = text;
            return true;
          },
          [=](const Settings& settings) { return settings.algorithms[index]; }};
}

// `convert` turns the number in the text into the value of the field.
template <class Field, class Convert>
SettingParser number_parser(Field Settings::*field, long least, long most, Convert convert) {
  return {std::to_string(least) + (most == least + 1 ? ", " : " to ") + std::to_string(most),
          [=](Settings& settings, std::string_view text) {
            long value = 0;
            const char* const end = text.data() + text.size();
            const auto [read_to, error] = std::from_chars(text.data(), end, value);
            if (error != std::errc() || read_to != end || value < least || value > most) return false;
            settings.*field = static_cast<Field>(convert(value));
            return true;
          },
          [=](const Settings& settings) { return std::to_string(settings.*field); }};
}
template <class Field>
SettingParser number_parser(Field Settings::*field, long least, long most) {
  return number_parser(field, least, most, [](long value) { return value; });
}
inline SettingParser yes_or_no_parser(bool Settings::*field) { return number_parser(field, 0, 1); }

template <class Field>
struct NamedValue {
  std::string_view text;
  Field value;
};
template <class Field>
SettingParser keyword_parser(Field Settings::*field, std::vector<NamedValue<Field>> named) {
  std::string values;
  for (const NamedValue<Field>& each : named) values += (values.empty() ? "" : ", ") + std::string(each.text);
  return {std::move(values),
          [=](Settings& settings, std::string_view text) {
            const auto found = std::find_if(named.begin(), named.end(),
                                            [&](const NamedValue<Field>& each) { return each.text == text; });
            if (found == named.end()) return false;
            settings.*field = found->value;
            return true;
          },
          [=](const Settings& settings) { return std::to_string(static_cast<int>(settings.*field)); }};
}

// The name of a provider of libfabric, such as tcp;ofi_rxm, may follow.
inline SettingParser network_parser() {
  SettingParser made = keyword_parser(&Settings::network, {{"auto", NetworkChoice::automatic},
                                                           {"mpi", NetworkChoice::mpi},
                                                           {"tcp", NetworkChoice::tcp},
                                                           {"libfabric", NetworkChoice::libfabric}});
  made.values += ", libfabric:PROVIDER";
  made.set_field = [set = made.set_field](Settings& settings, std::string_view text) {
    constexpr std::string_view with_provider = "libfabric:";
    const bool has_provider = text.starts_with(with_provider) && text.size() > with_provider.size();
    settings.provider = has_provider ? text.substr(with_provider.size()) : "";
    return set(settings, has_provider ? "libfabric" : text);
  };
  made.text = [network = made.text](const Settings& settings) {
    return network(settings) + settings.provider;
  };
  return made;
}

// Reads numbers and ranges as taskset does. Returns false if the text is not such a list, or names CPUs that
// Linux cannot have.
inline bool read_cpus(std::string_view text, std::vector<int>& cpus) {
  constexpr int most = 1 << 16;
  cpus.clear();
  for (const char* at = text.data(); at != text.data() + text.size();) {
    const char* const end = text.data() + text.size();
    int first = 0;
    auto read = std::from_chars(at, end, first);
    int last = first;
    if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-')
      read = std::from_chars(read.ptr + 1, end, last);
    if (read.ec != std::errc() || first < 0 || last < first || last >= most) return false;
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (cpus.size() > most) return false;
    if (read.ptr != end && (*read.ptr != ',' || read.ptr + 1 == end)) return false;
    at = read.ptr == end ? end : read.ptr + 1;
  }
  return true;
}

inline SettingParser cpu_list_parser(std::vector<int> Settings::*field) {
  return {"numbers and ranges as for taskset, 14,48-63",
          [=](Settings& settings, std::string_view text) { return read_cpus(text, settings.*field); },
          [=](const Settings& settings) {
            std::string text;
            for (const int cpu : settings.*field) text += std::to_string(cpu) + ",";
            return text;
          }};
}

// Reads names with commas between them. Returns false if one is no collective, or if there is none.
inline bool read_collectives(std::string_view text, Collectives& found) {
  found = {};
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const auto known = collective_named(text.substr(0, comma));
    if (!known) return false;
    found.add(*known);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return !found.empty();
}

// The default, an empty text, stands for all collectives.
inline SettingParser collective_list_parser(Collectives Settings::*field) {
  return {"names of collectives, allreduce,bcast",
          [=](Settings& settings, std::string_view text) {
            if (!text.empty()) return read_collectives(text, settings.*field);
            for (std::size_t k = 0; k < collectives.size(); ++k) (settings.*field).add(collective_at(k));
            return true;
          },
          [=](const Settings& settings) {
            std::string text;
            for (std::size_t k = 0; k < collectives.size(); ++k)
              text += (settings.*field).contain(collective_at(k)) ? '1' : '0';
            return text;
          }};
}

}  // namespace offbeat
