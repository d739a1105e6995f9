// SPDX-License-Identifier: BSD-3-Clause
// CollectiveCall has the arguments of a collective, in one form for all its functions: blocking, non-blocking
// and persistent, with counts of int and of MPI_Count.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/collective.hpp"
#include "mpi/host/abi.hpp"

namespace offbeat {

// An array of the program whose elements are int, MPI_Count or MPI_Aint.
class Integers {
 public:
  constexpr Integers() = default;
  template <std::integral Integer>
  constexpr Integers(const Integer* values)  // NOLINT(google-explicit-constructor): for braces
      : values_(values), are_wide_(sizeof(Integer) == sizeof(std::int64_t)) {}

  [[nodiscard]] bool empty() const { return values_ == nullptr; }
  [[nodiscard]] bool is_same_array(const Integers& other) const { return values_ == other.values_; }
  [[nodiscard]] std::int64_t operator[](int i) const {
    return are_wide_ ? read<std::int64_t>(i) : read<std::int32_t>(i);
  }

 private:
  // This reads by memcpy because MPI_Count may be another type of the same width.
  template <class Integer>
  [[nodiscard]] Integer read(int i) const {
    Integer value;
    std::memcpy(&value, static_cast<const Integer*>(values_) + i, sizeof value);
    return value;
  }

  const void* values_ = nullptr;
  bool are_wide_ = false;
};

// How a function describes a buffer. Elements has one count for the buffer, or for each rank's block. Blocks
// has a length per block. TypedBlocks also has a type per block.
template <class Memory>
struct Elements {
  Memory* data;
  std::int64_t count;
  MPI_Datatype type;
};
template <class Memory>
struct Blocks {
  Memory* data;
  Integers counts;
  Integers displacements;
  MPI_Datatype type;
};
template <class Memory>
struct TypedBlocks {
  Memory* data;
  Integers counts;
  Integers displacements;
  const MPI_Datatype* types;
};
template <class Memory>
struct Nothing {};

// The arguments of one call. Arguments are read only when needed, because those that are not significant on
// this rank may hold anything. Members that the collective does not have keep their defaults.
template <class Input, class Output>
struct CollectiveCall {
  Input input{};
  Output output{};
  MPI_Op op{};
  int root = 0;
  MPI_Comm communicator{};
};

// `read(arguments...)` makes a CollectiveCall from the arguments of a function. cmake/entry_points.py writes
// one Signature for each collective. It serves all functions of the collective, whose additional arguments
// come last.
template <Collective collective>
struct Signature;

}  // namespace offbeat
