// SPDX-License-Identifier: BSD-3-Clause
// An algorithm: its name, a description for people, its requirements as data, and a coroutine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/task.hpp"
#include "collectives/call.hpp"
#include "transport/endpoint.hpp"

namespace offbeat {

struct Expression;

// The kinds of argument that an algorithm can take between its brackets.
enum class Parameter : std::uint8_t {
  segments_or_bytes,  // 4, or 32MiB
  bytes,              // 8KiB
  dimensions,         // 32x32
  algorithm,          // one expression
  node_algorithm,     // one algorithm that has a node_phase
  algorithms,         // one expression for all dimensions, or one for each
};

// "SEGMENTS|BYTES": as it stands in help and errors.
[[nodiscard]] std::string_view name_of(Parameter parameter);

// Where the ranks are; equal on all of them.
struct Placement {
  int ranks = 1;
  int nodes = 1;
  bool board = false;  // every node gives its ranks shared memory
};

// Whether an algorithm needs a board, and on which nodes.
enum class OnBoard : std::uint8_t {
  no,
  one_node,    // all ranks are on one node
  every_node,  // the ranks of each node that has several
};

// The requirements of an algorithm, beside the collective.
struct Needs {
  // If not `no`: all ranks take part, so it is never a part of another algorithm, but of `hierarchy`.
  OnBoard board = OnBoard::no;
  // The fewest ranks, and how they are called in documents; null: two.
  int (*ranks)(const Expression& self) = nullptr;
  std::string_view ranks_text = "";

  // For people; empty: nothing.
  [[nodiscard]] std::string text() const;
};

class BoardRound;
class Uncollected;
// The part of an allreduce on the board that combines what one node has: all that this rank does for the
// others until every chunk is marked as Board::Step::result. It may collect some results on the way, and
// marks these in `results`; null: this rank collects none.
using NodePhase = Task (*)(const BoardRound& round, Uncollected* results);

// See collectives/immediate.hpp.
struct Immediate {
  // Of one node, and of the vectors of all of them together.
  int most_ranks;
  std::size_t most_bytes_of_all;
  // From beginning to end, waiting in real time.
  void (*run)(Board& board, const Call& call);
  // The same for who has other things to do meanwhile, and in virtual time.
  Task (*run_in_steps)(Endpoint net, Call call);
};

struct Algorithm {
  std::string_view name;
  std::string_view summary;
  std::string_view cost;  // Hockney: p ranks, n bytes, latency a, s/byte b, reduction c s/byte
  Collectives serves;
  Needs needs = {};
  std::string_view source;
  std::span<const Parameter> parameters = {};
  // The same bits on every run, whoever comes first, if its parts have them; on every rank always.
  bool every_run = true;
  NodePhase node_phase = nullptr;
  // For small calls among the ranks of one node; null: they are like the others.
  const Immediate* immediate = nullptr;

  // Null for `native`, which only the MPI layer can run.
  Task (*run)(Endpoint net, Call call, const Expression& self) = nullptr;

  // Null: as many as the most of its parts.
  int (*lanes)(const Expression& self) = nullptr;
  // Why it cannot run there; empty if it can. Null: where its parts can.
  std::string (*unsuitable)(const Expression& self, const Placement& placement) = nullptr;
};

// An algorithm with its arguments: "pipeline(4, grid(8x4, ring, rabenseifner))".
struct Expression {
  const Algorithm* algorithm = nullptr;
  int segments = 0;  // 0: cut by bytes
  std::size_t bytes = 0;
  std::vector<int> dimensions;
  std::vector<Expression> parts;

  // Independent streams of messages it may use at once.
  [[nodiscard]] int lanes() const;
  // Why it cannot run there; empty if it can.
  [[nodiscard]] std::string unsuitable(const Placement& placement) const;
  // Whether it uses a board there: a node of one rank has no use for one.
  [[nodiscard]] bool uses_board(const Placement& placement) const {
    return algorithm->needs.board != OnBoard::no && placement.nodes < placement.ranks;
  }
  // The same bits on every run: nothing in it combines in the order of arrival.
  [[nodiscard]] bool every_run() const;
  // The canonical spelling; parsing it gives the same expression.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool is_native() const { return algorithm->run == nullptr; }
};

// Whether a call of so many bytes takes the immediate form of its algorithm. The same answer on all ranks.
[[nodiscard]] inline bool is_immediate(const Algorithm& algorithm, int ranks, std::size_t bytes) {
  return algorithm.immediate != nullptr && ranks <= algorithm.immediate->most_ranks &&
         bytes * static_cast<std::size_t>(ranks) <= algorithm.immediate->most_bytes_of_all;
}

// More lanes than this do not fit in the tags that every MPI has, several collectives in flight.
inline constexpr int most_lanes = 1024;
// The product, or something above most_lanes.
[[nodiscard]] constexpr int lanes_product(int outer, int inner) {
  return std::min(outer, most_lanes + 1) * std::min(inner, most_lanes + 1);
}

// Runs an expression (not `native`), which serves the collective of the call, on an endpoint that was made
// with its lanes().
[[nodiscard]] Task carry_out(Endpoint net, Call call, const Expression& expression);

// Throws ExpressionError, whose text names the column.
[[nodiscard]] Expression parse_expression(Collective collective, std::string_view text);

}  // namespace offbeat
