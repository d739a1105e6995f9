// SPDX-License-Identifier: BSD-3-Clause
// What the tracer does around a call of the program. cmake/entry_points.py writes the functions that programs
// see. Each of them calls one of the functions below with `next`, the function that does the work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <type_traits>

#include "mpi/host/entry.hpp"
#include "mpi/host/name_unknown_settings.hpp"
#include "mpi/host/request_functions.hpp"
#include "mpi/host/spawn_infos.hpp"
#include "mpi/tracer/bit_vector.hpp"
#include "mpi/tracer/describe.hpp"

namespace offbeat::trace::wrapped {

using trace::next;
// The Library that entry.hpp describes.
struct Library {
  static bool is_started() { return has_lower_layers(); }
  static bool try_start() { return find_lower_layers_or_pass_on(); }
};
using RequestCalls = RequestWrappers<Tracer>;

// Returns the request that a call made, which is its last argument.
template <class... Arguments>
MPI_Request request_of(const Arguments&... arguments) {
  return *std::get<sizeof...(Arguments) - 1>(std::tie(arguments...));
}

// Reports the error of a host that is too old to have the function.
inline int unsupported(MPI_Comm communicator) {
  lower_layers().host.Comm_call_errhandler(communicator, MPI_ERR_UNSUPPORTED_OPERATION);
  return MPI_ERR_UNSUPPORTED_OPERATION;
}

// Returns the algorithm of this thread's call that has just returned, or null if it was native. offbeat does
// not see collectives that it never serves, so they have none.
template <Collective collective>
const char* last_algorithm() {
  return facts_of(collective).is_served ? lower_layers().last_algorithm() : nullptr;
}

template <Collective collective, class Next, class... Arguments>
int blocking(Tracer& tracer, Next* next, Arguments... arguments) {
  const Nanoseconds arrival = clock::now();
  const InsideOffbeat guard;
  OpenCall open;
  BitVector vector;
  run_ignoring_exceptions([&] {
    const auto lock = tracer.lock();
    const auto call = Signature<collective>::read(arguments...);
    Communicator* communicator = tracer.count_call_on(call.communicator);
    if (communicator == nullptr || !tracer.is_to_be_recorded(collective, *communicator)) return;
    const ArgumentFacts facts = describe<collective>(tracer, *communicator, call);
    if constexpr (collective == Collective::allreduce) vector = BitVector(tracer, facts, call);
    open = tracer.begin(collective, 0, *communicator, facts, arrival);
  });
  const int code = next(arguments...);
  if (open.is_recorded()) {
    const Nanoseconds exit = clock::now();
    run_ignoring_exceptions([&] {
      const auto lock = tracer.lock();
      if constexpr (collective == Collective::allreduce) {
        if (vector.is_one()) {
          const Bits bits = vector.set_and_cleared();
          return tracer.record_exit(open, exit, true, last_algorithm<collective>(), &bits);
        }
      }
      tracer.record_exit(open, exit, true, last_algorithm<collective>());
    });
  }
  return code;
}

template <Collective collective, class Next, class... Arguments>
int nonblocking(Tracer& tracer, Next* next, Arguments... arguments) {
  const Nanoseconds arrival = clock::now();
  const InsideOffbeat guard;
  OpenCall open;
  run_ignoring_exceptions([&] {
    const auto lock = tracer.lock();
    const auto call = Signature<collective>::read(arguments...);
    Communicator* communicator = tracer.count_call_on(call.communicator);
    if (communicator == nullptr || !tracer.is_to_be_recorded(collective, *communicator)) return;
    const ArgumentFacts facts = describe<collective>(tracer, *communicator, call);
    open = tracer.begin(collective, CallFlag::nonblocking, *communicator, facts, arrival);
  });
  const int code = next(arguments...);
  if (!open.is_recorded()) return code;
  const Nanoseconds exit = clock::now();
  const MPI_Request request = request_of(arguments...);
  run_ignoring_exceptions([&] {
    const auto lock = tracer.lock();
    const bool is_complete = code != MPI_SUCCESS || tracer.requests.is_null(request);
    tracer.record_exit(open, exit, is_complete, last_algorithm<collective>());
    if (!is_complete) {
      tracer.requests.insert(request, {.open = open, .prepared = nullptr});
    }
  });
  return code;
}

template <Collective collective, class Next, class... Arguments>
int persistent(Tracer& tracer, Next* next, Arguments... arguments) {
  const InsideOffbeat guard;
  const int code = next(arguments...);
  if (code != MPI_SUCCESS) return code;
  const MPI_Request request = request_of(arguments...);
  run_ignoring_exceptions([&] {
    const auto lock = tracer.lock();
    const auto call = Signature<collective>::read(arguments...);
    std::shared_ptr<Communicator> communicator = tracer.prepared(call.communicator);
    if (communicator == nullptr) return;
    const ArgumentFacts facts = describe<collective>(tracer, *communicator, call);
    tracer.requests.insert(
        request,
        {.open = {}, .prepared = std::make_shared<PersistentCollective>(collective, communicator, facts)});
  });
  return code;
}

template <Collective collective, Form form, class Next, class... Arguments>
int call(Next* next, Arguments... arguments) {
  if (next == nullptr) [[unlikely]]
    return unsupported(Signature<collective>::read(arguments...).communicator);
  Tracer* tracer = Tracer::tracer_if_called_by_program();
  if (tracer == nullptr) return next(arguments...);
  if constexpr (form == Form::blocking) return blocking<collective>(*tracer, next, arguments...);
  if constexpr (form == Form::nonblocking) return nonblocking<collective>(*tracer, next, arguments...);
  if constexpr (form == Form::persistent) return persistent<collective>(*tracer, next, arguments...);
}

// -- communicators

enum class Parent : std::uint8_t {
  none,   // no parent, or different ones on different ranks
  first,  // the first argument
  group,  // the first argument, with the same ranks; the new communicator need not be usable yet
};

template <Parent parent, class Next, class... Arguments>
int creates(Next* next, Arguments... arguments) {
  if (next == nullptr) [[unlikely]]
    return MPI_ERR_UNSUPPORTED_OPERATION;
  Tracer* tracer = Tracer::tracer_if_called_by_program();
  if (tracer == nullptr) return next(arguments...);
  const InsideOffbeat guard;
  const int code = next(arguments...);
  if (code != MPI_SUCCESS) return code;
  // The new communicator is the first argument of this type. In MPICH later ones may have this type, too,
  // such as the request of MPI_Comm_idup.
  MPI_Comm* made_at = nullptr;
  const auto look = [&](const auto& argument) {
    if constexpr (std::is_same_v<std::decay_t<decltype(argument)>, MPI_Comm*>) {
      if (made_at == nullptr) made_at = argument;
    }
  };
  (look(arguments), ...);
  const MPI_Comm made = *made_at;
  run_ignoring_exceptions([&] {
    const auto lock = tracer->lock();
    if (tracer->is_null_communicator(made)) return;
    if constexpr (parent == Parent::none) {
      tracer->add_communicator(made, MPI_COMM_NULL, false);
    } else {
      tracer->add_communicator(made, std::get<0>(std::tie(arguments...)), parent == Parent::group);
    }
  });
  return code;
}

inline int spawn(decltype(PMPI_Comm_spawn)* next, const char* command, char* arguments[], int most,
                 MPI_Info info, int root, MPI_Comm communicator, MPI_Comm* made, int codes[]) {
  const SpawnInfos infos(lower_layers().host, 1, &info, root, communicator);
  return creates<Parent::none>(next, command, arguments, most, infos.data()[0], root, communicator, made,
                               codes);
}
inline int spawn_multiple(decltype(PMPI_Comm_spawn_multiple)* next, int count, char* commands[],
                          char** arguments[], const int most[], const MPI_Info program_infos[], int root,
                          MPI_Comm communicator, MPI_Comm* made, int codes[]) {
  const SpawnInfos infos(lower_layers().host, count, program_infos, root, communicator);
  return creates<Parent::none>(next, count, commands, arguments, most, infos.data(), root, communicator, made,
                               codes);
}

// The communicator is removed before the call, because another thread may get its handle as soon as it is
// free.
template <class Next>
int frees_communicator(Next* next, MPI_Comm* communicator) {
  Tracer* tracer = Tracer::tracer_if_called_by_program();
  if (tracer == nullptr) return next(communicator);
  const InsideOffbeat guard;
  {
    const auto lock = tracer->lock();
    tracer->remove(*communicator);
  }
  return next(communicator);
}

inline int type_free(decltype(PMPI_Type_free)* next, MPI_Datatype* type) {
  if (Tracer* tracer = Tracer::tracer_if_called_by_program()) {
    const auto lock = tracer->lock();
    tracer->forget_type(*type);
  }
  return next(type);
}

inline int op_free(decltype(PMPI_Op_free)* next, MPI_Op* op) {
  if (Tracer* tracer = Tracer::tracer_if_called_by_program()) {
    const auto lock = tracer->lock();
    tracer->forget_operation(*op);
  }
  return next(op);
}

// -- life

// MPI_Pcontrol(0) pauses the trace of this rank, and MPI_Pcontrol(1) goes on with it. The host gets only the
// level, because C cannot pass on further arguments.
template <class Next>
int pcontrol(Next* next, int level) {
  if (Tracer* tracer = Tracer::tracer_if_called_by_program();
      tracer != nullptr && (level == 0 || level == 1)) {
    const auto lock = tracer->lock();
    tracer->pause(level == 0);
  }
  return next(level);
}

// Serves MPI_Init and MPI_Init_thread. A host may implement one by calling the other.
template <class Next, class... Arguments>
int init(Next* next, Arguments... arguments) {
  if (inside_offbeat) return next(arguments...);
  int code = MPI_SUCCESS;
  {
    const InsideOffbeat guard;
    code = next(arguments...);
  }
  // If liboffbeat-<family>.so is below, that library prints the warning.
  if (code == MPI_SUCCESS && !lower_layers().has_offbeat()) name_unknown_settings(lower_layers().host);
  if (code == MPI_SUCCESS) start_tracer_or_exit();
  return code;
}

inline int finalize(decltype(PMPI_Finalize)* next) {
  if (!inside_offbeat) stop_tracer();
  return next();
}

}  // namespace offbeat::trace::wrapped
