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
  segments_or_bytes,    // 4, or 32MiB
  bytes,                // 8KiB
  radix,                // 4
  late_rank,            // 4, the number of a rank
  dimensions,           // 32x32
  algorithm,            // one expression
  algorithm_or_native,  // the same, or native
  node_algorithm,  // one algorithm that works on the board of a node; in an allreduce one with a node_phase
  algorithms,      // one expression for all dimensions, or one for each
};

// The name in help and errors, such as "SEGMENTS|BYTES".
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
  if_any,      // the same; without a board they send messages
};

// The requirements of an algorithm, beside the collective.
struct Needs {
  // Unless `no`, all ranks take part, so the algorithm can be a part of `hierarchy` only.
  OnBoard board = OnBoard::no;
  // The fewest ranks, and what documents call that number; null: two.
  int (*ranks)(const Expression& self) = nullptr;
  std::string_view ranks_text = "";

  // For people; empty: no needs.
  [[nodiscard]] std::string text() const;
};

class BoardRound;
class Uncollected;
// The part of an allreduce or a reduce on the board that combines the data of one node: everything that this
// rank does for the others until every chunk is marked as BoardRound::result. It may collect some results on
// the way, and marks those in `results`; null: this rank collects none.
using NodePhase = Task (*)(const BoardRound& round, Uncollected* results);

// See collectives/board/immediate.hpp.
struct Immediate {
  int most_ranks;                        // of one node; see `beyond`
  std::size_t (*most_bytes)(int ranks);  // the longest call (Call::length)
  // Runs from beginning to end, waiting in real time. False on all ranks: lengths differ, some rank has more
  // than fits, and nothing was taken; the algorithm's `run` must follow.
  bool (*run)(Board& board, const Call& call);
  // The same for a rank that has other things to do meanwhile, and for virtual time; `run` is included.
  Task (*run_in_steps)(Endpoint net, Call call, const Expression& self);
  // The immediate form for more ranks; null: there is none.
  const Immediate* beyond = nullptr;
  bool takes_lists = true;  // blocks of different lengths
};

struct Algorithm {
  std::string_view name;
  std::string_view summary;
  std::string_view cost;  // Hockney: p ranks, n bytes, latency a, s/byte b, reduction c s/byte
  Collectives serves;
  Needs needs = {};
  std::string_view source;
  std::span<const Parameter> parameters = {};
  // Whether every run gives the same bits, whoever comes first, if its parts do. All ranks always get the
  // same.
  bool every_run = true;
  // Of a collective with a block for each rank: it asks for every block by itself (BlockList::of), so that a
  // segment of `pipeline` can be a stripe of each.
  bool takes_stripes = false;
  // Ranks note who came late, for their next call (transport/lateness.hpp).
  bool learns = false;
  NodePhase node_phase = nullptr;
  // For small calls among the ranks of one node; null: small calls are like the others.
  const Immediate* immediate = nullptr;

  // At most how many bytes this rank leases of each half of its window for a call: what it puts there, or a
  // rank that has swapped places with it. 0 if it has no data to put. The bound on memory counts leases
  // (mpi/communicators/window_budget.hpp). Null: Expression::lease has a rule for all algorithms.
  std::size_t (*lease)(const Call& call, int rank, int ranks) = nullptr;

  // Null for `native`, which only the MPI layer can run.
  Task (*run)(Endpoint net, Call call, const Expression& self) = nullptr;

  // Null: as many as its part with the most lanes.
  int (*lanes)(const Expression& self) = nullptr;
  // Why the algorithm cannot run there; empty if it can. Null: it runs where its parts can.
  std::string (*unsuitable)(const Expression& self, const Placement& placement) = nullptr;
};

// An algorithm with its arguments: "pipeline(4, grid(8x4, ring, rabenseifner))".
struct Expression {
  const Algorithm* algorithm = nullptr;
  int segments = 0;  // 0: cut by bytes
  std::size_t bytes = 0;
  int radix = 0;
  int late_rank = 0;
  std::vector<int> dimensions;
  std::vector<Expression> parts;

  // Independent streams of messages it may use at once.
  [[nodiscard]] int lanes() const;
  // Why it cannot run there; empty if it can.
  [[nodiscard]] std::string unsuitable(const Placement& placement) const;
  // Whether it uses a board there; a node of one rank has no use for one.
  [[nodiscard]] bool uses_board(const Placement& placement) const {
    return algorithm->needs.board != OnBoard::no && placement.nodes < placement.ranks;
  }
  // How many bytes this rank leases of each half of its window for a call; more than a window means all of
  // it. `node_ranks`: how many ranks share the board. An algorithm without a rule of its own puts one vector
  // of the call there or, as the leader of its node, one for each rank of the node.
  [[nodiscard]] std::size_t lease(const Call& call, int rank, int ranks, int node_ranks) const;
  // Whether every run gives the same bits: nothing in it combines in the order of arrival.
  [[nodiscard]] bool every_run() const;
  // Whether a call may go on otherwise than the one before, as somebody was late there.
  [[nodiscard]] bool learns() const;
  // The canonical spelling; parsing it gives the same expression.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool is_native() const { return algorithm->run == nullptr; }
  // Whether the host's own collectives do the work: native, and a pipeline of it.
  [[nodiscard]] bool runs_on_host() const {
    return is_native() || (parts.size() == 1 && parts.front().is_native());
  }
};

// The immediate form of an algorithm for so many ranks of a node; null: it has none.
[[nodiscard]] inline const Immediate* immediate_form(const Algorithm& algorithm, int ranks) {
  const Immediate* form = algorithm.immediate;
  while (form != nullptr && ranks > form->most_ranks) form = form->beyond;
  return form;
}

// Whether a call of `bytes` bytes takes the immediate form of its algorithm. The same answer on all ranks.
[[nodiscard]] inline bool is_immediate(const Algorithm& algorithm, int ranks, std::size_t bytes) {
  const Immediate* form = immediate_form(algorithm, ranks);
  return form != nullptr && bytes <= form->most_bytes(ranks);
}

// More lanes would not fit in the tags that every MPI has, with several collectives in flight.
inline constexpr int most_lanes = 1024;
// The product, or something above most_lanes.
[[nodiscard]] constexpr int lanes_product(int outer, int inner) {
  return std::min(outer, most_lanes + 1) * std::min(inner, most_lanes + 1);
}

// Runs an expression that serves the call's collective and does not run on the host, on an endpoint made with
// its lanes().
[[nodiscard]] Task carry_out(Endpoint net, Call call, const Expression& expression);

// Throws ExpressionError, whose text names the column.
[[nodiscard]] Expression parse_expression(Collective collective, std::string_view text);

}  // namespace offbeat
