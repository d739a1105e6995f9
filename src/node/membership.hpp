// SPDX-License-Identifier: BSD-3-Clause
// Membership knows which ranks of a communicator share which node.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "node/node_identity.hpp"
#include "transport/endpoint.hpp"

namespace offbeat {

// The nodes of a communicator, in the order of their lowest ranks. The members of a node are in rank order.
// Any mapping of ranks to nodes is allowed, and nodes may differ in size. Simulated ranks share one
// Membership.
class Membership {
 public:
  // Allocates all memory in advance. Call group() or group_by() before anything else.
  explicit Membership(int ranks)
      : node_of_rank_(static_cast<std::size_t>(ranks)), by_node_(node_of_rank_.size()) {
    node_starts_.reserve(node_of_rank_.size() + 1);
  }

  // Puts ranks with equal keys on one node. key_of(rank) must be comparable.
  template <class KeyOf>
  void group_by(KeyOf&& key_of) {
    std::iota(by_node_.begin(), by_node_.end(), 0);
    std::ranges::sort(by_node_, [&](int one, int other) {
      return key_of(one) != key_of(other) ? key_of(one) < key_of(other) : one < other;
    });
    int lowest = 0;
    for (std::size_t k = 0; k < by_node_.size(); ++k) {
      if (k == 0 || key_of(by_node_[k]) != key_of(by_node_[k - 1])) lowest = by_node_[k];
      node_of(by_node_[k]) = lowest;
    }
    number_nodes();
    sort_members();
    is_in_rank_order_ = std::ranges::is_sorted(by_node_);
    smallest_node_size_ = ranks();
    for (int node = 0; node < nodes(); ++node)
      smallest_node_size_ = std::min(smallest_node_size_, size(node));
  }
  // Groups the ranks by the identities that they reported.
  void group(std::span<const NodeIdentity> identities) {
    // If any rank could not read /proc, all ranks are grouped by host name.
    const bool kernels_are_known =
        std::ranges::none_of(identities, [](const NodeIdentity& each) { return each.kernel == 0; });
    group_by([&](int rank) {
      const NodeIdentity& each = identities[static_cast<std::size_t>(rank)];
      return kernels_are_known ? each.kernel : each.host_name;
    });
  }

