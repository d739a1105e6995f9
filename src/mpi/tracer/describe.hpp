// SPDX-License-Identifier: BSD-3-Clause
// From the arguments of a call to its record. One description serves every spelling of a collective:
// blocking, non-blocking and persistent, whose further arguments come last, with counts of int and of
// MPI_Count.
//
// Bytes are what this rank contributes; see docs/trace-format.md. Arguments that do not count on this rank
// (the root's on others, those on the idle side of an inter-communicator) may hold anything and are not
// looked at.
#pragma once

#include "mpi/tracer/tracer.hpp"

namespace offbeat::trace {

template <Collective collective>
struct Of {};

class Describer {
 public:
  Describer(Tracer& tracer, MPI_Comm handle, Communicator& communicator)
      : tracer_(tracer), handle_(handle), communicator_(communicator) {}

  Facts operator()(Of<Collective::barrier>, auto...) { return {}; }

  Facts operator()(Of<Collective::allreduce>, const void* send, void*, auto count, MPI_Datatype type,
                   MPI_Op op, auto...) {
    return reduction(send, count, type, op);
  }
  Facts operator()(Of<Collective::scan>, const void* send, void*, auto count, MPI_Datatype type, MPI_Op op,
                   auto...) {
    return reduction(send, count, type, op);
  }
  Facts operator()(Of<Collective::exscan>, const void* send, void*, auto count, MPI_Datatype type, MPI_Op op,
                   auto...) {
    return reduction(send, count, type, op);
  }
  Facts operator()(Of<Collective::reduce>, const void* send, void*, auto count, MPI_Datatype type, MPI_Op op,
                   int root, auto...) {
    return rooted(root, is_idle(root) ? Facts{} : reduction(send, count, type, op));
  }
  Facts operator()(Of<Collective::reduce_scatter_block>, const void* send, void*, auto count,
                   MPI_Datatype type, MPI_Op op, auto...) {
    Facts facts = reduction(send, count, type, op);
    facts.bytes *= communicator_.ranks;
    return facts;
  }
  Facts operator()(Of<Collective::reduce_scatter>, const void* send, void*, const auto* counts,
                   MPI_Datatype type, MPI_Op op, auto...) {
    return reduction(send, sum(counts, communicator_.ranks), type, op);
  }

  Facts operator()(Of<Collective::bcast>, void*, auto count, MPI_Datatype type, int root, auto...) {
    return rooted(root, is_idle(root) ? Facts{} : vector(count, type));
  }

  Facts operator()(Of<Collective::allgather>, const void* send, auto count, MPI_Datatype type, void*,
                   auto own_count, MPI_Datatype own_type, auto...) {
    return contribution(send, count, type, own_count, own_type);
  }
  Facts operator()(Of<Collective::allgatherv>, const void* send, auto count, MPI_Datatype type, void*,
                   const auto* own_counts, const auto*, MPI_Datatype own_type, auto...) {
    return send == MPI_IN_PLACE ? in_place(own_counts[communicator_.rank], own_type) : vector(count, type);
  }
  Facts operator()(Of<Collective::gather>, const void* send, auto count, MPI_Datatype type, void*,
                   auto own_count, MPI_Datatype own_type, int root, auto...) {
    if (receives_only(root)) return rooted(root, {});
    return rooted(root, contribution(send, count, type, own_count, own_type));
  }
  Facts operator()(Of<Collective::gatherv>, const void* send, auto count, MPI_Datatype type, void*,
                   const auto* own_counts, const auto*, MPI_Datatype own_type, int root, auto...) {
    if (receives_only(root)) return rooted(root, {});
    if (send == MPI_IN_PLACE) return rooted(root, in_place(own_counts[communicator_.rank], own_type));
    return rooted(root, vector(count, type));
  }

  // The bytes that a rank gets: on others than the root there is nothing else.
  Facts operator()(Of<Collective::scatter>, const void*, auto root_count, MPI_Datatype root_type,
                   void* receive, auto count, MPI_Datatype type, int root, auto...) {
    if (receives_only(root)) return rooted(root, {});
    if (receive == MPI_IN_PLACE) return rooted(root, in_place(root_count, root_type));
    return rooted(root, vector(count, type));
  }
  Facts operator()(Of<Collective::scatterv>, const void*, const auto* root_counts, const auto*,
                   MPI_Datatype root_type, void* receive, auto count, MPI_Datatype type, int root, auto...) {
    if (receives_only(root)) return rooted(root, {});
    if (receive == MPI_IN_PLACE) return rooted(root, in_place(root_counts[communicator_.rank], root_type));
    return rooted(root, vector(count, type));
  }

