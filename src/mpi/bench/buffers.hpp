// SPDX-License-Identifier: BSD-3-Clause
// The send and receive buffers of a cell, in several sets. Calls use the sets in turn, so that a call does
// not find its own data in the first-level cache, unless that is wanted. Values are small integers, so every
// order of summation gives the same exact result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mpi/bench/collectives.hpp"
#include "mpi/bench/elements.hpp"
#include "mpi/bench/options.hpp"

namespace offbeat::bench {

struct Mismatch {
  std::int64_t wrong_elements = 0;
  std::int64_t first_index = 0;
  double expected_value = 0;
  double found_value = 0;
};

class Buffers {
 public:
  Buffers(const CallRequest& request, int rank, int ranks, bool only_one_set);

  [[nodiscard]] const Runner& runner() const { return runner_; }
  [[nodiscard]] std::size_t sets() const { return sets_.size(); }
  // Returns true if the calls that are measured are in place.
  [[nodiscard]] bool is_in_place() const { return in_place_; }

  // Puts the input where a call in place expects it. Do this before each call, outside of the measured time.
  void prepare(std::size_t set) {
    if (in_place_) put_input(set);
  }
  // Makes the blocking call or, if there is a `request`, begins the non-blocking one.
  void call(std::size_t set, MPI_Request* request = nullptr) {
    runner_.call(shape_, in_place_ ? sets_[set].in_place : sets_[set].out_of_place, request);
  }
  // Makes the call in place, and checks its result, even if the measured calls are not in place.
  [[nodiscard]] Mismatch check_in_place(std::size_t set);

  // Fills the receive buffer with values that no correct result has.
  void fill_with_wrong_values(std::size_t set);
  // Compares every element of the receive buffer with its correct value, bit by bit.
  [[nodiscard]] Mismatch verify(std::size_t set) const { return verify(set, in_place_); }

 private:
  using Bytes = std::vector<std::byte>;
  struct BufferSet {
    Bytes send, receive;
    std::vector<Bytes> input_periods;  // for each rank, the values that repeat along its vector
    Bytes combined_period;
    Arguments out_of_place, in_place;
  };
  void fill(std::size_t set, const NamedOperation& operation);
  void put_input(std::size_t set);
  [[nodiscard]] Mismatch verify(std::size_t set, bool in_place) const;
  void compare(const std::byte* found_value, const ResultPiece& piece, const Bytes& period, std::size_t index,
               Mismatch& mismatch) const;

  const Runner& runner_;
  const ElementType& element_;
  const Position position_;
  const CallShape shape_;
  const bool in_place_;
  std::vector<BufferSet> sets_;
};

}  // namespace offbeat::bench
