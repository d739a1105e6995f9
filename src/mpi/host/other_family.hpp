// SPDX-License-Identifier: BSD-3-Clause
// Passes all calls to the MPI of the process, if that is of another family than this library.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "mpi/host/host.hpp"

namespace offbeat {

// The libmpi of that family. Null if the MPI of this process is of this family, or has not been looked for.
extern std::atomic<void*> other_family;

// Passes all calls to that libmpi from now on. One line on one rank says so.
void pass_on_to(const OtherFamily& found);

// An argument in its register or its place on the stack. An `int` leaves the upper half undefined.
using Word = std::uintptr_t;

// Whether an argument of a function for large counts is a count, an array of counts or displacements, or
// neither.
enum class CountArgument : std::uint8_t { none, one, array };

template <class Argument>
[[nodiscard]] constexpr CountArgument count_argument() {
  if (std::is_same_v<Argument, MPI_Count>) return CountArgument::one;
  const bool is_array =
      std::is_same_v<Argument, const MPI_Count*> || std::is_same_v<Argument, const MPI_Aint*>;
  return is_array ? CountArgument::array : CountArgument::none;
}
// One element for each argument of a function. The last element is there because a C array cannot be empty.
template <class... Arguments>
inline constexpr CountArgument count_arguments[] = {count_argument<Arguments>()..., CountArgument::none};

// Finds the function to which calls of one of offbeat's functions go. Each look-up happens once, unless it
// finds nothing.
class ForwardedFunction {
 public:
  // `arguments` has one element for each argument of the function.
  constexpr ForwardedFunction(const char* name, const CountArgument* arguments)
      : name_(name), arguments_(arguments) {}
  // Returns the next function of this name in line, otherwise the MPI's own. Null if there is none.
  [[nodiscard]] void* function();
  // Returns the function MPI_X or PMPI_X if this is MPI_X_c or PMPI_X_c; otherwise null.
  [[nodiscard]] void* narrow_function();

  [[nodiscard]] std::string_view name() const { return name_; }
  [[nodiscard]] const CountArgument* arguments() const { return arguments_; }

 private:
  const char* name_;
  const CountArgument* arguments_;
  std::atomic<void*> function_{nullptr};
  std::atomic<void*> narrow_function_{nullptr};
};

// Narrows the large counts among the arguments of a call to int. The narrowed arrays live as long as this
// object, or forever if the call may use them after it has returned.
class NarrowedCall {
 public:
  NarrowedCall(const ForwardedFunction& function, std::span<Word> arguments);
  // Returns false if the counts cannot be narrowed.
  [[nodiscard]] bool fits() const { return fits_; }

 private:
  [[nodiscard]] Word narrowed(Word array, Word communicator);

  bool has_count_for_each_rank_;  // the arrays have one element for each rank, on every rank
  bool are_kept_;                 // arrays are never freed; equal ones are stored once
  bool fits_ = true;
  std::vector<std::vector<int>> arrays_;
};

}  // namespace offbeat
