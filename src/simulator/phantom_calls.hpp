// SPDX-License-Identifier: BSD-3-Clause
// The call that each rank makes of a collective, for a simulation of its time: every vector has a length and
// an address, and nobody looks at what is there, but for short calls on the board. All ranks share the
// addresses.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/call.hpp"
#include "simulator/memory.hpp"

namespace offbeat {

class PhantomCalls {
 public:
  // `bytes` as in docs/bench-format.md: of the vector in an allreduce, reduce, bcast or reduce_scatter, of
  // one block in the others. Elements that are combined have four bytes.
  PhantomCalls(Collective collective, std::size_t bytes, int ranks);

  [[nodiscard]] Call of(int rank) const;

 private:
  [[nodiscard]] std::size_t input_count(int rank) const;
  [[nodiscard]] std::size_t output_count(int rank) const;

  Collective collective_;
  std::size_t width_;
  std::size_t count_;  // of the vector, or of a block
  std::size_t ranks_;
  std::vector<std::size_t> counts_;  // where a call has lists
  std::vector<std::ptrdiff_t> begins_;
  SimulatedMemory input_;
  SimulatedMemory output_;
};

}  // namespace offbeat
