// SPDX-License-Identifier: BSD-3-Clause
// Algorithm describes one algorithm of one or more collectives: its name, texts for people, what it requires
// (as data), and its coroutine. Expression is an algorithm with its arguments.
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

// The kinds of argument that an algorithm can take in its parentheses.
enum class Parameter : std::uint8_t {
  segments_or_bytes,    // 4, or 32MiB
  bytes,                // 8KiB
  radix,                // 4
  late_rank,            // 4, a rank
  dimensions,           // 32x32
  algorithm,            // one expression
  algorithm_or_native,  // one expression, or `native`
  node_algorithm,  // one algorithm that runs on a node's board; in an allreduce it must have a node_phase
  algorithms,      // one expression for all dimensions, or one for each
};

// Returns the name of a parameter in help texts and errors, such as "SEGMENTS|BYTES".
[[nodiscard]] std::string_view name_of(Parameter parameter);

// A placement says how the ranks of a communicator are spread over nodes. It is equal on all ranks.
struct Placement {
  int ranks = 1;
  int nodes = 1;
  bool board = false;         // the ranks of every node share a board
  bool in_rank_order = true;  // the ranks of each node follow one another
  bool equal_nodes = true;    // all nodes have the same number of ranks
};

// OnBoard says which ranks must share a board for an algorithm to run.
enum class OnBoard : std::uint8_t {
  no,
  one_node,    // all ranks: they must be on one node
  every_node,  // the ranks of each node that has more than one
  if_any,      // as every_node, but without a board the ranks send messages instead
};

// Needs says what an algorithm requires besides a collective that it serves.
struct Needs {
  // If this is not `no`, all ranks take part. Such an algorithm can be a part of `hierarchy` only.
  OnBoard board = OnBoard::no;
  // Returns the smallest number of ranks that the algorithm runs on. `ranks_text` names that number in the
  // documentation. Null: two ranks.
  int (*ranks)(const Expression& self) = nullptr;
  std::string_view ranks_text = "";

  // Returns the requirements as text for people; empty if there are none.
  [[nodiscard]] std::string text() const;
};

class BoardRound;
class UncollectedResults;
// The part of an allreduce or reduce that combines the data of one node on its board. It does all of this
// rank's work for the other ranks, and ends when every chunk is marked as BoardRound::result. It may collect
// results on the way; it then marks those chunks in `results`. Null: this rank collects no results.
using NodePhase = Task (*)(const BoardRound& round, UncollectedResults* results);

// The immediate form of an algorithm: the version for short messages that runs without a coroutine. See
// collectives/board/immediate.hpp.
struct Immediate {
  int most_ranks;  // the largest number of ranks on the node; `for_more_ranks` serves more
  std::size_t (*most_bytes)(int ranks);  // the longest call in bytes, by Call::length
  // Runs the call to its end and waits in real time. Returns false if the lengths differ and some rank has
  // more bytes than the slots hold. The algorithm's `run` must then follow: on all ranks, or, in a gatherv or
  // scatterv, only on the two ranks of such a block.
  bool (*run)(Board& board, const Call& call);
  // Runs the call as a coroutine: in virtual time, or on a rank that has other work meanwhile. If the slots
  // do not hold the call, it continues with the algorithm's `run`.
  Task (*run_in_steps)(Endpoint net, Call call, const Expression& self);
  // The immediate forms for more ranks than most_ranks, and for longer calls; null if there is none.
  const Immediate* for_more_ranks = nullptr;
  const Immediate* for_longer = nullptr;
  bool takes_lists = true;  // accepts blocks of different lengths
};

struct Algorithm {
  std::string_view name;
  std::string_view summary;
  // The time in Hockney's model, as a formula that CostModel evaluates (models/formula.hpp): p ranks, n
  // bytes, latency a in seconds, b seconds per byte sent, c seconds per byte combined. Words for algorithms
  // on a board.
  std::string_view cost;
  Collectives serves;
  Needs needs = {};
  std::string_view source;
  std::span<const Parameter> parameters = {};
  // True if every run gives the same bits, whichever rank arrives first, provided that the parts do. Within
  // one run all ranks always get the same bits.
  bool same_bits_every_run = true;
  // The name of the order in which the operands of an element are combined, if that is equal for all elements
  // of a vector. Equal names mean equal bits. `order_of_part`: the order of the only part.
  std::string_view order = "";
  static constexpr std::string_view order_of_part = "part";
  // For a collective with a block for each rank: true if the algorithm looks every block up by itself
  // (BlockList::block_of). A segment of `pipeline` can then be a stripe of each block.
  bool takes_stripes = false;
  // True if ranks note who came late and use that in their next call (transport/lateness.hpp).
  bool learns = false;
  NodePhase node_phase = nullptr;
  // The immediate form, for short calls among the ranks of one node. Null: short calls take `run` as well.
  const Immediate* immediate = nullptr;

  // Returns an upper bound on the bytes that this rank leases of each half of its window for a call. They
  // count whether this rank puts them, or a rank that has swapped places with it. 0 if nothing is put. The
  // bound on memory counts leases (groups/window_budget.hpp). `node_ranks` is the number of ranks that share
  // the board. Null: Expression::lease applies its general rule.
  std::size_t (*lease)(const Call& call, int rank, int node_ranks) = nullptr;

  // The algorithm itself. Null for `native`, which only the MPI layer can run.
  Task (*run)(Endpoint net, Call call, const Expression& self) = nullptr;

  // Plans replace the algorithm by this one, which has the same parts, if nodes differ in size. Null: by
  // none.
  const Algorithm* for_unequal_nodes = nullptr;

