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
template <class Blocking, class Begin, class... Arguments>
void call(MPI_Request* request, Blocking* blocking, Begin* begin, Arguments... arguments) {
  if (request == nullptr) {
    blocking(arguments...);
  } else {
    begin(arguments..., request);
  }
}

Shape barrier_shape(std::size_t, int, int) { return {}; }

void barrier(const Shape&, std::size_t, const float*, float*, MPI_Request* request) {
  call(request, MPI_Barrier, MPI_Ibarrier, MPI_COMM_WORLD);
}

Shape bcast_shape(std::size_t count, int rank, int) {
  if (rank == 0) return {.send_count = count, .longest = count};
  return {.receive_count = count, .longest = count, .result = {{0, 0, count}}};
}

void bcast(const Shape& shape, std::size_t count, const float* send, float* receive, MPI_Request* request) {
  // The const_cast is safe because the root only reads its buffer.
  float* buffer = shape.send_count > 0 ? const_cast<float*>(send) : receive;
  call(request, MPI_Bcast, MPI_Ibcast, buffer, length(count), MPI_FLOAT, 0, MPI_COMM_WORLD);
}

Shape reduce_shape(std::size_t count, int rank, int) {
  if (rank != 0) return {.send_count = count, .longest = count};
  return {.send_count = count, .receive_count = count, .longest = count, .result = {{Piece::sum, 0, count}}};
}

