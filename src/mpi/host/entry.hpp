// SPDX-License-Identifier: BSD-3-Clause
// The entry points: the functions through which the program's calls enter offbeat. cmake/entry_points.py
// writes them.
//
// A preload also reaches processes whose MPI is of another family, such as a job that a rank starts with
// another mpirun. An entry point passes their calls on untouched. Handles may have another width there. So an
// entry point takes its arguments as the machine words in which they arrive. It gives them the types of this
// family only if the MPI of the process is of this family.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
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

// A Library has two functions:
//
//  is_started()   returns true if this library is to take the process's calls; costs one load
//  starts()       the same, but finds out first if that is not known yet
template <Name name, class Library, class Signature>
struct Entry;
template <Name name, class Library, class... Arguments>
struct Entry<name, Library, int(Arguments...)> {
  // Takes a call. `self` is the entry point that calls this; `function` does the work.
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
    // The MPI of the process lacks this function with large counts. Its function with counts of int takes the
    // same words.
    const auto narrow = found_once<int(Words...)>([] { return narrow_in_other_family(name.text); });
    return narrow != nullptr ? pass_on_narrow(narrow, words...) : MPI_ERR_OTHER;
  }

  template <class... Words>
  static int pass_on_narrow(int (*narrow)(Words...), Words... words) {
    constexpr std::size_t last = sizeof...(Words) - 1;
    constexpr std::string_view text(name.text);
    constexpr std::size_t after_communicator =
        text.ends_with("_init_c") ? 2 : text[text.find('_') + 1] == 'I';
    const std::array<Word, last + 1> wide{words...};
    NarrowCounts counts(wide[last - after_communicator], has_counts_of_all(text), after_communicator > 0);
    std::size_t i = 0;
    const std::array<Word, last + 1> narrowed{narrow_word<Arguments>(counts, wide, i++)...};
    if (!counts.fit()) return MPI_ERR_OTHER;
    return std::apply(narrow, narrowed);
  }
  template <class Argument, std::size_t count>
  static Word narrow_word(NarrowCounts& counts, const std::array<Word, count>& words, std::size_t i) {
    if constexpr (std::is_same_v<Argument, MPI_Count>) return counts.one(words[i]);
    if constexpr (std::is_same_v<Argument, const MPI_Count*> || std::is_same_v<Argument, const MPI_Aint*>) {
      // In MPI_Alltoallv_c with MPI_IN_PLACE, the send side has no counts.
      const bool is_sent = count >= 9 && i < 4;
      return is_sent && is_in_place(words[0]) ? words[i] : counts.array(words[i]);
    }
    return words[i];
  }
};

}  // namespace offbeat
