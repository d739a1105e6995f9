// SPDX-License-Identifier: BSD-3-Clause
//
// Send and receive buffers in several sets, used in turn so that no operation
// finds its own data of the last time in the first cache. Values are small
// integers: every order of summation gives the same, exact, float.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace offbeat::bench {

struct Mismatch {
  std::int64_t wrong_elements = 0;
  std::int64_t first_index = 0;
  double expected = 0;
  double got = 0;
};

class Buffers {
 public:
  Buffers(std::size_t count, int rank, int ranks);

  std::size_t count() const { return count_; }
  std::size_t sets() const { return sets_.size(); }
  const float* send(std::size_t set) const { return sets_[set].send.data(); }
  float* receive(std::size_t set) { return sets_[set].receive.data(); }

  // Write what no correct sum can leave behind.
  void poison(std::size_t set);
  // Put this rank's contribution into the receive buffer, for MPI_IN_PLACE.
  void load_in_place(std::size_t set) { sets_[set].receive = sets_[set].send; }
  // Compare the receive buffer with the sum over all ranks, every element bit by bit.
  Mismatch verify(std::size_t set) const;

 private:
  struct Set {
    std::vector<float> send, receive;
    std::vector<float> expected;  // one period
  };
  std::size_t count_;
  std::vector<Set> sets_;
};

}  // namespace offbeat::bench
