// SPDX-License-Identifier: BSD-3-Clause
// The functions through which the program's calls enter offbeat; cmake/entry_points.py writes them.
//
// A preload also reaches processes whose MPI is of another family, such as a job of another mpirun that a
// rank starts. An entry point passes their calls on untouched. Handles may have another width there, so an
// entry point takes its arguments as the machine words in which they come. It gives them the types of this
// family only if the MPI of the process is of this family.
#pragma once

#include <array>
#include <tuple>
#include <type_traits>

#include "mpi/host/host.hpp"
#include "mpi/host/other_family.hpp"

namespace offbeat {

template <class Argument>
[[nodiscard]] Argument from_word(Word word) {
  static_assert(sizeof(Argument) <= sizeof(Word));
  if constexpr (std::is_pointer_v<Argument>) {
    return reinterpret_cast<Argument>(word);
  } else {
    return static_cast<Argument>(word);
  }
}

// A Library has:
//
//   is_started()   returns true if this library is to take the process's calls; costs one load
//   try_start()    the same, but finds out first if that is not known yet

// Starts the library, or passes the call on to the other family. It knows an entry point only by `forwarded`,
// so that the compiler makes one of these for each number of arguments, not for each of 340 functions.
template <class Library, class... Words>
[[gnu::noinline, gnu::cold]] int start_or_pass_on(int (*self)(Words...), ForwardedFunction& forwarded,
                                                  Words... words) {
  if (Library::try_start()) return self(words...);
  if (void* next = forwarded.function()) return reinterpret_cast<int (*)(Words...)>(next)(words...);
  // That MPI lacks this function for large counts. Its function for counts of int takes the same words.
  void* narrow = forwarded.narrow_function();
  if (narrow == nullptr) return MPI_ERR_OTHER;
  std::array<Word, sizeof...(Words)> arguments{words...};
  const NarrowedCall call(forwarded, arguments);
  return call.fits() ? std::apply(reinterpret_cast<int (*)(Words...)>(narrow), arguments) : MPI_ERR_OTHER;
}

template <Name name, class Library, class Signature>
struct Entry;
template <Name name, class Library, class... Arguments>
struct Entry<name, Library, int(Arguments...)> {
  // `self` is the entry point that calls this; `function` does the work.
  template <class Function, class... Words>
  [[gnu::always_inline]] static int call(int (*self)(Words...), Function&& function, Words... words) {
    static_assert(sizeof...(Words) == sizeof...(Arguments));
    if (!Library::is_started()) [[unlikely]]
      return start_or_pass_on<Library>(self, forwarded, words...);
    return function(from_word<Arguments>(words)...);
  }

 private:
  static inline constinit ForwardedFunction forwarded{name.text, count_arguments<Arguments...>};
};

}  // namespace offbeat
