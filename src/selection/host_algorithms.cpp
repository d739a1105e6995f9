// SPDX-License-Identifier: BSD-3-Clause
#include "selection/host_algorithms.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>
#include <utility>

#include "base/collective.hpp"
#include "base/hash.hpp"

namespace offbeat {
namespace {

// Takes the next word from `text`.
std::string_view next_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  return word;
}

HostAlgorithm read(std::string_view word) {
  HostAlgorithm algorithm{};
  algorithm.may_be_named = !word.starts_with('-');
  if (!algorithm.may_be_named) word.remove_prefix(1);
  if (const auto at = word.find('@'); at != std::string_view::npos) {
    std::from_chars(word.data() + at + 1, word.data() + word.size(), algorithm.ranks);
    word = word.substr(0, at);
  }
  const auto equals = word.find('=');
  algorithm.name = word.substr(0, equals);
  const std::string_view spellings = equals == std::string_view::npos ? word : word.substr(equals + 1);
  const auto bar = spellings.find('|');
  algorithm.name_in_host_mpi = spellings.substr(0, bar);
  if (bar != std::string_view::npos) algorithm.later_name = spellings.substr(bar + 1);
  return algorithm;
}

std::vector<HostAlgorithm> read_list(std::string_view text) {
  std::vector<HostAlgorithm> list;
  std::map<std::tuple<HostMpi, Collective, bool>, int> last_numbers;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto host = host_named(next_word(line));
    if (!host) continue;  // a comment, or an empty line
    const std::string_view call = next_word(line);
    const auto blocking = collective_named(call);
    const auto collective = blocking ? blocking : collective_named(call.substr(1));
    int& last = last_numbers[{*host, *collective, !blocking}];
    for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) {
      HostAlgorithm algorithm = read(word);
      algorithm.host = *host;
      algorithm.collective = *collective;
      algorithm.is_nonblocking = !blocking;
      algorithm.number = ++last;
      list.push_back(algorithm);
    }
  }
  return list;
}

}  // namespace

const std::vector<HostAlgorithm>& host_algorithms() {
  static const auto* const list = new std::vector<HostAlgorithm>(read_list(host_algorithms_text()));
  return *list;
}

const HostAlgorithm* NamedHostAlgorithms::find(Collective collective, bool is_nonblocking,
                                               std::string_view name) const {
  const auto found = std::ranges::find_if(algorithms, [&](const HostAlgorithm* each) {
    return each->collective == collective && each->is_nonblocking == is_nonblocking && each->name == name;
  });
  return found != algorithms.end() ? *found : nullptr;
}

std::string NamedHostAlgorithms::names(Collective collective, bool is_nonblocking) const {
  std::string text;
  for (const HostAlgorithm* each : algorithms) {
    if (each->collective == collective && each->is_nonblocking == is_nonblocking)
      text += (text.empty() ? "" : ", ") + std::string(each->name);
  }
  return text.empty() ? "none" : text;
}

std::string NamedHostAlgorithms::why_not(Collective collective, bool is_nonblocking,
                                         const Expression& expression, int ranks) const {
  if (expression.is_host_grid()) {
    for (std::size_t k = 0; k < expression.dimensions.size(); ++k) {
      const Expression& part = expression.part_of_dimension(k);
      const std::string why = why_not(collective, false, part, expression.dimensions[k]);
      if (!why.empty()) return "has " + part.canonical_text() + ", which " + why;
    }
    return {};
  }
  const std::string_view name = expression.host_algorithm();
  if (name.empty()) return {};
  // The segments of a pipeline are non-blocking calls, so they need the name of a non-blocking algorithm.
  if (!expression.is_native()) is_nonblocking = true;
  const HostAlgorithm* found = find(collective, is_nonblocking, name);
  if (found != nullptr) {
    if (found->ranks == 0 || found->ranks == ranks) return {};
    return "runs on " + std::to_string(found->ranks) + " ranks only under " + host;
  }
  const std::string call = (is_nonblocking ? "i" : "") + std::string(name_of(collective));
  const std::string& reason =
      is_nonblocking || reason_for_no_blocking.empty() ? reason_for_none : reason_for_no_blocking;
  if (!reason.empty()) return "cannot run under " + host + ": " + reason;
  return "names no " + call + " that " + host + " has; it has: " + names(collective, is_nonblocking);
}

std::uint64_t NamedHostAlgorithms::hash() const {
  std::uint64_t hash = fnv1a(host);
  for (const HostAlgorithm* each : algorithms)
    hash = fnv1a(each->name, fnv1a(each->is_nonblocking ? "i" : "", fnv1a(name_of(each->collective), hash)));
  return hash;
}

NamedHostAlgorithms nameable_algorithms_of_any_version(HostMpi host) {
  static constexpr std::string_view people[] = {"this MPI", "Open MPI", "MPICH", "Intel MPI"};
  NamedHostAlgorithms offer{.host = std::string(people[static_cast<std::size_t>(host)]),
                            .reason_for_none = {},
                            .reason_for_no_blocking = {},
                            .algorithms = {},
                            .needs_communicators = host == HostMpi::open_mpi};
  if (host == HostMpi::intel) {
    offer.reason_for_none = "it takes a name for the whole run only, from OFFBEAT_<COLLECTIVE>";
    return offer;
  }
  if (host == HostMpi::other) offer.reason_for_none = "offbeat knows no names of its algorithms";
  for (const HostAlgorithm& each : host_algorithms()) {
    if (each.host == host && each.may_be_named) offer.algorithms.push_back(&each);
  }
  return offer;
}

std::optional<int> position_in_description(std::string_view description, std::string_view name,
                                           const std::vector<std::string_view>& known) {
  constexpr std::string_view separator = "- ";
  const bool has_lines = description.find('\n') != std::string_view::npos;
  std::optional<int> found;
  int position = 0;
  for (auto at = description.find(separator); at != std::string_view::npos;
       at = description.find(separator, at + 1)) {
    // A name ends in blanks before the separator.
    if (at == 0 || description[at - 1] != ' ') continue;
    const auto last = description.find_last_not_of(' ', at - 1);
    if (last == std::string_view::npos) return std::nullopt;
    std::string_view before = description.substr(0, last + 1);
    before.remove_prefix(before.find_last_of(" \n") + 1);
    if (!has_lines) {
      // Without line breaks, the text of the previous value runs straight into the next name. So take the
      // longest known name that `before` ends with.
      std::string_view longest;
      for (const std::string_view each : known) {
        if (before.ends_with(each) && each.size() > longest.size()) longest = each;
      }
      if (longest.empty()) return std::nullopt;
      before = longest;
    } else if (const auto line = description.rfind('\n', last);
               description.find_first_not_of(' ', line + 1) + before.size() != last + 1) {
      continue;  // a dash within the text of a value
    }
    if (before == name) found = position;
    ++position;
  }
  return found;
}

}  // namespace offbeat
