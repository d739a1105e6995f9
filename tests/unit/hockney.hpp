// SPDX-License-Identifier: BSD-3-Clause
// The time of a call in Hockney's model, for the cost formulas in the headers of the algorithms.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "collectives/algorithm.hpp"
#include "simulator/simulator.hpp"

namespace offbeat {

class Hockney : public testing::Test {
 protected:
  static constexpr double a = 2e-6;
  static constexpr double b = 1e-9;
  static constexpr double c = 3e-10;

  static double time_of(Collective collective, const std::string& text, int ranks, std::size_t input_bytes,
                        std::size_t output_bytes) {
    const Expression expression = parse_expression(collective, text);
    const Reduction sum(ElementType::uint8, ReduceOp::sum);
    const Call call{collective, {nullptr, input_bytes, 1}, {nullptr, output_bytes, 1}, &sum};
    const SimulatedMachine machine{
        .inter_alpha = a, .inter_beta = b, .gamma = c, .eager_bytes = std::size_t{1} << 40};
    Simulator simulator(ranks, machine, {.phantom = true});
    return simulator
        .run([&](int, Endpoint net) { return carry_out(net, call, expression); }, {}, expression.lanes())
        .last_delay();
  }
};

}  // namespace offbeat
