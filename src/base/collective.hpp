// SPDX-License-Identifier: BSD-3-Clause
// The one list of collectives. Everything that exists once per collective is made from it: expressions,
// settings, counters, the functions of the preload and of the tracer, trace files, the benchmark, the Python
// tool.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace offbeat {

// Trace files contain these numbers, so they must not change (docs/reference/trace-format.md).
enum class Collective : std::uint8_t {
  allreduce = 1,
  barrier,
  bcast,
  reduce,
  allgather,
  allgatherv,
  alltoall,
  alltoallv,
  alltoallw,
  gather,
  gatherv,
  scatter,
  scatterv,
  reduce_scatter,
  reduce_scatter_block,
  scan,
  exscan,
  neighbor_allgather,
  neighbor_allgatherv,
  neighbor_alltoall,
  neighbor_alltoallv,
  neighbor_alltoallw,
};

struct CollectiveFacts {
  std::string_view name;         // in expressions, options and reports
  std::string_view function;     // the name in MPI, without "MPI_"
  std::string_view description;  // what one call moves, for people
  bool has_root = false;
  bool has_operation = false;
  bool is_served = false;  // the preload runs it; its functions are generated
};

// The collectives in the order of their numbers. cmake/entry_points.py parses these lines, too.
inline constexpr std::array collectives{
    CollectiveFacts{"allreduce", "Allreduce", "one vector, combined, to every rank", false, true, true},
    CollectiveFacts{"barrier", "Barrier", "nothing", false, false, true},
    CollectiveFacts{"bcast", "Bcast", "the root's vector to every rank", true, false, true},
    CollectiveFacts{"reduce", "Reduce", "one vector, combined, to the root", true, true, true},
    CollectiveFacts{"allgather", "Allgather", "a block of each rank to every rank", false, false, true},
    CollectiveFacts{"allgatherv", "Allgatherv", "a block of each rank, of any length, to every rank", false,
                    false, true},
    CollectiveFacts{"alltoall", "Alltoall", "a block of each rank for each rank", false, false, true},
    CollectiveFacts{"alltoallv", "Alltoallv", "a block of each rank for each rank, of any length", false,
                    false, true},
    CollectiveFacts{"alltoallw", "Alltoallw", "a block of each rank for each rank, of any length and type"},
    CollectiveFacts{"gather", "Gather", "a block of each rank to the root", true, false, true},
    CollectiveFacts{"gatherv", "Gatherv", "a block of each rank, of any length, to the root", true, false,
                    true},
    CollectiveFacts{"scatter", "Scatter", "a block of the root's vector to each rank", true, false, true},
    CollectiveFacts{"scatterv", "Scatterv", "a block of the root's vector, of any length, to each rank", true,
                    false, true},
    CollectiveFacts{"reduce_scatter", "Reduce_scatter",
                    "a block of one combined vector, of any length, to each rank", false, true, true},
    CollectiveFacts{"reduce_scatter_block", "Reduce_scatter_block",
                    "a block of one combined vector to each rank", false, true, true},
    CollectiveFacts{"scan", "Scan", "one vector, combined up to each rank", false, true, true},
    CollectiveFacts{"exscan", "Exscan", "one vector, combined up to the rank before", false, true, true},
    CollectiveFacts{"neighbor_allgather", "Neighbor_allgather", "a block to each neighbour"},
    CollectiveFacts{"neighbor_allgatherv", "Neighbor_allgatherv", "a block of any length to each neighbour"},
    CollectiveFacts{"neighbor_alltoall", "Neighbor_alltoall", "a block for each neighbour"},
    CollectiveFacts{"neighbor_alltoallv", "Neighbor_alltoallv", "a block of any length for each neighbour"},
    CollectiveFacts{"neighbor_alltoallw", "Neighbor_alltoallw",
                    "a block of any length and type for each neighbour"},
};
static_assert(collectives.size() == static_cast<std::size_t>(Collective::neighbor_alltoallw));

