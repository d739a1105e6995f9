// SPDX-License-Identifier: BSD-3-Clause
// Passes all calls on to the MPI of the process if that is of another family than this library.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "mpi/host/host.hpp"

namespace offbeat {

// The libmpi of the other family. Null if the MPI of this process is of this family, or has not been looked
// for yet.
extern std::atomic<void*> other_family;

// Passes all calls on to that libmpi from now on. One rank prints a line about it.
void pass_on_to(const OtherFamily& found);

// Returns the function to which offbeat's function `name` passes a call on: the next in line, or the MPI's
// own. Null if there is none.
[[nodiscard]] void* behind_in_other_family(const char* name);
// An argument as it is in a register or on the stack. If it is an `int`, the upper half is undefined.
using Word = std::uintptr_t;

// Returns the function MPI_X or PMPI_X, given the name MPI_X_c or PMPI_X_c; otherwise null.
[[nodiscard]] void* narrow_in_other_family(const char* name);

// Returns true if the arrays of this collective have an element for each rank, on every rank.
[[nodiscard]] constexpr bool has_counts_of_all(std::string_view name) {
  constexpr std::string_view with_counts[] = {
      "_Allgatherv",        "_Iallgatherv",          "_Alltoallv", "_Ialltoallv", "_Reduce_scatter_c",
      "_Ireduce_scatter_c", "_Reduce_scatter_init_c"};
  for (const std::string_view part : with_counts) {
    if (name.find(part) != std::string_view::npos) return true;
  }
  return false;
}
// Returns true if `buffer` is MPI_IN_PLACE in some family: a small number, or -1. In every family 0 is
// MPI_BOTTOM.
[[nodiscard]] constexpr bool is_in_place(Word buffer) { return buffer != 0 && buffer + 1 < 4096; }

// Narrows the large counts of a call to int.
class NarrowCounts {
 public:
  // `has_arrays`: the arrays of the call have an element for each rank. `are_kept`: the call may use the
  // arrays after it has returned. They are then never freed; equal arrays are stored once.
  NarrowCounts(Word communicator, bool has_arrays, bool are_kept)
      : communicator_(communicator), has_arrays_(has_arrays), are_kept_(are_kept) {}
  [[nodiscard]] Word one(Word count);
  [[nodiscard]] Word array(Word wide);
  // Returns false if the counts cannot be narrowed.
  [[nodiscard]] bool fit() const { return fit_; }

 private:
  [[nodiscard]] std::size_t length() const;

  static constexpr std::size_t most = 4;
  Word communicator_;
  bool has_arrays_;
  bool are_kept_;
  bool fit_ = true;
  std::size_t count_ = 0;
  std::array<std::vector<int>, most> arrays_;
};

}  // namespace offbeat
