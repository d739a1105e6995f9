// SPDX-License-Identifier: BSD-3-Clause
// HostVariables makes the host run one of its own algorithms: native(NAME).
//
//   Open MPI   reads its control variables (MPI_T) for blocking calls when it makes a communicator, so each
//              name needs a communicator of its own (mpi/communicators/shadows.hpp).
//   MPICH, and Open MPI in non-blocking calls
//              read them in each call, so they are set around the call.
//   Intel MPI  reads environment variables in MPI_Init, so a name holds for the whole run.
//
// The variables belong to the process. Under MPI_THREAD_MULTIPLE another thread might call MPI while one is
// set, on this rank only, and the ranks would run different algorithms. So nothing is offered there.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mpi/host/host.hpp"
#include "selection/host_algorithms.hpp"

namespace offbeat {

class Selection;

class HostVariables {
 public:
  // Prepares the environment in which MPI starts, for the names that settings and rules contain. Call it
  // before MPI_Init, once these are known.
  static void prepare(const Host& host, const Selection& selection);

  // MPI must be running. It must not be asked earlier, because MPI_T_init_thread freezes the parameters that
  // the program may still want to set.
  explicit HostVariables(const Host& host);
  HostVariables(const HostVariables&) = delete;
  HostVariables& operator=(const HostVariables&) = delete;

  [[nodiscard]] const NamedHostAlgorithms& offer() const { return offer_; }

  // Sets the variables that make the host run this algorithm, which it offers. restore() gives all of them
  // their values of before. The host may leave a call by the program's error handler, so that restore() does
  // not follow. Call it before set(), too.
  void set(const HostAlgorithm& algorithm);
  void restore();

  // Lets go of MPI_T. Call this before MPI_Finalize; nothing may be set afterwards.
  void end();

  // The program has begun a communicator that the host makes in some later call, perhaps while a variable is
  // set.
  static void has_begun_communicator() { has_begun_communicator_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] static bool may_set_for_communicators() {
    return !has_begun_communicator_.load(std::memory_order_relaxed);
  }

 private:
  void find_open_mpi();
  void find_mpich();
  // What the environment tells Intel MPI.
  void find_intel();
  [[nodiscard]] std::optional<MPI_T_cvar_handle> variable(const std::string& name) const;
  // Returns the list in which the host describes a variable: its enumeration, or its text.
  [[nodiscard]] std::string description(const std::string& name) const;
  [[nodiscard]] std::optional<int> value_in_enumeration(const std::string& name,
                                                        std::string_view spelling) const;
  void offer(const HostAlgorithm& algorithm, MPI_T_cvar_handle choice_variable, int value,
             std::optional<MPI_T_cvar_handle> switch_variable, int switch_value);

  // How one algorithm is chosen: a variable, and another one that has to have a certain value meanwhile.
  struct AlgorithmVariables {
    const HostAlgorithm* algorithm;
    MPI_T_cvar_handle choice_variable;
    int value;
    std::optional<MPI_T_cvar_handle> switch_variable;
    int switch_value;
  };
  struct PreviousValue {
    MPI_T_cvar_handle variable;
    int value;
  };
  void write(MPI_T_cvar_handle variable, int value);

  static inline std::atomic<bool> has_begun_communicator_{false};

  const Host& host_;
  HostFunction<decltype(PMPI_T_cvar_write)> write_;
  HostFunction<decltype(PMPI_T_cvar_read)> read_;
  NamedHostAlgorithms offer_;
  std::vector<AlgorithmVariables> variables_of_algorithms_;
  std::vector<PreviousValue> previous_value_;  // what restore() has to write, the last first
  bool has_begun_ = false;                     // MPI_T is initialised
};

}  // namespace offbeat
