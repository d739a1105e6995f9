// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/bench/collectives.hpp"

#include <array>
#include <stdexcept>
#include <string>

namespace offbeat::bench {
namespace {

// Returns `count` as an int. It fits, because read_cells() has refused larger counts.
int length(std::size_t count) { return static_cast<int>(count); }

// Makes the blocking call, or begins the non-blocking one. Both take the same arguments except the request.
template <class Blocking, class Begin, class... Parameters>
void call(MPI_Request* request, Blocking* blocking, Begin* begin, Parameters... parameters) {
  if (request == nullptr) {
    blocking(parameters...);
  } else {
    begin(parameters..., request);
  }
}

CallShape barrier_shape(const Position&) { return {}; }

void barrier(const CallShape&, const Arguments&, MPI_Request* request) {
  call(request, MPI_Barrier, MPI_Ibarrier, MPI_COMM_WORLD);
}

CallShape bcast_shape(const Position& at) {
  if (at.is_root()) return {.send_count = at.count, .longest = at.count};
  return {.receive_count = at.count, .longest = at.count, .result = {{at.root, 0, at.count}}};
}

void bcast(const CallShape& shape, const Arguments& a, MPI_Request* request) {
  // The const_cast is safe because the root only reads its buffer.
  void* buffer = shape.send_count > 0 ? const_cast<void*>(a.send) : a.receive;
  call(request, MPI_Bcast, MPI_Ibcast, buffer, a.count, a.type, a.root, MPI_COMM_WORLD);
}

CallShape combined_shape(std::size_t count, int combined_ranks = std::numeric_limits<int>::max()) {
  CallShape shape{.send_count = count,
                  .receive_count = count,
                  .longest = count,
                  .combined_ranks = combined_ranks,
                  .input_in_output = 0};
  if (combined_ranks > 0) shape.result = {{ResultPiece::combined, 0, count}};
  return shape;
}

CallShape reduce_shape(const Position& at) {
  if (at.is_root()) return combined_shape(at.count);
  return {.send_count = at.count, .longest = at.count};
}

void reduce(const CallShape&, const Arguments& a, MPI_Request* request) {
  call(request, MPI_Reduce, MPI_Ireduce, a.send, a.receive, a.count, a.type, a.op, a.root, MPI_COMM_WORLD);
}

CallShape allreduce_shape(const Position& at) { return combined_shape(at.count); }

void allreduce(const CallShape&, const Arguments& a, MPI_Request* request) {
  call(request, MPI_Allreduce, MPI_Iallreduce, a.send, a.receive, a.count, a.type, a.op, MPI_COMM_WORLD);
}

std::size_t count_of_all_ranks(const Position& at) { return at.count * static_cast<std::size_t>(at.ranks); }
std::size_t count_of_ranks_before(const Position& at) { return at.count * static_cast<std::size_t>(at.rank); }

// Returns `count` elements, from `begin` on, of each rank's input, in rank order.
std::vector<ResultPiece> pieces_of_all_ranks(std::size_t begin, const Position& at) {
  std::vector<ResultPiece> pieces;
  for (int rank = 0; rank < at.ranks; ++rank) pieces.push_back({rank, begin, at.count});
  return pieces;
}

CallShape allgather_shape(const Position& at) {
  return {.send_count = at.count,
          .receive_count = count_of_all_ranks(at),
          .longest = count_of_all_ranks(at),
          .result = pieces_of_all_ranks(0, at),
          .input_in_output = count_of_ranks_before(at)};
}

void allgather(const CallShape&, const Arguments& a, MPI_Request* request) {
  call(request, MPI_Allgather, MPI_Iallgather, a.send, a.count, a.type, a.receive, a.count, a.type,
       MPI_COMM_WORLD);
}

// Adds lists for blocks of `count` elements that follow one another, for calls that take lists.
CallShape with_block_lists(CallShape shape, const Position& at) {
  for (int rank = 0; rank < at.ranks; ++rank) {
    shape.counts.push_back(length(at.count));
    shape.begins.push_back(length(at.count * static_cast<std::size_t>(rank)));
  }
  return shape;
}

CallShape allgatherv_shape(const Position& at) { return with_block_lists(allgather_shape(at), at); }

void allgatherv(const CallShape& shape, const Arguments& a, MPI_Request* request) {
  call(request, MPI_Allgatherv, MPI_Iallgatherv, a.send, a.count, a.type, a.receive, shape.counts.data(),
       shape.begins.data(), a.type, MPI_COMM_WORLD);
}

CallShape gather_shape(const Position& at) {
  if (at.is_root()) return allgather_shape(at);
  return {.send_count = at.count, .longest = count_of_all_ranks(at)};
}

void gather(const CallShape&, const Arguments& a, MPI_Request* request) {
  call(request, MPI_Gather, MPI_Igather, a.send, a.count, a.type, a.receive, a.count, a.type, a.root,
       MPI_COMM_WORLD);
}

CallShape gatherv_shape(const Position& at) { return with_block_lists(gather_shape(at), at); }

void gatherv(const CallShape& shape, const Arguments& a, MPI_Request* request) {
  call(request, MPI_Gatherv, MPI_Igatherv, a.send, a.count, a.type, a.receive, shape.counts.data(),
       shape.begins.data(), a.type, a.root, MPI_COMM_WORLD);
}

CallShape scatter_shape(const Position& at) {
  return {.send_count = at.is_root() ? count_of_all_ranks(at) : 0,
          .receive_count = at.count,
          .longest = count_of_all_ranks(at),
          .result = {{at.root, count_of_ranks_before(at), at.count}},
          .keeps_own_part = at.is_root()};
}

void scatter(const CallShape&, const Arguments& a, MPI_Request* request) {
  call(request, MPI_Scatter, MPI_Iscatter, a.send, a.count, a.type, a.receive, a.count, a.type, a.root,
       MPI_COMM_WORLD);
}

CallShape scatterv_shape(const Position& at) { return with_block_lists(scatter_shape(at), at); }

void scatterv(const CallShape& shape, const Arguments& a, MPI_Request* request) {
  call(request, MPI_Scatterv, MPI_Iscatterv, a.send, shape.counts.data(), shape.begins.data(), a.type,
       a.receive, a.count, a.type, a.root, MPI_COMM_WORLD);
}

CallShape alltoall_shape(const Position& at) {
  return {.send_count = count_of_all_ranks(at),
          .receive_count = count_of_all_ranks(at),
          .longest = count_of_all_ranks(at),
          .result = pieces_of_all_ranks(count_of_ranks_before(at), at),
          .input_in_output = 0};
}

void alltoall(const CallShape&, const Arguments& a, MPI_Request* request) {
  call(request, MPI_Alltoall, MPI_Ialltoall, a.send, a.count, a.type, a.receive, a.count, a.type,
       MPI_COMM_WORLD);
}

CallShape alltoallv_shape(const Position& at) { return with_block_lists(alltoall_shape(at), at); }

void alltoallv(const CallShape& shape, const Arguments& a, MPI_Request* request) {
  call(request, MPI_Alltoallv, MPI_Ialltoallv, a.send, shape.counts.data(), shape.begins.data(), a.type,
       a.receive, shape.counts.data(), shape.begins.data(), a.type, MPI_COMM_WORLD);
}

CallShape reduce_scatter_shape(const Position& at) {
  CallShape shape{.send_count = at.count, .longest = at.count, .input_in_output = 0};
  const auto ranks = static_cast<std::size_t>(at.ranks);
  std::size_t begin = 0;
  for (int r = 0; r < at.ranks; ++r) {
    const std::size_t part = at.count / ranks + (static_cast<std::size_t>(r) < at.count % ranks ? 1 : 0);
    shape.counts.push_back(length(part));
    if (r == at.rank) {
      shape.receive_count = part;
      shape.result = {{ResultPiece::combined, begin, part}};
    }
    begin += part;
  }
  return shape;
}

void reduce_scatter(const CallShape& shape, const Arguments& a, MPI_Request* request) {
  call(request, MPI_Reduce_scatter, MPI_Ireduce_scatter, a.send, a.receive, shape.counts.data(), a.type, a.op,
       MPI_COMM_WORLD);
}

// The vector has `count` elements for each rank, so that every length can be cut evenly.
CallShape reduce_scatter_block_shape(const Position& at) {
  return reduce_scatter_shape({count_of_all_ranks(at), at.rank, at.ranks, at.root});
}

void reduce_scatter_block(const CallShape&, const Arguments& a, MPI_Request* request) {
  call(request, MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, a.send, a.receive, a.count, a.type, a.op,
       MPI_COMM_WORLD);
}

CallShape scan_shape(const Position& at) { return combined_shape(at.count, at.rank + 1); }

void scan(const CallShape&, const Arguments& a, MPI_Request* request) {
  call(request, MPI_Scan, MPI_Iscan, a.send, a.receive, a.count, a.type, a.op, MPI_COMM_WORLD);
}

CallShape exscan_shape(const Position& at) { return combined_shape(at.count, at.rank); }

void exscan(const CallShape&, const Arguments& a, MPI_Request* request) {
  call(request, MPI_Exscan, MPI_Iexscan, a.send, a.receive, a.count, a.type, a.op, MPI_COMM_WORLD);
}

constexpr std::array runners = {
    Runner{Collective::allreduce, allreduce_shape, allreduce},
    Runner{Collective::barrier, barrier_shape, barrier},
    Runner{Collective::bcast, bcast_shape, bcast},
    Runner{Collective::reduce, reduce_shape, reduce},
    Runner{Collective::allgather, allgather_shape, allgather},
    Runner{Collective::allgatherv, allgatherv_shape, allgatherv},
    Runner{Collective::alltoall, alltoall_shape, alltoall},
    Runner{Collective::alltoallv, alltoallv_shape, alltoallv},
    Runner{Collective::gather, gather_shape, gather},
    Runner{Collective::gatherv, gatherv_shape, gatherv},
    Runner{Collective::scatter, scatter_shape, scatter},
    Runner{Collective::scatterv, scatterv_shape, scatterv},
    Runner{Collective::reduce_scatter, reduce_scatter_shape, reduce_scatter},
    Runner{Collective::reduce_scatter_block, reduce_scatter_block_shape, reduce_scatter_block},
    Runner{Collective::scan, scan_shape, scan},
    Runner{Collective::exscan, exscan_shape, exscan},
};

constexpr const Runner* find_runner(Collective collective) {
  for (const Runner& runner : runners) {
    if (runner.collective == collective) return &runner;
  }
  return nullptr;
}

constexpr bool has_every_served_collective() {
  for (std::size_t k = 0; k < offbeat::collectives.size(); ++k) {
    const Collective collective = collective_at(k);
    if (served_collectives.contain(collective) != (find_runner(collective) != nullptr)) return false;
  }
  return true;
}
static_assert(has_every_served_collective());

}  // namespace

const Runner& runner_of(std::string_view collective) {
  const auto known = collective_named(collective);
  const Runner* runner = known ? find_runner(*known) : nullptr;
  if (runner == nullptr) throw std::runtime_error("no runner for " + std::string(collective));
  return *runner;
}

bool has_in_place_form(Collective collective) {
  return collective != Collective::barrier && collective != Collective::bcast;
}

}  // namespace offbeat::bench
