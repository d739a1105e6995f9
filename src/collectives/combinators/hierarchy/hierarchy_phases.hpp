// SPDX-License-Identifier: BSD-3-Clause
// The hierarchies of all collectives share this code. A hierarchy has phases on the nodes, on the board, and
// phases among one leader of each node, by messages.
//
// A phase may be another collective: a reduce-scatter begins with a reduce on each node. That collective's
// own algorithm on the board carries it out. A node of one rank has no phases of its own, and its board is
// never used.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "collectives/algorithm.hpp"
#include "node/board_awaitables.hpp"
#include "node/membership.hpp"

namespace offbeat::hierarchies {

inline constexpr Parameter parameters[] = {Parameter::node_algorithm, Parameter::algorithm};

// Runs the call in one phase if there is one node, or one rank on each node, and by `run_on_several_nodes`
// otherwise. This is an Algorithm::run.
template <Task (*run_on_several_nodes)(Endpoint, Call, const Expression&)>
[[nodiscard]] Task run_for_placement(Endpoint net, Call call, const Expression& self) {
  const int nodes = node_count(net);
  if (nodes == 1) return carry_out(net, call, self.parts[0]);
  if (nodes == net.size) return carry_out(net, call, self.parts[1]);
  return run_on_several_nodes(net, call, self);
}

// Returns the reason why the leaders' algorithm cannot run among the leaders, or an empty text. This is an
// Algorithm::why_unsuitable, and so is the one for algorithms that need a lane for each rank.
[[nodiscard]] std::string why_unsuitable(const Expression& self, const Placement& placement);
[[nodiscard]] std::string why_unequal_or_unsuitable(const Expression& self, const Placement& placement);

// Runs an allreduce on several nodes, some of which have several ranks. The first `carriers` members of each
// node each carry a share between the nodes.
[[nodiscard]] Task run_in_lanes(Endpoint net, Call call, const Expression& self, int carriers);

// Runs a phase on a node. If the node has a board, the phase runs by the board's algorithm for its
// collective, and otherwise by Repertoire::without_host.
[[nodiscard]] Task within_node(Endpoint node, Call call);

// Returns room for a vector, also if it is put in a piece for each rank of the node. Each piece may begin
// anywhere in a page. This is an Algorithm::lease.
[[nodiscard]] std::size_t lease_of_vector_in_pieces(const Call& call, int rank, int node_ranks);

// Carriers says which ranks work between the nodes. `leaders`: one leader of each node. `last`: the last
// member of each node, which has the sum of its node in a scan. `all`: as many members of each node as the
// smallest node has (lanes).
enum class Carriers : std::uint8_t { leaders, last, all };

// Nodes describes the nodes as one rank sees them. A node's leader is the root if the root is on it, and its
// lowest rank otherwise.
class Nodes {
 public:
  static constexpr int no_root = -1;
  explicit Nodes(const Endpoint& net, int root = no_root, Carriers carriers = Carriers::leaders)
      : all(net.locality()->membership),
        count(all.nodes()),
        own_node(net.locality()->node),
        size(all.size(own_node)),
        root_node(root == no_root ? 0 : all.node_of(root)),
        leader(root != no_root && root_node == own_node ? all.member_of(root) : 0),
        is_leader(net.locality()->member == leader),
        is_alone(size == 1),
        is_carrier(carriers == Carriers::leaders ? is_leader
                   : carriers == Carriers::last  ? net.locality()->member + 1 == size
                                                 : net.locality()->member < all.smallest_node_size()),
        root_(root),
        carriers_(carriers) {}

  // Returns the leaders of all nodes. Only valid if this rank leads its node.
  [[nodiscard]] Endpoint leaders(const Endpoint& net) const { return node_leaders(net, root_); }
  // Returns the ranks of all nodes with which this rank works between the nodes. Only valid if this rank
  // carries.
  [[nodiscard]] Endpoint between(const Endpoint& net) const {
    if (carriers_ == Carriers::leaders) return leaders(net);
    return carriers_ == Carriers::last ? last_of_nodes(net) : across_nodes(net);
  }

  const Membership& all;
  const int count;
  const int own_node;
  const int size;       // how many ranks this rank's node has
  const int root_node;  // the node of the root
  const int leader;     // the member that leads this rank's node
  const bool is_leader;
  const bool is_alone;
  const bool is_carrier;

