// SPDX-License-Identifier: BSD-3-Clause
// What the functions do that the preload puts before the host MPI's; cmake/entry_points.py writes these.
//
// Both MPI_X and PMPI_X are exported. MPI_X is what programs call; a tool that stands behind us gets it first
// (tools.hpp). PMPI_X is what tools call, and Open MPI's Fortran bindings, with Fortran's sentinels already
// turned into C's: so one C function serves every language. A call from inside offbeat, or from inside the
// host while offbeat calls it, goes straight through.
//
// The functions that call the host, a tool or an error handler hold nothing that has to be destroyed, because
// such a call may not return: programs install error handlers that throw, or that jump.
#pragma once

#include <type_traits>

#include "mpi/interpose/serve.hpp"
#include "mpi/spawn_infos.hpp"

namespace offbeat::wrapped {

// Where a call of our function of this name goes on to: that of MPI_X to a tool behind us, if there is one,
// that of PMPI_X to the host.
template <Name name, class Signature>
[[nodiscard]] Signature* next() {
  if (name.text[0] == 'P' || inside_offbeat) {
    return found_once<Signature>([] { return runtime().host.find_profiled(name.text); });
  }
  return found_once<Signature>([] { return runtime().host.behind(name.text); });
}

// -- collectives

inline int raise(const Host& host, MPI_Comm communicator, int code) {
  host.Comm_call_errhandler(communicator, code);
  return code;
}

// The host is older than MPI 4, and the program has found MPI_X_c here.
template <Collective collective, class... Arguments>
int call_without_large_counts(const Host& host, MPI_Comm communicator, Arguments... arguments) {
  if constexpr (!(std::is_same_v<Arguments, const MPI_Count*> || ...)) {
    const auto narrow = []<class Argument>(Argument argument) {
      if constexpr (std::is_same_v<Argument, MPI_Count>) {
        return static_cast<int>(argument);
      } else {
        return argument;
      }
    };
    if (((arguments == narrow(arguments)) && ...))
      return host.collectives.find<collective, CountKind::of_int>(narrow(arguments)...)(narrow(arguments)...);
  }
  return raise(host, communicator, MPI_ERR_COUNT);
}

// PMPI_X of a served collective.
template <Collective collective, CountKind counts, class... Arguments>
[[gnu::noinline]] int call(Arguments... arguments) {
  Runtime& process = runtime();
  const auto call = Signature<collective>::read(arguments...);
  if (!inside_offbeat) [[likely]] {
    const Outcome outcome = serve<collective>(process, call);
    if (outcome.kind == Outcome::Kind::served) [[likely]]
      return MPI_SUCCESS;
    if (outcome.kind == Outcome::Kind::failed) return raise(process.host, call.communicator, outcome.code);
  }
  const auto function = process.host.collectives.find<collective, counts>(arguments...);
  if constexpr (counts == CountKind::large) {
    if (function == nullptr)
      return call_without_large_counts<collective>(process.host, call.communicator, arguments...);
  }
  return function(arguments...);
}

// MPI_X.
template <Collective collective, CountKind counts, class... Arguments>
int call_of_program(Arguments... arguments) {
  const auto tool = runtime().tools.find<collective, counts>(arguments...);
  if (tool != nullptr && !inside_offbeat) [[unlikely]]
    return tool(arguments...);
  return call<collective, counts>(arguments...);
}

// -- life

// Offbeat has started: to find `next` it did.
template <class Next, class... Arguments>
int init(Next* next, Arguments... arguments) {
  return next(arguments...);
}

inline int finalize(decltype(PMPI_Finalize)* next) {
  if (!inside_offbeat) {
    const InsideOffbeat guard;
    runtime().finalize();
  }
  return next();
}

// MPI_COMM_WORLD and MPI_COMM_SELF cannot be freed: the host says so, and all goes on.
inline int frees_communicator(int (*next)(MPI_Comm*), MPI_Comm* communicator) {
  if (inside_offbeat || communicator == nullptr || *communicator == MPI_COMM_NULL ||
      *communicator == MPI_COMM_WORLD || *communicator == MPI_COMM_SELF) {
    return next(communicator);
  }
  return runtime().free_communicator(*communicator, next, communicator);
}

// -- spawned processes, which run under the preload, too; see spawn_infos.hpp

inline int spawn(decltype(PMPI_Comm_spawn)* next, const char* command, char** arguments, int most,
                 MPI_Info info, int root, MPI_Comm communicator, MPI_Comm* made, int* codes) {
  const SpawnInfos infos(runtime().host, 1, &info, root, communicator);
  return next(command, arguments, most, infos.data()[0], root, communicator, made, codes);
}

inline int spawn_multiple(decltype(PMPI_Comm_spawn_multiple)* next, int count, char** commands,
                          char*** arguments, const int* most, const MPI_Info* program_infos, int root,
                          MPI_Comm communicator, MPI_Comm* made, int* codes) {
  const SpawnInfos infos(runtime().host, count, program_infos, root, communicator);
  return next(count, commands, arguments, most, infos.data(), root, communicator, made, codes);
}

}  // namespace offbeat::wrapped
