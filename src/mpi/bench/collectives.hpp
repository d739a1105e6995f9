// SPDX-License-Identifier: BSD-3-Clause
// A Runner makes the calls of one collective that is measured: MPI_FLOAT, MPI_SUM, root 0, MPI_COMM_WORLD.
#pragma once

#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include "base/collective.hpp"
#include "mpi/bench/mpi_header.hpp"

namespace offbeat::bench {

// A piece of a correct result. It comes from the input of one rank, or from the sum over all ranks that give
// something to this one (`sum`).
struct Piece {
  static constexpr int sum = -1;
  int rank;
  std::size_t begin;
  std::size_t count;
};

// Describes the vectors of one call on one rank. Lengths are in elements.
struct Shape {
  std::size_t send_count = 0;
  std::size_t receive_count = 0;
  std::size_t longest = 0;      // longest vector of any rank; equal on all ranks
  std::vector<Piece> result{};  // what the received vector must contain, from front to end
  std::vector<int> counts{};    // block lengths, for calls that take lists
  std::vector<int> begins{};
  int givers = std::numeric_limits<int>::max();  // the sum is over this many ranks, from rank 0 on
};

struct Runner {
  Collective collective;
  Shape (*shape)(std::size_t count, int rank, int ranks);
  // Makes the blocking call or, if there is a `request`, begins the non-blocking one.
  void (*call)(const Shape& shape, std::size_t count, const float* send, float* receive,
               MPI_Request* request);
  // Makes the call with MPI_IN_PLACE. Null: the benchmark does not check this collective in place.
  void (*call_in_place)(std::size_t count, float* data) = nullptr;
};

// Returns the runner of a collective. Throws std::runtime_error if there is none.
[[nodiscard]] const Runner& runner_of(std::string_view collective);

}  // namespace offbeat::bench