  [[nodiscard]] int ranks() const { return static_cast<int>(node_of_rank_.size()); }
  [[nodiscard]] int nodes() const { return static_cast<int>(node_starts_.size()) - 1; }
  [[nodiscard]] std::span<const int> members(int node) const {
    const auto index = static_cast<std::size_t>(node);
    return std::span(by_node_).subspan(
        static_cast<std::size_t>(node_starts_[index]),
        static_cast<std::size_t>(node_starts_[index + 1] - node_starts_[index]));
  }
  [[nodiscard]] int size(int node) const { return static_cast<int>(members(node).size()); }
  // Returns the number of ranks of the smallest node.
  [[nodiscard]] int smallest_node_size() const { return smallest_node_size_; }
  // Returns true if all nodes have the same number of ranks.
  [[nodiscard]] bool has_equal_nodes() const { return smallest_node_size_ * nodes() == ranks(); }
  [[nodiscard]] int node_of(int rank) const { return node_of_rank_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int member_of(int rank) const {
    const auto all = members(node_of(rank));
    return static_cast<int>(std::ranges::lower_bound(all, rank) - all.begin());
  }
  [[nodiscard]] int rank(int node, int member) const {
    return members(node)[static_cast<std::size_t>(member)];
  }
  // Returns all ranks: those of node 0, then those of node 1, and so on.
  [[nodiscard]] std::span<const int> by_node() const { return by_node_; }
  // Returns where the ranks of a node begin in by_node().
  [[nodiscard]] int begin_of(int node) const { return node_starts_[static_cast<std::size_t>(node)]; }
  // Returns true if by_node() is in rank order, so that each node is a range of ranks.
  [[nodiscard]] bool is_in_rank_order() const { return is_in_rank_order_; }
  // Returns a map from node k to the rank of its member `member`. Every node must have that member.
  [[nodiscard]] RankMap across_nodes(int member) const {
    return {.first = member, .list = by_node_.data(), .list_starts = node_starts_.data()};
  }
  // Returns the map from node k to the rank of its last member.
  [[nodiscard]] RankMap last_of_nodes() const {
    return {.first = -1, .list = by_node_.data(), .list_starts = node_starts_.data() + 1};
  }

 private:
  [[nodiscard]] int& node_of(int rank) { return node_of_rank_[static_cast<std::size_t>(rank)]; }

  // Replaces each node's lowest rank by the number of the node, in node_of_rank_.
  void number_nodes() {
    int count = 0;
    std::vector<int>& number_of_lowest = by_node_;  // scratch: sort_members fills it again
    for (int rank = 0; rank < ranks(); ++rank) {
      if (node_of(rank) == rank) number_of_lowest[static_cast<std::size_t>(rank)] = count++;
    }
    for (int& node : node_of_rank_) node = number_of_lowest[static_cast<std::size_t>(node)];
    node_starts_.assign(static_cast<std::size_t>(count) + 1, 0);
  }

  // Fills by_node_ with a counting sort, which keeps the order of the ranks.
  void sort_members() {
    for (const int node : node_of_rank_) ++node_starts_[static_cast<std::size_t>(node)];
    std::inclusive_scan(node_starts_.begin(), node_starts_.end(), node_starts_.begin());
    for (int rank = ranks() - 1; rank >= 0; --rank)
      by_node_[static_cast<std::size_t>(--node_starts_[static_cast<std::size_t>(node_of(rank))])] = rank;
  }

  std::vector<int> node_of_rank_;
  std::vector<int> by_node_;      // the ranks of node 0, then those of node 1, ...
  std::vector<int> node_starts_;  // where each node begins in by_node_, and the end of the last one
  bool is_in_rank_order_ = true;
  int smallest_node_size_ = 0;
};

// The place of one rank: its node, and its member number there.
struct Locality {
  const Membership& membership;
  int node;
  int member;

  Locality(const Membership& membership, int rank)
      : membership(membership), node(membership.node_of(rank)), member(membership.member_of(rank)) {}
  [[nodiscard]] std::span<const int> ranks_of_own_node() const { return membership.members(node); }
};

// The functions below take an endpoint of the whole communicator.

[[nodiscard]] inline int node_count(const Endpoint& net) {
  return net.locality() == nullptr ? 1 : net.locality()->membership.nodes();
}

// Returns an endpoint for the ranks of this node.
[[nodiscard]] inline Endpoint on_node(const Endpoint& net) {
  if (node_count(net) == 1) return net;
  const Locality& mine = *net.locality();
  return net.part({.list = mine.ranks_of_own_node().data()}, mine.member, mine.membership.size(mine.node));
}

// Returns an endpoint for the ranks with this rank's member number, one on each node. Every node must have
// that member.
[[nodiscard]] inline Endpoint across_nodes(const Endpoint& net) {
  const Locality& mine = *net.locality();
  return net.part(mine.membership.across_nodes(mine.member), mine.node, mine.membership.nodes());
}

// Returns an endpoint for the last rank of each node. This rank must be one of them.
[[nodiscard]] inline Endpoint last_of_nodes(const Endpoint& net) {
  const Locality& mine = *net.locality();
  return net.part(mine.membership.last_of_nodes(), mine.node, mine.membership.nodes());
}

// Returns an endpoint for one rank of each node: the lowest one, but `root` on the node of `root` if there is
// a root. This rank must be one of them.
[[nodiscard]] inline Endpoint node_leaders(const Endpoint& net, int root = -1) {
  if (node_count(net) == 1) return net.part({}, 0, 1);
  const Locality& mine = *net.locality();
  RankMap leaders = mine.membership.across_nodes(0);
  if (root >= 0) {
    leaders.replaced_member = mine.membership.node_of(root);
    leaders.replacement_rank = root;
  }
  return net.part(leaders, mine.node, mine.membership.nodes());
}

}  // namespace offbeat
