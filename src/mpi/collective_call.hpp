// SPDX-License-Identifier: BSD-3-Clause
// What the program asks of a collective, in one form for all functions: blocking, non-blocking and
// persistent, with counts of int and of MPI_Count.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/collective.hpp"
#include "mpi/abi.hpp"

namespace offbeat {

// An array of int, MPI_Count or MPI_Aint of the program's.
class Integers {
 public:
  constexpr Integers() = default;
  template <std::integral Integer>
  constexpr Integers(const Integer* values)  // NOLINT(google-explicit-constructor): for braces
      : values_(values), are_wide_(sizeof(Integer) == sizeof(std::int64_t)) {}

  [[nodiscard]] std::int64_t operator[](int i) const {
    return are_wide_ ? read<std::int64_t>(i) : read<std::int32_t>(i);
  }

 private:
  // MPI_Count may be another type of the same width.
  template <class Integer>
  [[nodiscard]] Integer read(int i) const {
    Integer value;
    std::memcpy(&value, static_cast<const Integer*>(values_) + i, sizeof value);
    return value;
  }

  const void* values_ = nullptr;
  bool are_wide_ = false;
};

// How a function describes a buffer: as elements, or as a block of so many for each rank; by blocks, of which
// each has its own length; and by blocks of which each has its own type, too.
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

// Nothing of it is read before it is wanted: arguments that do not count on this rank may hold anything. What
// the collective does not have stays as it is here.
template <class Input, class Output>
struct CollectiveCall {
  Input input{};
  Output output{};
  MPI_Op op{};
  int root = 0;
  MPI_Comm communicator{};
};

// `read(arguments...)` makes a CollectiveCall of a function's arguments. cmake/entry_points.py writes one for
// each collective, which serves all its functions: their further arguments come last.
template <Collective collective>
struct Signature;

}  // namespace offbeat
