// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/combinators/hierarchy/hierarchy_phases.hpp"

#include <algorithm>

#include "collectives/reduce/reduce.hpp"
#include "collectives/repertoire.hpp"

namespace offbeat::hierarchies {
namespace {

// From here on ranks that combine a share each are faster than a tree (rules of reduce on one node).
bool is_for_shares(const Call& call, int ranks) {
  constexpr std::size_t shortest_bytes = std::size_t{16} << 10;
  constexpr int fewest_ranks = 8;
  return call.collective == Collective::reduce && call.input.bytes() >= shortest_bytes &&
         ranks >= fewest_ranks;
}

const Algorithm& algorithm_on_node(const Call& call, int ranks, bool has_board) {
  if (has_board && is_for_shares(call, ranks)) return reduce_algorithms::arrival_shares;
  const Repertoire& known = repertoire(call.collective);
  return **std::ranges::find_if(known.algorithms, [&](const Algorithm* each) {
    return has_board ? each->needs.board == OnBoard::one_node : each->name == known.without_host;
  });
}

}  // namespace

std::string why_unsuitable(const Expression& self, const Placement& placement) {
  return placement.nodes == 1 ? "" : self.parts[1].why_unsuitable({.ranks = placement.nodes});
}

std::string why_unequal_or_unsuitable(const Expression& self, const Placement& placement) {
  return placement.equal_nodes ? why_unsuitable(self, placement) : "needs nodes of equal size";
}

Task within_node(Endpoint node, Call call) {
  Expression expression;
  expression.algorithm = &algorithm_on_node(call, node.size, node.board() != nullptr);
  co_await carry_out(node, call, expression);
}

std::size_t lease_of_vector_in_pieces(const Call& call, int, int node_ranks) {
  return call.input.bytes() + static_cast<std::size_t>(node_ranks) * BoardShape::smallest_chunk;
}

PhaseSegments::PhaseSegments(std::size_t count, std::size_t width, int lanes) {
  const auto shares = static_cast<std::size_t>(lanes);
  const std::size_t shortest = shares * shortest_bytes;
  const std::size_t bytes =
      std::clamp(count * width / segments_in_flight, shortest, std::max(longest_bytes, 2 * shortest));
  length = std::max<std::size_t>(1, bytes / width);
  // The number is rounded, so that the remainder of the division does not become a short segment.
  number = std::max<std::size_t>(1, (count + length / 2) / length);
  length = std::max<std::size_t>(1, (count + number - 1) / number);
}

Task FinishedPhases::wait_for_between(std::size_t segment) {
  Patience::Wait wait(board_->patience);
  const auto is_over = [&] {
    return finished_between_nodes_[segment % segments_in_flight] > segment / segments_in_flight;
  };
  while (!is_over()) co_await board_->pause(wait, is_over);
}

Task FinishedPhases::wait_for_node(std::size_t segment) {
  Patience::Wait wait(board_->patience);
  const auto is_over = [&] { return finished_on_node_ > segment; };
  while (!is_over()) co_await board_->pause(wait, is_over);
}

// The touch matters in virtual time, where a pausing rank looks again after a touch.
Task FinishedPhases::end_between(std::size_t segment) {
  ++finished_between_nodes_[segment % segments_in_flight];
  co_await board_->touch();
}

Task FinishedPhases::end_node() {
  ++finished_on_node_;
  co_await board_->touch();
}

}  // namespace offbeat::hierarchies
