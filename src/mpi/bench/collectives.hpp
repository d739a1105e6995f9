// SPDX-License-Identifier: BSD-3-Clause
// A runner for each collective that can be measured: MPI_FLOAT, MPI_SUM, root 0, MPI_COMM_WORLD.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/collective.hpp"
#include "mpi/bench/mpi_header.hpp"

namespace offbeat::bench {

// A piece of a result: of what one rank gave, or of the sum over all ranks.
struct Piece {
  static constexpr int sum = -1;
  int rank;
  std::size_t begin;
  std::size_t count;
};

// The vectors of one call on one rank.
struct Shape {
  std::size_t send_count = 0;
  std::size_t receive_count = 0;
  std::size_t longest = 0;      // the length of the longest vector of all ranks: equal on all of them
  std::vector<Piece> result{};  // the right contents of the received vector, front to end
  std::vector<int> counts{};    // of the calls that take lists: of each block
  std::vector<int> begins{};
};

struct Runner {
  Collective collective;
  Shape (*shape)(std::size_t count, int rank, int ranks);
  // Calls the blocking form, or with a `request` begins the non-blocking one.
  void (*call)(const Shape& shape, std::size_t count, const float* send, float* receive,
               MPI_Request* request);
  // With MPI_IN_PLACE. Null: the benchmark does not check the collective in place.
  void (*call_in_place)(std::size_t count, float* data) = nullptr;
};

// Throws std::runtime_error.
[[nodiscard]] const Runner& runner_of(std::string_view collective);

}  // namespace offbeat::bench