  // Returns the number of lanes. Null: the largest number that any part has.
  int (*lanes)(const Expression& self) = nullptr;
  // Returns the reason why the algorithm cannot run on `placement`, or an empty text if it can. Null: it can
  // if its parts can.
  std::string (*why_unsuitable)(const Expression& self, const Placement& placement) = nullptr;
};

// Returns true if an algorithm only names its vectors in computations. It may then get vectors that no CPU
// can read: stand-ins, and memory of a device. On the board of one node every algorithm is like that, except
// in its immediate form. An alltoallv of any length tries the immediate form first, but that leaves long
// vectors alone. A gatherv or scatterv of any length is in slots in part.
[[nodiscard]] inline bool may_have_stand_ins(const Algorithm& algorithm, bool has_immediate,
                                             Collective collective) {
  return algorithm.needs.board == OnBoard::one_node && !collectives_with_lists_at_root.contain(collective) &&
         (!has_immediate || collective == Collective::alltoallv);
}

// An algorithm with its arguments, such as "pipeline(4, grid(8x4, ring, rabenseifner))".
struct Expression {
  const Algorithm* algorithm = nullptr;
  int segments = 0;  // 0: `bytes` says how long a segment is
  std::size_t bytes = 0;
  int radix = 0;
  int late_rank = 0;
  std::vector<int> dimensions;
  std::vector<Expression> parts;
  std::string name_in_host;  // NAME in native(NAME); empty: the host chooses

  // Returns how many lanes (independent streams of messages) the expression may use at once.
  [[nodiscard]] int lanes() const;
  // Returns the reason why the expression cannot run on `placement`, or an empty text if it can.
  [[nodiscard]] std::string why_unsuitable(const Placement& placement) const;
  // Returns true if the expression uses a board on `placement`. If each node has one rank, no board is
  // needed.
  [[nodiscard]] bool uses_board(const Placement& placement) const {
    return algorithm->needs.board != OnBoard::no && placement.nodes < placement.ranks;
  }
  // Returns how many bytes this rank leases of each half of its window for a call. If that exceeds the
  // window, the rank leases all of it. `node_ranks` is the number of ranks that share the board. If the
  // algorithm has no rule of its own, a rank leases room for one vector of the call. A node's leader leases
  // room for one vector of each rank of the node.
  [[nodiscard]] std::size_t lease(const Call& call, int rank, int ranks, int node_ranks) const;
  // Returns true if every run gives the same bits, because no part combines in the order of arrival.
  [[nodiscard]] bool same_bits_every_run() const;
  // Returns a text that is equal for expressions that always give the same bits, or an empty text if that is
  // not known.
  [[nodiscard]] std::string_view operand_order() const;
  // Returns true if earlier calls influence this one (lateness prediction).
  [[nodiscard]] bool learns() const;
  // Returns the canonical spelling. Parsing it gives an equal expression.
  [[nodiscard]] std::string canonical_text() const;
  [[nodiscard]] bool is_native() const { return algorithm->run == nullptr; }
  // Returns true if the host's own collectives do the work: `native`, or a pipeline or a grid of `native`.
  [[nodiscard]] bool runs_on_host() const {
    return is_native() || (!parts.empty() && std::ranges::all_of(parts, &Expression::is_native));
  }
  // Returns true for a grid of `native`. The host runs its blocking collective along each dimension.
  [[nodiscard]] bool is_host_grid() const { return !dimensions.empty() && runs_on_host(); }
  // Returns the part of a grid that runs along this dimension.
  [[nodiscard]] const Expression& part_of_dimension(std::size_t dimension) const {
    return parts[parts.size() == 1 ? 0 : dimension];
  }
  // Returns NAME in native(NAME), which may be the part of a pipeline, or the first part of a grid. Empty if
  // there is none.
  [[nodiscard]] std::string_view host_algorithm() const {
    if (is_native()) return name_in_host;
    return runs_on_host() ? std::string_view(parts.front().name_in_host) : std::string_view();
  }
  // Returns true if the expression has a native(NAME).
  [[nodiscard]] bool names_host_algorithm() const {
    return !name_in_host.empty() || std::ranges::any_of(parts, &Expression::names_host_algorithm);
  }
};

// Returns the immediate form that runs calls of `bytes` bytes on a node of `ranks` ranks, or null if none
// does. All ranks get the same answer.
[[nodiscard]] inline const Immediate* immediate_form(const Algorithm& algorithm, int ranks,
                                                     std::size_t bytes) {
  const Immediate* form = algorithm.immediate;
  while (form != nullptr && ranks > form->most_ranks) form = form->for_more_ranks;
  while (form != nullptr && bytes > form->most_bytes(ranks)) form = form->for_longer;
  return form;
}

// The limit on lanes: more would not fit in the tags that every MPI has, with several collectives in flight.
inline constexpr int most_lanes = 1024;
// Returns the product, or some number above most_lanes if the product is larger than that.
[[nodiscard]] constexpr int lanes_product(int outer, int inner) {
  return std::min(outer, most_lanes + 1) * std::min(inner, most_lanes + 1);
}

// Runs an expression. It must serve the call's collective and must not run on the host; `net` must be made
// with expression.lanes() lanes.
[[nodiscard]] Task carry_out(Endpoint net, Call call, const Expression& expression);

// Parses an expression. Throws ExpressionError, whose text names the column.
[[nodiscard]] Expression parse_expression(Collective collective, std::string_view text);

}  // namespace offbeat
