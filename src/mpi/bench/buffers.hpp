// SPDX-License-Identifier: BSD-3-Clause
// The send and receive buffers of a cell, in several sets. Calls use the sets in turn, so that a call does
// not find its own data in the first-level cache, unless that is wanted. Values are small integers, so every
// order of summation gives the same exact float.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mpi/bench/collectives.hpp"

namespace offbeat::bench {

struct Mismatch {
  std::int64_t wrong_elements = 0;
  std::int64_t first_index = 0;
  double expected = 0;
  double got = 0;
};

class Buffers {
 public:
  Buffers(const Runner& runner, std::size_t count, int rank, int ranks, bool only_one_set);

  [[nodiscard]] const Runner& runner() const { return runner_; }
  [[nodiscard]] std::size_t sets() const { return sets_.size(); }
  // Makes the blocking call or, if there is a `request`, begins the non-blocking one.
  void call(std::size_t set, MPI_Request* request = nullptr) {
    runner_.call(shape_, count_, sets_[set].send.data(), sets_[set].receive.data(), request);
  }
  // Makes the call in place. Only for a runner that has such a call.
  void call_in_place(std::size_t set);

  // Fills the receive buffer with values that no correct result has.
  void poison(std::size_t set);
  // Compares every element of the receive buffer with its correct value, bit by bit.
  [[nodiscard]] Mismatch verify(std::size_t set) const;

 private:
  using Period = std::vector<float>;  // the values that repeat along a vector
  struct Set {
    std::vector<float> send, receive;
    std::vector<Period> given;  // for each rank
    Period sum;
  };
  static void compare(const float* got, const Piece& piece, const Period& period, std::size_t index,
                      Mismatch& mismatch);

  const Runner& runner_;
  const std::size_t count_;
  const Shape shape_;
  std::vector<Set> sets_;
};

}  // namespace offbeat::bench
