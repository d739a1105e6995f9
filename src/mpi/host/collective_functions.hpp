// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/collective.hpp"
#include "mpi/host/abi.hpp"

namespace offbeat {

// The kind of function of a collective: MPI_X, MPI_Ix or MPI_X_init. Large-count variants (`_c`) are told
// apart by CountKind.
enum class Form : std::uint8_t { blocking, nonblocking, persistent };
enum class CountKind : std::uint8_t { int_counts, large };

// The functions of the served collectives, either those of the host or those of a tool.
class CollectiveFunctions {
 public:
  // `look_up(name)` returns an address, or null if there is none.
  template <class LookUp>
  CollectiveFunctions(const std::string& prefix, LookUp&& look_up) {
    for (std::size_t k = 0; k < collectives.size(); ++k) {
      if (!collectives[k].is_served) continue;
      const std::string blocking(collectives[k].function);
      std::string nonblocking = "I" + blocking;
      nonblocking[1] = static_cast<char>(std::tolower(static_cast<unsigned char>(nonblocking[1])));
      const std::array forms{blocking, nonblocking, blocking + "_init"};
      for (std::size_t form = 0; form < forms.size(); ++form) {
        const std::string name = prefix + forms[form];
        addresses_[k][form][0] = look_up(name.c_str());
        addresses_[k][form][1] = look_up((name + "_c").c_str());
      }
    }
  }

  // Returns the function that takes arguments of these types, or null if there is none.
  template <Collective collective, Form form, CountKind counts, class... Arguments>
  [[nodiscard]] auto find(Arguments...) const {
    static_assert(facts_of(collective).is_served);
    const auto& of_form = addresses_[index_of(collective)][static_cast<std::size_t>(form)];
    return reinterpret_cast<int (*)(Arguments...)>(of_form[static_cast<std::size_t>(counts)]);
  }

 private:
  std::array<std::array<std::array<void*, 2>, 3>, collectives.size()> addresses_{};
};

}  // namespace offbeat
