// SPDX-License-Identifier: BSD-3-Clause
// Allreduce on a board in real time, without an MPI.
#pragma once

#include <cstddef>
#include <stdexcept>

#include "collectives/algorithm.hpp"
#include "node/board.hpp"
#include "transport/transport.hpp"

namespace offbeat {

// A transport with a board and nothing else. In real time an algorithm on the board never suspends.
class BoardOnly : public Transport {
 public:
  bool start(Transfer&) override { throw std::logic_error("a message on the board"); }
  bool start(Computation& computation) override {
    computation.perform();
    return true;
  }
};

template <class Element>
[[nodiscard]] Call allreduce_of(const Element* input, Element* output, std::size_t count,
                                const Reduction& op) {
  return {Collective::allreduce,
          {reinterpret_cast<const std::byte*>(input), count, sizeof(Element)},
          {reinterpret_cast<std::byte*>(output), count, sizeof(Element)},
          &op};
}

// From beginning to end.
inline void finish(Task task) {
  task.start();
  task.rethrow_if_failed();
}

// One call among the ranks of a node, by the form that MPI_Allreduce would take. The board has been entered.
inline void run_on_board(Board& board, const Endpoint& net, const Call& call, const Expression& expression) {
  const Immediate* form = immediate_form(*expression.algorithm, net.size, call.length(net.size));
  if (form != nullptr && form->run(board, call)) return;
  finish(form != nullptr ? expression.algorithm->run(net, call, expression)
                         : carry_out(net, call, expression));
}

}  // namespace offbeat
