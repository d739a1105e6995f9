// SPDX-License-Identifier: BSD-3-Clause
// Where the program's calls come in; cmake/entry_points.py writes the functions.
//
// A preload also reaches processes whose MPI is of another family, such as a job of another mpirun that a
// rank starts. Their calls are passed on untouched. Handles have another width there. So an entry point takes
// its arguments as the machine words in which they come, and gives them the types of this family only if the
// MPI of the process is of this family.
#pragma once

#include <cstdint>
#include <type_traits>

#include "mpi/host.hpp"
#include "mpi/other_family.hpp"

namespace offbeat {

// An argument in its register or its place on the stack. An `int` leaves the upper half undefined.
using Word = std::uintptr_t;

template <class Argument>
[[nodiscard]] Argument from_word(Word word) {
  static_assert(sizeof(Argument) <= sizeof(Word));
  if constexpr (std::is_pointer_v<Argument>) {
    return reinterpret_cast<Argument>(word);
  } else {
    return static_cast<Argument>(word);
  }
}

// The state of a Library:
//
//   is_started()   the process's calls are for this library: one load
//   starts()       the same, and finds out if it is not known yet
template <Name name, class Library, class Signature>
struct Entry;
template <Name name, class Library, class... Arguments>
struct Entry<name, Library, int(Arguments...)> {
  // `self` is the entry point that calls this; `function` does the work.
  template <class Function, class... Words>
  [[gnu::always_inline]] static int call(int (*self)(Words...), Function&& function, Words... words) {
    static_assert(sizeof...(Words) == sizeof...(Arguments));
    if (!Library::is_started()) [[unlikely]]
      return start_or_pass_on(self, words...);
    return function(from_word<Arguments>(words)...);
  }

 private:
  template <class... Words>
  [[gnu::noinline, gnu::cold]] static int start_or_pass_on(int (*self)(Words...), Words... words) {
    if (Library::starts()) return self(words...);
    const auto next = found_once<int(Words...)>([] { return behind_in_other_family(name.text); });
    if (next != nullptr) return next(words...);
    // A function for large counts, which that MPI does not have: the one for counts of int has the same
    // words.
    const auto narrow = found_once<int(Words...)>([] { return narrow_in_other_family(name.text); });
    if (narrow != nullptr && (is_narrow<Arguments>(words) && ...)) return narrow(words...);
    return MPI_ERR_OTHER;
  }
  template <class Argument>
  static bool is_narrow(Word word) {
    if constexpr (std::is_same_v<Argument, MPI_Count>) return word <= Word{INT32_MAX};
    return !std::is_same_v<Argument, const MPI_Count*>;
  }
};

}  // namespace offbeat