 private:
  const int root_;
  const Carriers carriers_;
};

// ListedBlocks makes a BlockList for blocks that follow one another. Block k has count_of(k) elements.
class ListedBlocks {
 public:
  template <class CountOf>
  ListedBlocks(int blocks, CountOf&& count_of)
      : blocks_(blocks),
        memory_(true, static_cast<std::size_t>(blocks), sizeof(std::size_t) + sizeof(std::ptrdiff_t)) {
    for (int k = 0; k < blocks; ++k) {
      counts()[k] = count_of(k);
      begins()[k] = static_cast<std::ptrdiff_t>(total_);
      total_ += counts()[k];
    }
  }
  // Makes a list of blocks that lie anywhere.
  template <class CountOf, class BeginOf>
  ListedBlocks(int blocks, CountOf&& count_of, BeginOf&& begin_of) : ListedBlocks(blocks, count_of) {
    for (int k = 0; k < blocks; ++k) begins()[k] = static_cast<std::ptrdiff_t>(begin_of(k));
  }
  [[nodiscard]] BlockList block_list() const { return {counts(), begins()}; }
  template <class AnyVector>
  [[nodiscard]] AnyVector block_of(const AnyVector& vector, int block) const {
    return block_list().block_of(vector, block, blocks_);
  }
  [[nodiscard]] std::size_t total() const { return total_; }
  [[nodiscard]] std::size_t longest() const { return block_list().longest(blocks_); }

 private:
  [[nodiscard]] std::size_t* counts() const { return reinterpret_cast<std::size_t*>(memory_.vector().data); }
  [[nodiscard]] std::ptrdiff_t* begins() const {
    return reinterpret_cast<std::ptrdiff_t*>(counts() + blocks_);
  }

  const int blocks_;
  Scratch memory_;
  std::size_t total_ = 0;
};

// Returns a list with one block for each node: the blocks of its ranks together.
template <class CountOf>
[[nodiscard]] ListedBlocks blocks_of_nodes(const Membership& all, CountOf&& count_of) {
  return ListedBlocks(all.nodes(), [&](int node) {
    std::size_t sum = 0;
    for (const int rank : all.members(node)) sum += count_of(rank);
    return sum;
  });
}
[[nodiscard]] inline ListedBlocks blocks_of_nodes(const Membership& all, std::size_t count_of_each) {
  return ListedBlocks(all.nodes(),
                      [&](int node) { return count_of_each * static_cast<std::size_t>(all.size(node)); });
}

// Returns the blocks of all ranks as one view, if they lie in `vector` one after the other in the order of
// the nodes. Returns a shorter view otherwise. If ranks have different lists, the answer differs between
// ranks.
template <class AnyVector>
[[nodiscard]] AnyVector blocks_in_node_order(const AnyVector& vector, const BlockList& blocks,
                                             const Membership& all) {
  AnyVector found{vector.data, 0, vector.width};
  if (blocks.counts == nullptr) return all.is_in_rank_order() ? vector : found;
  std::ptrdiff_t end = 0;
  for (const int rank : all.by_node()) {
    const std::size_t count = blocks.counts[rank];
    if (count == 0) continue;
    if (found.count == 0) {
      found.data = blocks.block_of(vector, rank, all.ranks()).data;
    } else if (blocks.begins[rank] != end) {
      return {vector.data, 0, vector.width};
    }
    found.count += count;
    end = blocks.begins[rank] + static_cast<std::ptrdiff_t>(count);
  }
  return found;
}

// -- Segments: while the carriers exchange one segment, the nodes work on others.

inline constexpr int segments_in_flight = 4;

// Cuts a vector into segments of equal length, except for the last one. There are segments_in_flight
// segments, unless that makes them too short or too long: shorter segments would cost more in latency than
// they save, and with longer ones a phase would wait longer for the first and the last segment. All ranks
// compute equal values. In lanes the lower limit holds for a share. With more than eight lanes a share has 16
// to 32 KiB, so segments are longer than with one lane.
struct PhaseSegments {
  static constexpr std::size_t shortest_bytes = std::size_t{16} << 10;
  static constexpr std::size_t longest_bytes = std::size_t{256} << 10;

