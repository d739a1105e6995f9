// SPDX-License-Identifier: BSD-3-Clause
// What the built-in rules choose, cell by cell, compared with data/choices.txt.
//
// After a change of rules that is meant, this writes the file anew; CHANGELOG.md says why it differs:
//
//     OFFBEAT_WRITE_CHOICES=tests/unit/data/choices.txt build/dev/tests/unit/choices_test
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "selection/selection.hpp"

namespace offbeat {
namespace {

template <int most>
constexpr auto numbers_to = [] {
  std::array<int, most> all{};
  std::iota(all.begin(), all.end(), 1);
  return all;
}();
constexpr auto nodes_looked_at = [] {
  // All numbers up to 65, and beyond them the limits of rules.
  constexpr std::array more{96, 127, 128, 129, 255, 256, 512, 1023, 1024, 1025, 4096};
  std::array<int, 65 + more.size()> all{};
  std::ranges::copy(more, std::ranges::copy(numbers_to<65>, all.begin()).out);
  return all;
}();
constexpr auto ppn_looked_at = numbers_to<128>;

bool have_equal_expressions(const PlanRow& one, const PlanRow& other) {
  return std::ranges::equal(one.alternatives, other.alternatives, {}, &Alternative::expression,
                            &Alternative::expression);
}

// "..4095 native; 4096.. ring | native": every limit of a cell, so that no sizes need to be tried.
std::string text_of(const std::vector<PlanRow>& rows) {
  std::string text;
  std::size_t least = 0;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    std::string algorithms;
    for (const Alternative& each : rows[k].alternatives)
      algorithms += (algorithms.empty() ? "" : " | ") + each.expression->canonical_text();
    if (k + 1 < rows.size() && have_equal_expressions(rows[k], rows[k + 1])) continue;
    const std::size_t most = rows[k].bytes.most;
    text += (text.empty() ? "" : "; ") + (least == 0 ? "" : std::to_string(least)) + ".." +
            (most == max_length ? "" : std::to_string(most)) + " " + algorithms;
    least = most + 1;
  }
  return text;
}

std::string range_text(int first, int last) {
  return first == last ? std::to_string(first) : std::to_string(first) + ".." + std::to_string(last);
}

// Joins neighbours whose values are equal: key(first, last) -> value.
template <class Values, class Keys>
auto in_ranges(const Keys& keys, const Values& values) {
  std::vector<std::pair<std::string, typename Values::value_type>> joined;
  for (std::size_t first = 0; first < keys.size();) {
    std::size_t last = first;
    while (last + 1 < keys.size() && values[last + 1] == values[first]) ++last;
    joined.emplace_back(range_text(keys[first], keys[last]), values[first]);
    first = last + 1;
  }
  return joined;
}

using ByPpn = std::vector<std::pair<std::string, std::string>>;

// Returns the choices for each collective under one host.
std::array<std::vector<ByPpn>, collectives.size()> choices_of(const Selection& selection, bool board) {
  std::array<std::vector<ByPpn>, collectives.size()> by_nodes;
  for (const int nodes : nodes_looked_at) {
    std::array<std::vector<std::string>, collectives.size()> by_ppn;
    for (const int ppn : ppn_looked_at) {
      const Plans even = selection.plans({.ranks = nodes * ppn, .nodes = nodes, .board = board});
      // A node with a rank less than the others changes nothing.
      const bool may_differ = nodes > 1 && ppn > 1;
      const Plans uneven =
          may_differ ? selection.plans({.ranks = nodes * ppn - 1, .nodes = nodes, .board = board}) : even;
      for (std::size_t k = 0; k < collectives.size(); ++k) {
        by_ppn[k].push_back(text_of(even.by_collective[k].rows));
        EXPECT_EQ(by_ppn[k].back(), text_of(uneven.by_collective[k].rows))
            << nodes << " nodes, " << ppn << " ppn";
      }
    }
    for (std::size_t k = 0; k < collectives.size(); ++k)
      by_nodes[k].push_back(in_ranges(ppn_looked_at, by_ppn[k]));
  }
  return by_nodes;
}

std::string all_choices() {
  // collective, board, nodes, ppn, choices -> hosts
  using Key = std::pair<std::array<std::string, 3>, std::string>;
  std::vector<std::pair<Key, std::string>> lines;
  for (const std::string_view host : host_names) {
    const Selection selection(*host_named(host));
    for (const bool board : {true, false}) {
      const auto found = choices_of(selection, board);
      for (std::size_t k = 0; k < collectives.size(); ++k) {
        if (!served_collectives.contain(collective_at(k))) continue;
        for (const auto& [nodes, by_ppn] : in_ranges(nodes_looked_at, found[k])) {
          for (const auto& [ppn, text] : by_ppn) {
            const Key key{{std::string(name_of(collective_at(k))) + (board ? " board " : " no_board ") +
                               "nodes " + nodes,
                           "ppn " + ppn, ""},
                          text};
            const auto known =
                std::ranges::find_if(lines, [&](const auto& line) { return line.first == key; });
            if (known != lines.end()) {
              known->second += "," + std::string(host);
            } else {
              lines.emplace_back(key, host);
            }
          }
        }
      }
    }
  }
  std::ranges::stable_sort(lines, {}, [](const auto& line) {
    return line.first.first[0].substr(0, line.first.first[0].find(' '));
  });
  std::string text;
  for (const auto& [key, names] : lines) {
    const bool is_any = names == "other,openmpi,mpich,intel";
    text += key.first[0] + " " + key.first[1] + " host " + (is_any ? "*" : names) + ": " + key.second + "\n";
  }
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Choices, AreThoseOfTheFile) {
  const std::string now = all_choices();
  if (const char* path = std::getenv("OFFBEAT_WRITE_CHOICES")) std::ofstream(path) << now;
  std::ifstream file(CHOICES_FILE);
  std::ostringstream known;
  known << file.rdbuf();
  const std::vector<std::string> before = lines_of(known.str());
  const std::vector<std::string> after = lines_of(now);
  ASSERT_GT(before.size(), 50U) << CHOICES_FILE;
  for (const std::string& line : before)
    EXPECT_NE(std::ranges::find(after, line), after.end()) << "no longer so: " << line;
  for (const std::string& line : after)
    EXPECT_NE(std::ranges::find(before, line), before.end()) << "new: " << line;
}

}  // namespace
}  // namespace offbeat
