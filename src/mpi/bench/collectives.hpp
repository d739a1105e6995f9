// SPDX-License-Identifier: BSD-3-Clause
// A Runner makes the calls of one collective that is measured, on MPI_COMM_WORLD.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "base/collective.hpp"
#include "mpi/bench/mpi_header.hpp"

namespace offbeat::bench {

// A piece of a correct result. It comes from the input of one rank, or it combines the inputs of all ranks
// that give something to this one (`combined`).
struct ResultPiece {
  static constexpr int combined = -1;
  int rank;
  std::size_t begin;
  std::size_t count;
};

// Describes the vectors of one call on one rank. Lengths are in elements.
struct CallShape {
  std::size_t send_count = 0;
  std::size_t receive_count = 0;
  std::size_t longest = 0;            // longest vector of any rank; equal on all ranks
  std::vector<ResultPiece> result{};  // what the received vector must contain, from front to end
  std::vector<int> counts{};          // block lengths, for calls that take lists
  std::vector<int> begins{};
  int combined_ranks = std::numeric_limits<int>::max();  // this many ranks are combined, from rank 0 on
  // Where the input lies in the received vector if the call is in place. None: there is no such call here.
  std::optional<std::size_t> input_in_output{};
  // True if a call in place leaves this rank's part where it is, so that nothing is received.
  bool keeps_own_part = false;
};

// What the shape of a call depends on.
struct Position {
  std::size_t count;
  int rank;
  int ranks;
  int root;

  [[nodiscard]] bool is_root() const { return rank == root; }
};

struct Arguments {
  const void* send;
  void* receive;
  int count;
  MPI_Datatype type;
  MPI_Op op;
  int root;
};

struct Runner {
  Collective collective;
  CallShape (*shape)(const Position& position);
  // Makes the blocking call or, if there is a `request`, begins the non-blocking one.
  void (*call)(const CallShape& shape, const Arguments& arguments, MPI_Request* request);
};

// Returns the runner of a collective. Throws std::runtime_error if there is none.
[[nodiscard]] const Runner& runner_of(std::string_view collective);
[[nodiscard]] bool has_in_place_form(Collective collective);

}  // namespace offbeat::bench
