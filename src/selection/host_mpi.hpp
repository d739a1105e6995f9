// SPDX-License-Identifier: BSD-3-Clause
// The host MPIs that rules distinguish.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace offbeat {

enum class HostMpi : std::uint8_t { other, open_mpi, mpich, intel };

// The names of the hosts in rules and options, in the order of their numbers.
inline constexpr std::array<std::string_view, 4> host_names{"other", "openmpi", "mpich", "intel"};

[[nodiscard]] constexpr std::string_view name_of(HostMpi host) {
  return host_names[static_cast<std::size_t>(host)];
}

[[nodiscard]] constexpr std::optional<HostMpi> host_named(std::string_view name) {
  for (std::size_t k = 0; k < host_names.size(); ++k) {
    if (host_names[k] == name) return static_cast<HostMpi>(k);
  }
  return std::nullopt;
}

}  // namespace offbeat
