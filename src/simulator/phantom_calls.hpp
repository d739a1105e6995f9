// SPDX-License-Identifier: BSD-3-Clause
// Makes the call of each rank for a simulation of a collective's time. Vectors have a length and an
// address, which all ranks share; what only a root has is without an address elsewhere. Nobody reads the
// data, except short calls on the board.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/call.hpp"
#include "simulator/memory.hpp"

namespace offbeat {

class PhantomCalls {
 public:
  // `bytes` is defined in docs/reference/bench-format.md. In an allreduce, reduce, bcast or reduce_scatter it
  // is the length of the vector, and in other collectives that of one block. Elements that are combined have
  // four bytes.
  PhantomCalls(Collective collective, std::size_t bytes, int ranks);

  [[nodiscard]] Call call_of_rank(int rank) const;

 private:
  [[nodiscard]] std::size_t input_count(int rank) const;
  [[nodiscard]] std::size_t output_count(int rank) const;

  Collective collective_;
  std::size_t width_;
  std::size_t count_;  // elements of the vector or of a block
  std::size_t ranks_;
  std::vector<std::size_t> counts_;  // empty if the call has no lists
  std::vector<std::ptrdiff_t> block_begins_;
  SimulatedMemory input_;
  SimulatedMemory output_;
};

}  // namespace offbeat