// Returns the position of a collective in this list, and in every array with one element per collective.
[[nodiscard]] constexpr std::size_t index_of(Collective collective) {
  return static_cast<std::size_t>(collective) - 1;
}
[[nodiscard]] constexpr Collective collective_at(std::size_t index) {
  return static_cast<Collective>(index + 1);
}

[[nodiscard]] constexpr const CollectiveFacts& facts_of(Collective collective) {
  return collectives[index_of(collective)];
}
[[nodiscard]] constexpr std::string_view name_of(Collective collective) { return facts_of(collective).name; }

[[nodiscard]] constexpr std::optional<Collective> collective_named(std::string_view name) {
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    if (collectives[k].name == name) return collective_at(k);
  }
  return std::nullopt;
}
static_assert(collective_named("neighbor_alltoallw") == Collective::neighbor_alltoallw);

// A set of collectives, stored as bits.
class Collectives {
 public:
  constexpr Collectives() = default;
  constexpr Collectives(std::initializer_list<Collective> some) {
    for (const Collective each : some) add(each);
  }
  constexpr void add(Collective collective) { bits_ |= bit(collective); }
  [[nodiscard]] constexpr Collectives with(Collective collective) const {
    Collectives more = *this;
    more.add(collective);
    return more;
  }
  [[nodiscard]] constexpr int count() const { return std::popcount(bits_); }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  [[nodiscard]] constexpr bool contain(Collective collective) const { return (bits_ & bit(collective)) != 0; }

 private:
  [[nodiscard]] static constexpr std::uint32_t bit(Collective collective) {
    return std::uint32_t{1} << static_cast<unsigned>(collective);
  }
  std::uint32_t bits_ = 0;
};

// The collectives in which no rank can finish before every rank has begun.
inline constexpr Collectives synchronising_collectives{Collective::allreduce, Collective::barrier,
                                                       Collective::allgather, Collective::alltoall,
                                                       Collective::reduce_scatter_block};

// Returns true if a call has data to move.
[[nodiscard]] constexpr bool moves_data(Collective collective) { return collective != Collective::barrier; }

// The collectives in which only the root has the lengths of all blocks. Any other rank knows its own.
inline constexpr Collectives collectives_with_lists_at_root{Collective::gatherv, Collective::scatterv};

// Returns true if there is no length that all ranks of a call know (Call::length).
[[nodiscard]] constexpr bool has_unknown_length(Collective collective) {
  return collective == Collective::alltoallv || collectives_with_lists_at_root.contain(collective);
}

// Returns true if a call of length 0 (Call::length) has nothing to do. In a barrier there is never data.
[[nodiscard]] constexpr bool skips_empty_calls(Collective collective) {
  return moves_data(collective) && !has_unknown_length(collective);
}

// Which ranks have input, which ranks get output, and whether each rank gets a block of its own.
struct Roles {
  bool root_gives = false;  // only the root has input
  bool root_takes = false;
  bool is_personalised = false;
  bool rank_0_takes = true;  // rank 0

  [[nodiscard]] constexpr bool gives(int rank, int root) const { return !root_gives || rank == root; }
  [[nodiscard]] constexpr bool takes(int rank, int root) const {
    return (!root_takes || rank == root) && (rank_0_takes || rank > 0);
  }
};
[[nodiscard]] constexpr Roles roles_of(Collective collective) {
  switch (collective) {
    case Collective::bcast:
      return {.root_gives = true};
    case Collective::scatter:
    case Collective::scatterv:
      return {.root_gives = true, .is_personalised = true};
    case Collective::gather:
    case Collective::gatherv:
    case Collective::reduce:
      return {.root_takes = true};
    case Collective::alltoall:
    case Collective::alltoallv:
    case Collective::reduce_scatter:
    case Collective::reduce_scatter_block:
      return {.is_personalised = true};
    case Collective::exscan:
      return {.rank_0_takes = false};
    default:
      return {};
  }
}

// The collectives that offbeat can run: they have algorithms (collectives/repertoire.hpp), a setting, and a
// place in the benchmark. The host MPI runs all others.
inline constexpr Collectives served_collectives = [] {
  Collectives found;
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    if (collectives[k].is_served) found.add(collective_at(k));
  }
  return found;
}();

}  // namespace offbeat
