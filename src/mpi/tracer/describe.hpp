// SPDX-License-Identifier: BSD-3-Clause
// Describes a call for its record in the trace.
//
// Bytes count the contribution of this rank; see docs/reference/trace-format.md. Arguments that are not
// significant on this rank may hold anything and are not read. These are the root's arguments on other ranks,
// and all arguments on the idle side of an inter-communicator.
#pragma once

#include "mpi/host/collective_call.hpp"
#include "mpi/tracer/tracer.hpp"

namespace offbeat::trace {

// Returns true if a rank contributes several blocks to this collective.
[[nodiscard]] constexpr bool has_many_blocks(Collective collective) {
  return Collectives{Collective::alltoall,
                     Collective::alltoallv,
                     Collective::alltoallw,
                     Collective::reduce_scatter,
                     Collective::reduce_scatter_block,
                     Collective::neighbor_alltoall,
                     Collective::neighbor_alltoallv,
                     Collective::neighbor_alltoallw}
      .contain(collective);
}

template <Collective collective, class Call>
class Describer {
 public:
  Describer(Tracer& tracer, Communicator& communicator, const Call& call)
      : tracer_(tracer), communicator_(communicator), call_(call) {}

  ArgumentFacts describe() {
    if constexpr (collective == Collective::barrier) {
      return {};
    } else {
      ArgumentFacts facts = contributes() ? contribution() : ArgumentFacts{};
      if constexpr (collective_facts.has_root) facts.root = root();
      return facts;
    }
  }

 private:
  static constexpr CollectiveFacts collective_facts = offbeat::facts_of(collective);
  static constexpr bool is_scatter =
      Collectives{Collective::scatter, Collective::scatterv}.contain(collective);
  static constexpr bool is_gather = Collectives{Collective::gather, Collective::gatherv}.contain(collective);
  static constexpr bool is_of_neighbours = collective >= Collective::neighbor_allgather;
  static constexpr bool may_be_in_place = !is_of_neighbours && collective != Collective::bcast;
  static constexpr bool has_many_blocks = trace::has_many_blocks(collective);

  // Returns true if this rank contributes data. On the root's side of an inter-communicator only the root
  // takes part. It sends nothing in a gather, and gets nothing in a scatter.
  [[nodiscard]] bool contributes() const {
    if constexpr (!collective_facts.has_root) return true;
    if (call_.root == MPI_PROC_NULL) return false;
    return !((is_gather || is_scatter) && call_.root == MPI_ROOT);
  }

  // Returns the root as the trace format stores it, because the constants for the root's side of an
  // inter-communicator differ between MPIs.
  [[nodiscard]] int root() const {
    return call_.root == MPI_ROOT        ? this_is_root
           : call_.root == MPI_PROC_NULL ? in_root_group_but_not_root
                                         : call_.root;
  }

  // For a scatter the trace records the block that a rank receives: only the root has send arguments.
  ArgumentFacts contribution() {
    if constexpr (is_scatter) return contribution(call_.output, call_.input);
    return contribution(call_.input, call_.output);
  }
  // If the call is in place, the other buffer describes the contribution.
  ArgumentFacts contribution(const auto& own, const auto& other) {
    const bool is_in_place = may_be_in_place && own.data == MPI_IN_PLACE;
    ArgumentFacts facts = is_in_place ? facts_of_buffer(other) : facts_of_buffer(own);
    facts.is_in_place = is_in_place;
    if constexpr (collective_facts.has_operation) facts.operation = tracer_.operation(call_.op);
    return facts;
  }

  template <class Memory>
  ArgumentFacts facts_of_buffer(const Elements<Memory>& buffer) {
    ArgumentFacts facts = vector(buffer.count, buffer.type);
    if constexpr (has_many_blocks) facts.bytes *= block_count();
    return facts;
  }
  template <class Memory>
  ArgumentFacts facts_of_buffer(const Blocks<Memory>& buffer) {
    return vector(has_many_blocks ? sum_of_counts(buffer.counts) : buffer.counts[communicator_.rank],
                  buffer.type);
  }
  template <class Memory>
  ArgumentFacts facts_of_buffer(const TypedBlocks<Memory>& buffer) {
    ArgumentFacts facts{.count = sum_of_counts(buffer.counts)};
    for (int i = 0; i < block_count(); ++i) {
      if (buffer.counts[i] > 0) facts.bytes += buffer.counts[i] * tracer_.type(buffer.types[i]).size;
    }
    return facts;
  }
  ArgumentFacts vector(std::int64_t count, MPI_Datatype handle) {
    const KnownType type = tracer_.type(handle);
    return {.count = count, .bytes = count * type.size, .type = type.number};
  }

  [[nodiscard]] std::int64_t sum_of_counts(const Integers& counts) const {
    std::int64_t total = 0;
    for (int i = 0; i < block_count(); ++i) total += counts[i];
    return total;
  }
  [[nodiscard]] int block_count() const {
    if constexpr (is_of_neighbours) return tracer_.neighbours(call_.communicator, communicator_);
    return collective_facts.has_operation ? communicator_.ranks : communicator_.peers;
  }

  Tracer& tracer_;
  Communicator& communicator_;
  const Call& call_;
};

template <Collective collective, class Call>
ArgumentFacts describe(Tracer& tracer, Communicator& communicator, const Call& call) {
  return Describer<collective, Call>(tracer, communicator, call).describe();
}

}  // namespace offbeat::trace
