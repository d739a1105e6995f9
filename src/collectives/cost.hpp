// SPDX-License-Identifier: BSD-3-Clause
// CostModel predicts how long an expression takes if all ranks arrive together. It evaluates the texts in
// Algorithm::cost (models/formula.hpp). docs/explanation/models.md says how well they agree with the
// simulator.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "collectives/algorithm.hpp"
#include "models/formula.hpp"

namespace offbeat {

// A call on a machine in Hockney's model. Times are in seconds.
struct CostCase {
  int ranks = 1;
  int nodes = 0;        // with equally many ranks each; 0: every rank has its own
  double bytes = 0;     // as in PhantomCalls
  double a = 0;         // latency between nodes, with the time of both cores
  double b = 0;         // per byte between nodes
  double c = 0;         // per byte that is combined
  double o = 0;         // time of a core for each further message of several at once
  double v = 0;         // time of a core to send a message and to receive another
  double a_within = 0;  // within a node
  double b_within = 0;
  double eager_bytes = 8192;  // longer messages wait for their receivers
};

class CostModel final {
 public:
  // Returns nothing if the cost of the algorithm, or of a part, is only words: the board's algorithms, and
  // those of the host.
  static std::optional<CostModel> for_expression(Collective collective, const Expression& expression);

  // Returns the time in seconds.
  [[nodiscard]] double operator()(const CostCase& call) const;

 private:
  class Parts;

  CostModel(Collective collective, const Expression& expression, Formula formula)
      : collective_(collective), expression_(expression), formula_(std::move(formula)) {}

  [[nodiscard]] FormulaInput input(const CostCase& call) const;
  [[nodiscard]] double busy(const CostCase& call) const;
  [[nodiscard]] double steps(const CostCase& call) const;

  Collective collective_;
  Expression expression_;
  Formula formula_;
  std::vector<CostModel> parts_;  // those that send messages between the nodes
};

}  // namespace offbeat
