// SPDX-License-Identifier: BSD-3-Clause
// native(NAME) can name these algorithms of the host MPIs. host_algorithms.txt lists them for all versions of
// each MPI. NamedHostAlgorithms says which of them this process can tell its host to use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/algorithm.hpp"
#include "selection/host_mpi.hpp"

namespace offbeat {

// One algorithm of one host's collective.
struct HostAlgorithm {
  HostMpi host;
  Collective collective;
  bool is_nonblocking;                // an algorithm of MPI_Ix
  std::string_view name;              // NAME
  std::string_view name_in_host_mpi;  // the host's own name
  std::string_view later_name;        // what later versions call it, or empty
  int number;                         // its place in the list of the call, from 1
  int ranks = 0;                      // the only number of ranks that it runs on; 0: any
  bool may_be_named = true;
};

// Returns all lines of host_algorithms.txt.
[[nodiscard]] const std::vector<HostAlgorithm>& host_algorithms();
[[nodiscard]] std::string_view host_algorithms_text();

// NamedHostAlgorithms holds the algorithms of this process's host that native(NAME) can name. Their hash()
// must be equal on all ranks of a communicator.
struct NamedHostAlgorithms {
  std::string host;                              // what the host calls itself, for people
  std::string reason_for_none;                   // the reason if the offer is empty, for people
  std::string reason_for_no_blocking;            // likewise if it has nothing for blocking calls
  std::vector<const HostAlgorithm*> algorithms;  // in the order of host_algorithms()
  bool needs_communicators = false;              // a blocking call by name needs a communicator for that name

  // Returns the offered algorithm, or null if there is none of this name.
  [[nodiscard]] const HostAlgorithm* find(Collective collective, bool is_nonblocking,
                                          std::string_view name) const;
  // Returns the names for a call as text, such as "ring, linear"; "none" if there is none.
  [[nodiscard]] std::string names(Collective collective, bool is_nonblocking) const;
  // Returns the reason why calls cannot run an expression under this host on `ranks` ranks, or an empty text
  // if they can. An expression without native(NAME) always can.
  [[nodiscard]] std::string why_not(Collective collective, bool is_nonblocking, const Expression& expression,
                                    int ranks) const;
  [[nodiscard]] std::uint64_t hash() const;
};

// Returns everything that some version of `host` has. It serves where no MPI runs, such as `offbeat explain`.
// Under Intel MPI a rule cannot name an algorithm, so the offer is empty.
[[nodiscard]] NamedHostAlgorithms nameable_algorithms_of_any_version(HostMpi host);

// Returns the position of a name in MPICH's description of a variable, which lists "name - text" for each
// value from 0. Some versions have no line breaks there, so `known` must then contain every name.
[[nodiscard]] std::optional<int> position_in_description(std::string_view description, std::string_view name,
                                                         const std::vector<std::string_view>& known);

}  // namespace offbeat
