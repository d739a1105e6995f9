// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/cost.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "collectives/combinators/combinators.hpp"
#include "collectives/combinators/segments.hpp"

namespace offbeat {
namespace {

bool works_on_board(const Expression& expression) {
  return expression.algorithm->needs.board == OnBoard::one_node;
}

// Returns true if the bytes of a call (Call::length) are those of the vector that the ranks cut into blocks.
// Otherwise each block is that long.
bool cuts_vector(Collective collective) {
  return collective == Collective::reduce_scatter || collective == Collective::reduce_scatter_block;
}

}  // namespace

// What the formula of a combinator asks about the expressions inside it, in one case.
class CostModel::Parts final : public CostOfParts {
 public:
  Parts(const CostModel& whole, const CostCase& call) : whole_model_(whole), call_(call) {}

  [[nodiscard]] double time(std::size_t dimension, double ranks, double bytes) const override {
    return part_model(dimension)(cost_case_of_part(ranks, bytes));
  }
  [[nodiscard]] double busy(double ranks, double bytes) const override {
    return part_model(0).busy(cost_case_of_part(ranks, bytes));
  }
  [[nodiscard]] double steps(double ranks, double bytes) const override {
    return part_model(0).steps(cost_case_of_part(ranks, bytes));
  }

 private:
  [[nodiscard]] const CostModel& part_model(std::size_t dimension) const {
    return whole_model_.parts_.at(whole_model_.parts_.size() == 1 ? 0 : dimension);
  }
  // A part of all ranks stays on the nodes that they are on. A part of some has one rank on each.
  [[nodiscard]] CostCase cost_case_of_part(double ranks, double bytes) const {
    CostCase call = call_;
    if (static_cast<int>(ranks) != call.ranks) call.nodes = 0;
    call.ranks = static_cast<int>(ranks);
    call.bytes = bytes;
    return call;
  }

  const CostModel& whole_model_;
  const CostCase& call_;
};

std::optional<CostModel> CostModel::for_expression(Collective collective, const Expression& expression) {
  const bool is_words = works_on_board(expression) || expression.is_native();
  if (is_words) return {};
  std::optional<CostModel> model;
  try {
    model = CostModel(collective, expression, Formula(expression.algorithm->cost));
  } catch (const UsageError&) {
    return {};
  }
  for (const Expression& part_model : expression.parts) {
    if (works_on_board(part_model)) continue;
    std::optional<CostModel> of_part = for_expression(collective, part_model);
    if (!of_part) return {};
    model->parts_.push_back(std::move(*of_part));
  }
  return model;
}

FormulaInput CostModel::input(const CostCase& call) const {
  const double ranks = call.ranks;
  const double nodes = call.nodes == 0 ? ranks : call.nodes;
  FormulaInput in{.p = ranks,
                  .n = call.bytes,
                  .m = cuts_vector(collective_) ? call.bytes / ranks : call.bytes,
                  .a = call.a,
                  .b = call.b,
                  .c = call.c,
                  .a_within = call.a_within,
                  .b_within = call.b_within,
                  .o = call.o,
                  .v = call.v,
                  .nodes = nodes,
                  .s = ranks / nodes,
                  .radix = static_cast<double>(expression_.radix),
                  .segment_bytes = static_cast<double>(expression_.bytes),
                  .dimensions = expression_.dimensions};
  in.w = in.n > call.eager_bytes ? 1 : 0;
  if (expression_.algorithm == &combinators::pipeline) {
    const auto bytes = static_cast<std::size_t>(call.bytes);
    in.s =
        static_cast<double>(std::max<std::size_t>(1, combinators::Segments(bytes, 1, expression_).count()));
    in.f = std::min(in.s, static_cast<double>(combinators::in_flight(expression_)));
  }
  return in;
}

double CostModel::operator()(const CostCase& call) const {
  const Parts parts(*this, call);
  return formula_(input(call), &parts);
}

// The definition u says how long the busiest resource works. Without it that is the sum of all that the
// slowest rank sends, or of all that it combines.
double CostModel::busy(const CostCase& call) const {
  const Parts parts(*this, call);
  if (formula_.defines('u')) return formula_.value_of('u', input(call), &parts);
  CostCase bytes = call;
  bytes.o = bytes.v = bytes.a = bytes.a_within = bytes.c = 0;
  CostCase combining = call;
  combining.o = combining.v = combining.a = combining.b = combining.a_within = combining.b_within = 0;
  return std::max((*this)(bytes), (*this)(combining));
}

// The definition k says in how many steps the busiest resource works. Without it every step counts, each of
// which has one latency.
double CostModel::steps(const CostCase& call) const {
  const Parts parts(*this, call);
  if (formula_.defines('k')) return formula_.value_of('k', input(call), &parts);
  CostCase latencies = call;
  latencies.a = 1;
  latencies.o = latencies.v = latencies.b = latencies.c = latencies.a_within = latencies.b_within = 0;
  return (*this)(latencies);
}

}  // namespace offbeat
