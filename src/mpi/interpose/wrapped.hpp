// SPDX-License-Identifier: BSD-3-Clause
// These functions do the work of those that the preload puts before the host MPI's. cmake/entry_points.py
// writes the latter.
//
// Both MPI_X and PMPI_X are exported. Programs call MPI_X; a tool behind offbeat gets that call first
// (profilers.hpp). Tools call PMPI_X, and so do Open MPI's Fortran bindings, which have already turned
// Fortran's sentinels into C's. So one C function serves every language. A call from inside offbeat, or from
// inside the host while offbeat calls it, goes straight through.
//
// Functions that call the host, a tool or an error handler hold nothing that has to be destroyed, because
// such a call may not return: programs install error handlers that throw, or that jump. Only the spawns keep
// their copies of the program's infos meanwhile; a jump out of a spawn leaks these copies.
#pragma once

#include <tuple>
#include <type_traits>

#include "mpi/host/entry.hpp"
#include "mpi/host/name_unknown_settings.hpp"
#include "mpi/host/spawn_infos.hpp"
#include "mpi/interpose/activity.hpp"
#include "mpi/interpose/call_host.hpp"
#include "mpi/interpose/request_calls.hpp"
#include "mpi/interpose/serve.hpp"

namespace offbeat::wrapped {

// Returns the function to which offbeat's MPI_X or PMPI_X passes a call on. MPI_X goes to the MPI_X of the
// next tool. Without a tool, or from inside offbeat, it goes to the host's PMPI_X. PMPI_X always goes to the
// host's. Null if the host has no such function.
template <Name name, class Signature>
[[nodiscard]] Signature* next() {
  if (name.text[0] == 'P' || inside_offbeat) {
    return found_once<Signature>([] { return runtime().host.find_profiled(name.text); });
  }
  return found_once<Signature>([] { return runtime().host.find_next(name.text); });
}

// The library as entry.hpp needs it.
struct Library {
  static bool is_started() { return has_runtime(); }
  static bool try_start() { return start_runtime_or_pass_on(); }
};

// -- collectives

template <Collective collective, CountKind counts, class Call, class... Arguments>
[[gnu::always_inline]] inline int call_blocking(Runtime& process, const Call& call, Arguments... arguments) {
  const Outcome outcome = serve<collective>(process, call);
  if (outcome.kind == Outcome::Kind::served) [[likely]]
    return MPI_SUCCESS;
  if (outcome.kind == Outcome::Kind::failed) return raise(process.host, call.communicator, outcome.code);
  RowTrial* const trial = outcome.measured_where != Outcome::none ? trial_of_host : nullptr;
  Communicator* const counting = outcome.is_counted ? communicator_of_call : nullptr;
  const Expression* const named = last_algorithm;
  const int code =
      call_as_chosen<collective, Form::blocking, counts>(process, outcome, call.communicator, arguments...);
  // After a failure, the program's error handler may have freed the communicator.
  if (code != MPI_SUCCESS) return code;
  if (trial != nullptr) [[unlikely]]
    trial->end_call();
  if (counting != nullptr) counting->end_blocking(collective, named);
  return code;
}

// Serves a call of MPI_IX.
template <Collective collective, CountKind counts, class Call, class... Arguments>
int call_nonblocking(Runtime& process, const Call& call, Arguments... arguments) {
  constexpr Form form = Form::nonblocking;
  MPI_Request* request = std::get<sizeof...(arguments) - 1>(std::tie(arguments...));
  Outcome outcome;
  const Activity* activity = make_activity<collective, form>(process, call, outcome).release();
  if (outcome.kind == Outcome::Kind::alone) {
    outcome = serve<collective>(process, call);
    // The copy is over, so an empty request of the host suffices.
    if (outcome.kind == Outcome::Kind::served) return process.host.Ibarrier(call.communicator, request);
  }
  if (outcome.kind == Outcome::Kind::failed) return raise(process.host, call.communicator, outcome.code);
  if (activity != nullptr) {
    *request = activity->request();
    return MPI_SUCCESS;
  }
  if (outcome.measured_where != Outcome::none) [[unlikely]] {
    const std::uint64_t begun = RowTrial::now();
    const int code =
        call_as_chosen<collective, form, counts>(process, outcome, call.communicator, arguments...);
    measured_requests.note_begun(outcome.measured_where, code, *request, begun);
    return code;
  }
  return call_as_chosen<collective, form, counts>(process, outcome, call.communicator, arguments...);
}

// Serves a call of MPI_X_init. The host makes its request first: if it rejects the call on this rank alone,
// the rank must not have made an activity, because the others make theirs in the order of their requests.
template <Collective collective, CountKind counts, class Call, class... Arguments>
int call_persistent(Runtime& process, const Call& call, Arguments... arguments) {
  constexpr Form form = Form::persistent;
  MPI_Request* request = std::get<sizeof...(arguments) - 1>(std::tie(arguments...));
  const int code = call_host<collective, form, counts>(process.host, call.communicator, arguments...);
  if (code != MPI_SUCCESS) return code;
  Outcome outcome;
  Activity* activity = make_activity<collective, form>(process, call, outcome).release();
  if (outcome.kind == Outcome::Kind::failed) {
    process.host.Request_free(request);
    return raise(process.host, call.communicator, outcome.code);
  }
  if (activity != nullptr) activity->register_persistent(*request);
  return MPI_SUCCESS;
}

// Runs PMPI_X of a served collective.
template <Collective collective, Form form, CountKind counts, class... Arguments>
[[gnu::noinline]] int call(Arguments... arguments) {
  Runtime& process = runtime();
  const auto call = Signature<collective>::read(arguments...);
  if (inside_offbeat) [[unlikely]]
    return call_host<collective, form, counts>(process.host, call.communicator, arguments...);
  if constexpr (form == Form::blocking) {
    return call_blocking<collective, counts>(process, call, arguments...);
  } else if constexpr (form == Form::nonblocking) {
    return call_nonblocking<collective, counts>(process, call, arguments...);
  } else {
    return call_persistent<collective, counts>(process, call, arguments...);
  }
}

// Does the work of MPI_X of a served collective.
template <Collective collective, Form form, CountKind counts, class... Arguments>
int call_of_program(Arguments... arguments) {
  const auto tool = runtime().profilers.find<collective, form, counts>(arguments...);
  if (tool != nullptr && !inside_offbeat) [[unlikely]]
    return tool(arguments...);
  return call<collective, form, counts>(arguments...);
}

// -- communicators that are made of one on which the program makes non-blocking calls

// Makes a communicator from a parent, the first argument. The last argument says where the new communicator
// is.
template <class Next, class... Arguments>
int creates(Next* next, Arguments... arguments) {
  const int code = next(arguments...);
  if (code != MPI_SUCCESS || inside_offbeat) return code;
  const MPI_Comm parent = std::get<0>(std::tie(arguments...));
  const MPI_Comm made = *std::get<sizeof...(arguments) - 1>(std::tie(arguments...));
  if (runtime().is_left_to_host(parent)) {
    runtime().leave_to_host(made);
  } else {
    agree_early(parent, made);
  }
  return code;
}

// Begins a communicator from a parent, which the host makes in a later call.
template <class Next, class... Arguments>
int begins_communicator(Next* next, Arguments... arguments) {
  if (next == nullptr) return MPI_ERR_UNSUPPORTED_OPERATION;
  HostVariables::has_begun_communicator();
  return next(arguments...);
}

// -- communicators that are made of groups, which may be those of a session

// Makes a communicator from a group. The last argument says where the new communicator is. The host may be
// older than the function.
template <class Next, class... Arguments>
int creates_from_groups(Next* next, Arguments... arguments) {
  if (next == nullptr) return MPI_ERR_UNSUPPORTED_OPERATION;
  const int code = next(arguments...);
  if (code == MPI_SUCCESS && !inside_offbeat)
    runtime().leave_to_host(*std::get<sizeof...(arguments) - 1>(std::tie(arguments...)));
  return code;
}

// Makes a communicator for some ranks of a parent, which may come from a session. The other ranks need not
// call this function.
template <class Next, class... Arguments>
int creates_for_some(Next* next, Arguments... arguments) {
  const int code = next(arguments...);
  if (code == MPI_SUCCESS && !inside_offbeat &&
      runtime().is_left_to_host(std::get<0>(std::tie(arguments...))))
    runtime().leave_to_host(*std::get<sizeof...(arguments) - 1>(std::tie(arguments...)));
  return code;
}

// -- windows

// MPICH looks first and then lets messages in. So only the second look sees what came in before a barrier of
// offbeat. A barrier of the host would already have let it in.
inline int win_test(decltype(PMPI_Win_test)* next, MPI_Win window, int* flag) {
  const int code = next(window, flag);
  return code == MPI_SUCCESS && *flag == 0 && !inside_offbeat ? next(window, flag) : code;
}

// -- life

// A host may call MPI_Init inside MPI_Init_thread or the other way round, and a tool calls PMPI_Init.
//
// Everything that offbeat needs from a running MPI is made here, because making it lets the host progress. A
// non-blocking collective must not make it: Open MPI would then advance an MPI_Comm_idup before that
// collective on some ranks and after it on others, and mix up their messages. If something fails here, the
// next blocking collective tries again.
template <class Next, class... Arguments>
int init(Next* next, Arguments... arguments) {
  const int code = next(arguments...);
  if (code != MPI_SUCCESS) return code;
  name_unknown_settings(runtime().host);
  if (inside_offbeat) return code;
  const InsideOffbeat guard;
  run_ignoring_exceptions([] { static_cast<void>(runtime().is_started()); });
  return code;
}

inline int finalize(decltype(PMPI_Finalize)* next) {
  if (!inside_offbeat) {
    const InsideOffbeat guard;
    runtime().begin_to_finalize();
  }
  return next();
}

// MPI_COMM_WORLD and MPI_COMM_SELF cannot be freed: the host reports that, and they stay in use.
inline int frees_communicator(int (*next)(MPI_Comm*), MPI_Comm* communicator) {
  if (inside_offbeat || communicator == nullptr || *communicator == MPI_COMM_NULL ||
      *communicator == MPI_COMM_WORLD || *communicator == MPI_COMM_SELF) {
    return next(communicator);
  }
  return runtime().free_communicator(*communicator, next, communicator);
}

// -- spawned processes, which also run under the preload; see spawn_infos.hpp

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
