// SPDX-License-Identifier: BSD-3-Clause
// What an algorithm is: a name, what a person wants to know about it, and a coroutine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/task.hpp"
#include "transport/endpoint.hpp"

namespace offbeat {

struct Expression;

// Arguments of an allreduce on one rank. `input` and `output` have the same length and are either the same
// memory (in place) or do not overlap. `output` may be used for partial results before it is final.
struct Allreduce {
  ConstVector input;
  Vector output;
  const Reduction* op;
};

// What an algorithm takes between its brackets, in this order.
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

// What an algorithm needs a board for.
enum class OnBoard : std::uint8_t {
  no,
  one_node,    // all ranks are on one node
  every_node,  // the ranks of each node
};

class BoardRound;
class Uncollected;
// The part of an allreduce on the board that combines what one node has: all that this rank does for the
// others until every chunk is marked as Board::Step::result. What it collects of the `results` on the way it
// marks there; null: nobody wants them from this rank.
using NodePhase = Task (*)(const BoardRound& round, Uncollected* results);

struct Algorithm {
  std::string_view name;
  std::string_view summary;
  std::string_view cost;   // Hockney: p ranks, n bytes, latency a, s/byte b, reduction c s/byte
  std::string_view needs;  // "" if nothing
  std::string_view source;
  std::span<const Parameter> parameters = {};
  // The same bits on every run, whoever comes first, if its parts have them; on every rank always.
  bool every_run = true;
  // If not `no`: all ranks take part, so it is never a part of another algorithm, but of `hierarchy`.
  OnBoard on_board = OnBoard::no;
  NodePhase node_phase = nullptr;

  // Null for `native`, which only the MPI layer can run.
  Task (*run)(Endpoint net, Allreduce args, const Expression& self) = nullptr;

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
  // The same bits on every run: nothing in it combines in the order of arrival.
  [[nodiscard]] bool every_run() const;
  // The canonical spelling; parsing it gives the same expression.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool is_native() const { return algorithm->run == nullptr; }
};

// More lanes than this do not fit in the tags that every MPI has, several collectives in flight.
inline constexpr int most_lanes = 1024;
// The product, or something above most_lanes.
[[nodiscard]] constexpr int lanes_product(int outer, int inner) {
  return std::min(outer, most_lanes + 1) * std::min(inner, most_lanes + 1);
}

// Run an expression (not `native`) on an endpoint that was made with its lanes().
[[nodiscard]] Task allreduce(Endpoint net, Allreduce args, const Expression& expression);

// Throws ExpressionError, whose text names the column.
[[nodiscard]] Expression parse_expression(std::string_view collective, std::string_view text);

// All algorithms of a collective ("allreduce"), in the order in which people want to read them; empty if
// unknown.
[[nodiscard]] std::span<const Algorithm* const> algorithms(std::string_view collective);

}  // namespace offbeat
