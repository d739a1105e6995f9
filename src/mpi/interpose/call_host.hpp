// SPDX-License-Identifier: BSD-3-Clause
// Calls the host's own function of a collective, also by the name of one of its algorithms: native(NAME).
//
// The host may leave its function by an exception or a jump. So nothing here has a destructor.
#pragma once

#include <tuple>
#include <type_traits>

#include "mpi/host/collective_functions.hpp"
#include "mpi/interpose/outcome.hpp"
#include "mpi/interpose/request_calls.hpp"
#include "mpi/process/runtime.hpp"

namespace offbeat::wrapped {

// Serves a call of MPI_X_c, which the program has found in offbeat, although the host is older than MPI 4.
template <Collective collective, Form form, class... Arguments>
int call_without_large_counts(const Host& host, MPI_Comm communicator, Arguments... arguments) {
  if constexpr (!(std::is_same_v<Arguments, const MPI_Count*> || ...)) {
    const auto narrow = []<class Argument>(Argument argument) {
      if constexpr (std::is_same_v<Argument, MPI_Count>) {
        return static_cast<int>(argument);
      } else {
        return argument;
      }
    };
    const auto function =
        host.collectives.find<collective, form, CountKind::int_counts>(narrow(arguments)...);
    if (function == nullptr) return raise(host, communicator, MPI_ERR_UNSUPPORTED_OPERATION);
    if (((arguments == narrow(arguments)) && ...)) return function(narrow(arguments)...);
  }
  return raise(host, communicator, MPI_ERR_COUNT);
}

template <Collective collective, Form form, CountKind counts, class... Arguments>
int call_host(const Host& host, MPI_Comm communicator, Arguments... arguments) {
  const auto function = host.collectives.find<collective, form, counts>(arguments...);
  if (form != Form::blocking || counts == CountKind::large) {
    if (function == nullptr) {
      if constexpr (counts == CountKind::large)
        return call_without_large_counts<collective, form>(host, communicator, arguments...);
      return raise(host, communicator, MPI_ERR_UNSUPPORTED_OPERATION);
    }
  }
  return function(arguments...);
}

// Makes the host run this call by the algorithm NAME, if native(NAME) is in last_algorithm. If offbeat cannot
// tell the host the NAME for this call, the host chooses.
template <Collective collective, Form form, CountKind counts, class... Arguments>
[[gnu::noinline]] int call_by_name(Runtime& process, MPI_Comm communicator, Arguments... arguments) {
  static_assert(form != Form::persistent);
  const NamedAlgorithmCall way = process.by_name(communicator, collective, form == Form::nonblocking);
  if (way.shadow != MPI_COMM_NULL) {
    // The communicator is the last argument, or the one before the request.
    std::tuple all(arguments...);
    std::get<sizeof...(arguments) - (form == Form::blocking ? 1 : 2)>(all) = way.shadow;
    const int code = std::apply(
        [&](auto... each) { return call_host<collective, form, counts>(process.host, way.shadow, each...); },
        all);
    return code == MPI_SUCCESS ? code : raise(process.host, communicator, code);
  }
  if (way.variables == nullptr)
    return call_host<collective, form, counts>(process.host, communicator, arguments...);
  way.variables->restore();
  way.variables->set(*way.algorithm);
  const int code = call_host<collective, form, counts>(process.host, communicator, arguments...);
  way.variables->restore();
  return code;
}

// Calls the host for a blocking or non-blocking call that offbeat does not serve. The program's error handler
// may have freed the communicator when the host returns.
template <Collective collective, Form form, CountKind counts, class... Arguments>
[[gnu::always_inline]] inline int call_as_chosen(Runtime& process, const Outcome& outcome,
                                                 MPI_Comm communicator, Arguments... arguments) {
  const int code = outcome.kind == Outcome::Kind::by_name
                       ? call_by_name<collective, form, counts>(process, communicator, arguments...)
                       : call_host<collective, form, counts>(process.host, communicator, arguments...);
  if (code != MPI_SUCCESS) [[unlikely]]
    process.note_rejected_call(communicator);
  return code;
}

}  // namespace offbeat::wrapped
