// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/collective.hpp"
#include "mpi/abi.hpp"

namespace offbeat {

// Which of the two functions of a collective: MPI_X, or MPI_X_c.
enum class CountKind : std::uint8_t { of_int, large };

// The blocking functions of the collectives that are served, those of the host or of a tool.
class CollectiveFunctions {
 public:
  // `look_up(name)` gives the address; null if there is none.
  template <class LookUp>
  CollectiveFunctions(const std::string& prefix, LookUp&& look_up) {
    for (std::size_t k = 0; k < collectives.size(); ++k) {
      if (!collectives[k].is_served) continue;
      const std::string name = prefix + std::string(collectives[k].function);
      addresses_[k][0] = look_up(name.c_str());
      if (OFFBEAT_LARGE_COUNT) addresses_[k][1] = look_up((name + "_c").c_str());
    }
  }

  // The one that takes arguments of these types.
  template <Collective collective, CountKind counts, class... Arguments>
  [[nodiscard]] auto find(Arguments...) const {
    static_assert(facts(collective).is_served);
    const auto index = static_cast<std::size_t>(collective) - 1;
    return reinterpret_cast<int (*)(Arguments...)>(addresses_[index][static_cast<std::size_t>(counts)]);
  }

 private:
  std::array<std::array<void*, 2>, collectives.size()> addresses_{};
};

}  // namespace offbeat