  Facts operator()(Of<Collective::alltoall>, const void* send, auto count, MPI_Datatype type, void*,
                   auto own_count, MPI_Datatype own_type, auto...) {
    Facts facts = contribution(send, count, type, own_count, own_type);
    facts.bytes *= communicator_.peers;
    return facts;
  }
  Facts operator()(Of<Collective::alltoallv>, const void* send, const auto* counts, const auto*,
                   MPI_Datatype type, void*, const auto* own_counts, const auto*, MPI_Datatype own_type,
                   auto...) {
    if (send == MPI_IN_PLACE) return in_place(sum(own_counts, communicator_.peers), own_type);
    return vector(sum(counts, communicator_.peers), type);
  }
  Facts operator()(Of<Collective::alltoallw>, const void* send, const auto* counts, const auto*,
                   const MPI_Datatype* types, void*, const auto* own_counts, const auto*,
                   const MPI_Datatype* own_types, auto...) {
    if (send != MPI_IN_PLACE) return vectors(counts, types, communicator_.peers);
    Facts facts = vectors(own_counts, own_types, communicator_.peers);
    facts.is_in_place = true;
    return facts;
  }

  Facts operator()(Of<Collective::neighbor_allgather>, const void*, auto count, MPI_Datatype type, auto...) {
    return vector(count, type);
  }
  Facts operator()(Of<Collective::neighbor_allgatherv>, const void*, auto count, MPI_Datatype type, auto...) {
    return vector(count, type);
  }
  Facts operator()(Of<Collective::neighbor_alltoall>, const void*, auto count, MPI_Datatype type, auto...) {
    Facts facts = vector(count, type);
    facts.bytes *= neighbours();
    return facts;
  }
  Facts operator()(Of<Collective::neighbor_alltoallv>, const void*, const auto* counts, const auto*,
                   MPI_Datatype type, auto...) {
    return vector(sum(counts, neighbours()), type);
  }
  Facts operator()(Of<Collective::neighbor_alltoallw>, const void*, const auto* counts, const auto*,
                   const MPI_Datatype* types, auto...) {
    return vectors(counts, types, neighbours());
  }

 private:
  int neighbours() { return tracer_.neighbours(handle_, communicator_); }

  // On the root's side of an inter-communicator the others do nothing, and the root of a gather sends
  // nothing.
  [[nodiscard]] bool is_idle(int root) const { return root == MPI_PROC_NULL; }
  [[nodiscard]] bool receives_only(int root) const { return is_idle(root) || root == MPI_ROOT; }

  static std::int64_t sum(const auto* counts, int how_many) {
    std::int64_t total = 0;
    for (int i = 0; i < how_many; ++i) total += counts[i];
    return total;
  }

  // The constants for the root's side of an inter-communicator differ between MPIs.
  static Facts rooted(int root, Facts facts) {
    facts.root = root == MPI_ROOT ? this_is_root : root == MPI_PROC_NULL ? beside_root : root;
    return facts;
  }

  Facts vector(auto count, MPI_Datatype handle) {
    const KnownType type = tracer_.type(handle);
    const auto elements = static_cast<std::int64_t>(count);
    return {.count = elements, .bytes = elements * type.size, .type = type.number};
  }
  Facts in_place(auto count, MPI_Datatype type) {
    Facts facts = vector(count, type);
    facts.is_in_place = true;
    return facts;
  }
  Facts contribution(const void* send, auto count, MPI_Datatype type, auto own_count, MPI_Datatype own_type) {
    return send == MPI_IN_PLACE ? in_place(own_count, own_type) : vector(count, type);
  }
  Facts reduction(const void* send, auto count, MPI_Datatype type, MPI_Op op) {
    Facts facts = vector(count, type);
    facts.operation = tracer_.operation(op);
    facts.is_in_place = send == MPI_IN_PLACE;
    return facts;
  }
  Facts vectors(const auto* counts, const MPI_Datatype* types, int how_many) {
    Facts facts{.count = sum(counts, how_many)};
    for (int i = 0; i < how_many; ++i) {
      if (counts[i] > 0) facts.bytes += static_cast<std::int64_t>(counts[i]) * tracer_.type(types[i]).size;
    }
    return facts;
  }

  Tracer& tracer_;
  MPI_Comm handle_;
  Communicator& communicator_;
};

}  // namespace offbeat::trace