void reduce(const Shape&, std::size_t count, const float* send, float* receive, MPI_Request* request) {
  call(request, MPI_Reduce, MPI_Ireduce, send, receive, length(count), MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}

Shape allreduce_shape(std::size_t count, int, int) { return reduce_shape(count, 0, 1); }

void allreduce(const Shape&, std::size_t count, const float* send, float* receive, MPI_Request* request) {
  call(request, MPI_Allreduce, MPI_Iallreduce, send, receive, length(count), MPI_FLOAT, MPI_SUM,
       MPI_COMM_WORLD);
}

void allreduce_in_place(std::size_t count, float* data) {
  MPI_Allreduce(MPI_IN_PLACE, data, length(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

// Returns the elements [begin, begin + count) of each rank's input, in rank order.
std::vector<Piece> from_all(std::size_t begin, std::size_t count, int ranks) {
  std::vector<Piece> pieces;
  for (int rank = 0; rank < ranks; ++rank) pieces.push_back({rank, begin, count});
  return pieces;
}

Shape allgather_shape(std::size_t count, int, int ranks) {
  const std::size_t all = count * static_cast<std::size_t>(ranks);
  return {.send_count = count, .receive_count = all, .longest = all, .result = from_all(0, count, ranks)};
}

void allgather(const Shape&, std::size_t count, const float* send, float* receive, MPI_Request* request) {
  call(request, MPI_Allgather, MPI_Iallgather, send, length(count), MPI_FLOAT, receive, length(count),
       MPI_FLOAT, MPI_COMM_WORLD);
}

// Adds lists for blocks of `count` elements that follow one another, for calls that take lists.
Shape with_lists(Shape shape, std::size_t count, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    shape.counts.push_back(length(count));
    shape.begins.push_back(length(count * static_cast<std::size_t>(rank)));
  }
  return shape;
}

Shape allgatherv_shape(std::size_t count, int rank, int ranks) {
  return with_lists(allgather_shape(count, rank, ranks), count, ranks);
}

void allgatherv(const Shape& shape, std::size_t count, const float* send, float* receive,
                MPI_Request* request) {
  call(request, MPI_Allgatherv, MPI_Iallgatherv, send, length(count), MPI_FLOAT, receive, shape.counts.data(),
       shape.begins.data(), MPI_FLOAT, MPI_COMM_WORLD);
}

Shape gather_shape(std::size_t count, int rank, int ranks) {
  Shape shape = allgather_shape(count, rank, ranks);
  if (rank == 0) return shape;
  return {.send_count = count, .longest = shape.longest};
}

void gather(const Shape&, std::size_t count, const float* send, float* receive, MPI_Request* request) {
  call(request, MPI_Gather, MPI_Igather, send, length(count), MPI_FLOAT, receive, length(count), MPI_FLOAT, 0,
       MPI_COMM_WORLD);
}

Shape scatter_shape(std::size_t count, int rank, int ranks) {
  const std::size_t all = count * static_cast<std::size_t>(ranks);
  return {.send_count = rank == 0 ? all : 0,
          .receive_count = count,
          .longest = all,
          .result = {{0, count * static_cast<std::size_t>(rank), count}}};
}

void scatter(const Shape&, std::size_t count, const float* send, float* receive, MPI_Request* request) {
  call(request, MPI_Scatter, MPI_Iscatter, send, length(count), MPI_FLOAT, receive, length(count), MPI_FLOAT,
       0, MPI_COMM_WORLD);
}

Shape alltoall_shape(std::size_t count, int rank, int ranks) {
  const std::size_t all = count * static_cast<std::size_t>(ranks);
  const std::size_t mine = count * static_cast<std::size_t>(rank);
  return {.send_count = all, .receive_count = all, .longest = all, .result = from_all(mine, count, ranks)};
}

void alltoall(const Shape&, std::size_t count, const float* send, float* receive, MPI_Request* request) {
  call(request, MPI_Alltoall, MPI_Ialltoall, send, length(count), MPI_FLOAT, receive, length(count),
       MPI_FLOAT, MPI_COMM_WORLD);
}

Shape alltoallv_shape(std::size_t count, int rank, int ranks) {
  return with_lists(alltoall_shape(count, rank, ranks), count, ranks);
}

void alltoallv(const Shape& shape, std::size_t, const float* send, float* receive, MPI_Request* request) {
  call(request, MPI_Alltoallv, MPI_Ialltoallv, send, shape.counts.data(), shape.begins.data(), MPI_FLOAT,
       receive, shape.counts.data(), shape.begins.data(), MPI_FLOAT, MPI_COMM_WORLD);
}

Shape reduce_scatter_shape(std::size_t count, int rank, int ranks) {
  Shape shape{.send_count = count, .longest = count};
  std::size_t begin = 0;
  for (int r = 0; r < ranks; ++r) {
    const std::size_t part = count / static_cast<std::size_t>(ranks) +
                             (static_cast<std::size_t>(r) < count % static_cast<std::size_t>(ranks) ? 1 : 0);
    shape.counts.push_back(length(part));
    if (r == rank) {
      shape.receive_count = part;
      shape.result = {{Piece::sum, begin, part}};
    }
    begin += part;
  }
  return shape;
}

void reduce_scatter(const Shape& shape, std::size_t, const float* send, float* receive,
                    MPI_Request* request) {
  call(request, MPI_Reduce_scatter, MPI_Ireduce_scatter, send, receive, shape.counts.data(), MPI_FLOAT,
       MPI_SUM, MPI_COMM_WORLD);
}

// The vector has `count` elements for each rank, so that every length can be cut evenly.
Shape reduce_scatter_block_shape(std::size_t count, int rank, int ranks) {
  return reduce_scatter_shape(count * static_cast<std::size_t>(ranks), rank, ranks);
}

void reduce_scatter_block(const Shape&, std::size_t count, const float* send, float* receive,
                          MPI_Request* request) {
  call(request, MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, send, receive, length(count), MPI_FLOAT,
       MPI_SUM, MPI_COMM_WORLD);
}

Shape prefix_shape(std::size_t count, int givers) {
  Shape shape{.send_count = count, .receive_count = count, .longest = count, .givers = givers};
  if (givers > 0) shape.result = {{Piece::sum, 0, count}};
  return shape;
}

Shape scan_shape(std::size_t count, int rank, int) { return prefix_shape(count, rank + 1); }

void scan(const Shape&, std::size_t count, const float* send, float* receive, MPI_Request* request) {
  call(request, MPI_Scan, MPI_Iscan, send, receive, length(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

void scan_in_place(std::size_t count, float* data) {
  MPI_Scan(MPI_IN_PLACE, data, length(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

Shape exscan_shape(std::size_t count, int rank, int) { return prefix_shape(count, rank); }

void exscan(const Shape&, std::size_t count, const float* send, float* receive, MPI_Request* request) {
  call(request, MPI_Exscan, MPI_Iexscan, send, receive, length(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

void exscan_in_place(std::size_t count, float* data) {
  MPI_Exscan(MPI_IN_PLACE, data, length(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

constexpr std::array runners = {
    Runner{Collective::allreduce, allreduce_shape, allreduce, allreduce_in_place},
    Runner{Collective::barrier, barrier_shape, barrier},
    Runner{Collective::bcast, bcast_shape, bcast},
    Runner{Collective::reduce, reduce_shape, reduce},
    Runner{Collective::allgather, allgather_shape, allgather},
    Runner{Collective::allgatherv, allgatherv_shape, allgatherv},
    Runner{Collective::alltoall, alltoall_shape, alltoall},
    Runner{Collective::alltoallv, alltoallv_shape, alltoallv},
    Runner{Collective::gather, gather_shape, gather},
    Runner{Collective::scatter, scatter_shape, scatter},
    Runner{Collective::reduce_scatter, reduce_scatter_shape, reduce_scatter},
    Runner{Collective::reduce_scatter_block, reduce_scatter_block_shape, reduce_scatter_block},
    Runner{Collective::scan, scan_shape, scan, scan_in_place},
    Runner{Collective::exscan, exscan_shape, exscan, exscan_in_place},
};

constexpr const Runner* find_runner(Collective collective) {
  for (const Runner& runner : runners) {
    if (runner.collective == collective) return &runner;
  }
  return nullptr;
}

constexpr bool has_all_that_are_served() {
  for (std::size_t k = 0; k < offbeat::collectives.size(); ++k) {
    const Collective collective = collective_at(k);
    if (served.contain(collective) != (find_runner(collective) != nullptr)) return false;
  }
  return true;
}
static_assert(has_all_that_are_served());

}  // namespace

const Runner& runner_of(std::string_view collective) {
  const auto known = collective_named(collective);
  const Runner* runner = known ? find_runner(*known) : nullptr;
  if (runner == nullptr) throw std::runtime_error("no runner for " + std::string(collective));
  return *runner;
}

}  // namespace offbeat::bench