  PhaseSegments(std::size_t count, std::size_t width, int lanes = 1);
  [[nodiscard]] Stripe operator[](std::size_t k) const { return {k * length, length}; }

  std::size_t length;  // elements in each segment but the last
  std::size_t number;  // how many segments; at least one
};

// Returns Algorithm::lanes for hierarchies that use segments: one lane for the phases on the node, and one
// for each segment in flight.
[[nodiscard]] inline int lanes_in_segments(const Expression& self) {
  return lanes_product(1 + segments_in_flight, self.parts[1].lanes());
}

// Which phase of a segment comes first: the one on the node, or the one between the nodes.
enum class FirstPhase : std::uint8_t { node, between };

// Records which phases are over, for the coroutines of one carrier.
class FinishedPhases {
 public:
  explicit FinishedPhases(Board* board) : board_(board) {}

  // Wait until the inter-node phase, or this node's own phase, of `segment` is complete.
  [[nodiscard]] Task wait_for_between(std::size_t segment);
  [[nodiscard]] Task wait_for_node(std::size_t segment);
  // These record that such a phase is over.
  [[nodiscard]] Task end_between(std::size_t segment);
  [[nodiscard]] Task end_node();

 private:
  Board* board_;                      // not used on a node of one rank
  std::size_t finished_on_node_ = 0;  // segments whose phase on the node is over
  // For each coroutine: segments whose phase between the nodes is over.
  std::array<std::size_t, segments_in_flight> finished_between_nodes_{};
};

// Runs all phases on the node of a carrier, one after the other.
template <class OnNode>
[[nodiscard]] Task run_phases_on_node(std::size_t number, FirstPhase first, FinishedPhases& finished,
                                      const OnNode& on_node) {
  for (std::size_t k = 0; k < number; ++k) {
    if (first == FirstPhase::between) co_await finished.wait_for_between(k);
    co_await on_node(k);
    if (first == FirstPhase::node) co_await finished.end_node();
  }
}

// Runs the inter-node phase of every segments_in_flight-th segment, beginning with `first_segment`.
// `finished` is null if the node has no phases of its own.
template <class Between>
[[nodiscard]] Task run_inter_node_phases(Endpoint lane, const Nodes& nodes, std::size_t first_segment,
                                         std::size_t segment_count, FirstPhase first,
                                         FinishedPhases* finished, const Between& between) {
  const Endpoint carriers = nodes.between(lane);
  for (std::size_t k = first_segment; k < segment_count; k += segments_in_flight) {
    if (first == FirstPhase::node && finished != nullptr) co_await finished->wait_for_node(k);
    co_await between(carriers, k);
    if (first == FirstPhase::between && finished != nullptr) co_await finished->end_between(k);
  }
}

[[nodiscard]] inline Task do_nothing() { co_return; }

// Runs both phases of each segment: between(carriers, segment) -> Task on the ranks that carry, and
// on_node(segment) -> Task on all ranks of a node that has several.
template <class Between, class OnNode>
[[nodiscard]] Task run_in_segments(Endpoint net, const Nodes& nodes, std::size_t number, FirstPhase first,
                                   const Between& between, const OnNode& on_node) {
  if (!nodes.is_carrier) {
    for (std::size_t k = 0; k < number; ++k) co_await on_node(k);
    co_return;
  }
  if (number == 1) {
    const Endpoint carriers = nodes.between(net);
    if (first == FirstPhase::node && !nodes.is_alone) co_await on_node(0);
    co_await between(carriers, 0);
    if (first == FirstPhase::between && !nodes.is_alone) co_await on_node(0);
    co_return;
  }
  FinishedPhases finished(net.board());
  const auto make = [&](const Endpoint& lane, int k) {
    if (k > 0) {
      return run_inter_node_phases(lane, nodes, static_cast<std::size_t>(k - 1), number, first,
                                   nodes.is_alone ? nullptr : &finished, between);
    }
    return nodes.is_alone ? do_nothing() : run_phases_on_node(number, first, finished, on_node);
  };
  co_await net.concurrently(1 + segments_in_flight, make);
}

}  // namespace offbeat::hierarchies
