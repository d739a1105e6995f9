// SPDX-License-Identifier: BSD-3-Clause
// Every algorithm of every collective that moves data, by messages, alone and in a pipeline x rank counts x
// roots x lengths x in place x adversarial timing, in the simulator. allreduce_test.cpp has its other
// compositions, board_test.cpp what happens on the board.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <vector>

#include "checked_calls.hpp"
#include "collectives/combinators/combinators.hpp"
#include "collectives/repertoire.hpp"

namespace offbeat {
namespace {

using Named = std::tuple<Collective, std::string>;

// The expressions of an algorithm that sends messages and takes no arguments but a radix.
std::vector<std::string> expressions(const Algorithm& algorithm) {
  const std::string name(algorithm.name);
  if (algorithm.run == nullptr || algorithm.needs.board != OnBoard::no) return {};
  if (algorithm.parameters.empty()) return {name};
  if (!std::ranges::equal(algorithm.parameters, std::array{Parameter::radix})) return {};
  return {name + "(3)", name + "(4)"};
}

// From the registry: a new algorithm is tested without being named here.
std::vector<Named> by_messages() {
  std::vector<Named> all;
  for (const Collective collective : checked_collectives) {
    for (const Algorithm* algorithm : repertoire(collective).algorithms) {
      for (const std::string& text : expressions(*algorithm)) all.emplace_back(collective, text);
    }
  }
  return all;
}

// Algorithms in segments, if the collective has pipelines. allreduce_test.cpp has those of an allreduce.
std::vector<Named> in_pipelines() {
  std::vector<Named> all;
  for (const auto& [collective, name] : by_messages()) {
    const auto& algorithms = repertoire(collective).algorithms;
    if (std::ranges::find(algorithms, &combinators::pipeline) == algorithms.end()) continue;
    if (collective == Collective::allreduce) continue;
    for (const char* beginning : {"pipeline(4, ", "pipeline(100B, ", "pipeline(2, pipeline(3, "}) {
      std::string text = beginning + name;
      text.append(static_cast<std::size_t>(std::ranges::count(text, '(') - std::ranges::count(text, ')')),
                  ')');
      if (parse_expression(collective, text).why_unsuitable({.ranks = 2}).empty())
        all.emplace_back(collective, text);
    }
  }
  return all;
}

class EveryExchange : public testing::TestWithParam<std::tuple<Named, int>> {};

TEST_P(EveryExchange, IsRight) {
  const auto& [named, ranks] = GetParam();
  const auto& [collective, text] = named;
  const Expression expression = parse_expression(collective, text);
  ASSERT_EQ(expression.why_unsuitable({ranks}), "");
  expect_right_calls(collective, expression, ranks);
}

std::string name_of_case(const testing::TestParamInfo<std::tuple<Named, int>>& info) {
  const auto& [named, ranks] = info.param;
  return std::string(name_of(std::get<0>(named))) + "_" + test_name(std::get<1>(named), ranks);
}

INSTANTIATE_TEST_SUITE_P(Messages, EveryExchange,
                         testing::Combine(testing::ValuesIn(by_messages()), testing::ValuesIn(rank_counts)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Pipelines, EveryExchange,
                         testing::Combine(testing::ValuesIn(in_pipelines()), testing::ValuesIn(rank_counts)),
                         name_of_case);

}  // namespace
}  // namespace offbeat
