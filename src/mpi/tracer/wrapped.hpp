// SPDX-License-Identifier: BSD-3-Clause
// The tracer's work around a call of the program. cmake/trace_functions.py writes the functions that
// programs see; each calls one of these with the function `next` that does the work.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/pool.hpp"
#include "mpi/spawn_infos.hpp"
#include "mpi/tracer/describe.hpp"

namespace offbeat::trace::wrapped {

enum class Form : std::uint8_t { blocking, nonblocking, persistent };

// The communicator is the last argument, but for `request`, and `info` and `request`.
template <Form form, class... Arguments>
MPI_Comm communicator_of(const Arguments&... arguments) {
  constexpr std::size_t behind = form == Form::blocking ? 1 : form == Form::nonblocking ? 2 : 3;
  return std::get<sizeof...(Arguments) - behind>(std::tie(arguments...));
}

inline const void* this_thread() { return &inside_offbeat; }

// Bookkeeping must not fail a call of the program: without memory it goes on unrecorded.
template <class Body>
void if_possible(Body&& body) noexcept {
  try {
    body();
  } catch (...) {
  }
}

// The error of a host that is too old for the function.
inline int unsupported(MPI_Comm communicator) {
  below().host.Comm_call_errhandler(communicator, MPI_ERR_UNSUPPORTED_OPERATION);
  return MPI_ERR_UNSUPPORTED_OPERATION;
}

template <Collective collective, class Next, class... Arguments>
int blocking(Tracer& tracer, Next* next, Arguments... arguments) {
  const Nanoseconds arrival = clock::now();
  const InsideOffbeat guard;
  Open open;
  if_possible([&] {
    const auto lock = tracer.lock();
    const MPI_Comm handle = communicator_of<Form::blocking>(arguments...);
    Communicator* communicator = tracer.counted(handle);
    if (communicator == nullptr || !tracer.wants(*communicator)) return;
    const Facts facts = Describer(tracer, handle, *communicator)(Of<collective>{}, arguments...);
    open = tracer.begin(collective, 0, *communicator, facts, arrival);
  });
  const int code = next(arguments...);
  if (open.is_recorded()) {
    const Nanoseconds exit = clock::now();
    const char* (*last_algorithm)() = collective == Collective::allreduce ? below().last_algorithm : nullptr;
    if_possible([&] {
      const auto lock = tracer.lock();
      tracer.leave(open, exit, true, last_algorithm != nullptr ? last_algorithm() : nullptr);
    });
  }
  return code;
}

template <Collective collective, class Next, class... Arguments>
int nonblocking(Tracer& tracer, Next* next, Arguments... arguments) {
  const Nanoseconds arrival = clock::now();
  const InsideOffbeat guard;
  Open open;
  if_possible([&] {
    const auto lock = tracer.lock();
    const MPI_Comm handle = communicator_of<Form::nonblocking>(arguments...);
    Communicator* communicator = tracer.counted(handle);
    if (communicator == nullptr || !tracer.wants(*communicator)) return;
    const Facts facts = Describer(tracer, handle, *communicator)(Of<collective>{}, arguments...);
    open = tracer.begin(collective, CallFlag::nonblocking, *communicator, facts, arrival);
  });
  const int code = next(arguments...);
  if (!open.is_recorded()) return code;
  const Nanoseconds exit = clock::now();
  const MPI_Request request = *std::get<sizeof...(Arguments) - 1>(std::tie(arguments...));
  if_possible([&] {
    const auto lock = tracer.lock();
    const bool is_complete = code != MPI_SUCCESS || tracer.is_null_request(request);
    tracer.leave(open, exit, is_complete);
    if (!is_complete) {
      tracer.requests.insert(abi::bits(request),
                             {.open = open, .prepared = nullptr, .thread = this_thread()});
    }
  });
  return code;
}

template <Collective collective, class Next, class... Arguments>
int persistent(Tracer& tracer, Next* next, Arguments... arguments) {
  const InsideOffbeat guard;
  const int code = next(arguments...);
  if (code != MPI_SUCCESS) return code;
  const MPI_Request request = *std::get<sizeof...(Arguments) - 1>(std::tie(arguments...));
  if_possible([&] {
    const auto lock = tracer.lock();
    const MPI_Comm handle = communicator_of<Form::persistent>(arguments...);
    std::shared_ptr<Communicator> communicator = tracer.prepared(handle);
    if (communicator == nullptr) return;
    const Facts facts = Describer(tracer, handle, *communicator)(Of<collective>{}, arguments...);
    tracer.requests.insert(abi::bits(request),
                           {.open = {},
                            .prepared = std::make_shared<Prepared>(collective, communicator, facts),
                            .thread = this_thread()});
  });
  return code;
}

template <Collective collective, Form form, class Next, class... Arguments>
int call(Next* next, Arguments... arguments) {
  if (next == nullptr) [[unlikely]]
    return unsupported(communicator_of<form>(arguments...));
  Tracer* tracer = tracer_of_program();
  if (tracer == nullptr) return next(arguments...);
  if constexpr (form == Form::blocking) return blocking<collective>(*tracer, next, arguments...);
  if constexpr (form == Form::nonblocking) return nonblocking<collective>(*tracer, next, arguments...);
  if constexpr (form == Form::persistent) return persistent<collective>(*tracer, next, arguments...);
}

// -- requests

constexpr auto any = [](const KnownRequest&) { return true; };

// MPI_Start and MPI_Startall.
template <class Body>
int starts(int count, MPI_Request* requests, Body&& body) {
  Tracer* tracer = tracer_of_program();
  if (tracer == nullptr) return body();
  const Nanoseconds arrival = clock::now();
  const InsideOffbeat guard;
  bool is_known = false;
  if_possible([&] {
    const auto lock = tracer->lock();
    for (int i = 0; i < count && tracer->requests.size() > 0; ++i) {
      KnownRequest* known = tracer->requests.find(abi::bits(requests[i]), any);
      if (known == nullptr || known->prepared == nullptr) continue;
      const Prepared& prepared = *known->prepared;
      tracer->count(*prepared.communicator);
      if (!tracer->wants(*prepared.communicator)) continue;
      known->open = tracer->begin(prepared.collective, CallFlag::persistent, *prepared.communicator,
                                  prepared.facts, arrival);
      is_known = is_known || known->open.is_recorded();
    }
  });
  const int code = body();
  if (!is_known) return code;
  const Nanoseconds exit = clock::now();
  if_possible([&] {
    const auto lock = tracer->lock();
    for (int i = 0; i < count; ++i) {
      const KnownRequest* known = tracer->requests.find(abi::bits(requests[i]), any);
      if (known != nullptr && known->prepared != nullptr)
        tracer->leave(known->open, exit, code != MPI_SUCCESS);
    }
  });
  return code;
}

// The requests of a completion call that are known: their handles are gone afterwards, and another thread may
// have got the same ones again, and even wait for them, before this one says what became of its own.
struct Claim {
  int index;
  Handle handle;
  std::uint64_t number;
};

// In memory of the pool, which is there as long as the process: objects of a thread are gone when a program
// that exits makes its last calls.
class Claims {
 public:
  explicit Claims(std::size_t most) : memory_(most * sizeof(Claim)) {}
  void add(const Claim& claim) { new (memory_.data() + size_++ * sizeof(Claim)) Claim(claim); }
  [[nodiscard]] std::span<const Claim> all() const {
    return {reinterpret_cast<const Claim*>(memory_.data()), size_};
  }

 private:
  pool::Block memory_;
  std::size_t size_ = 0;
};

inline void claim(Tracer& tracer, int count, const MPI_Request* requests, Claims& claims) {
  for (int i = 0; i < count; ++i) {
    const Handle handle = abi::bits(requests[i]);
    const auto is_free = [](const KnownRequest& request) { return request.claim == 0; };
    const auto is_own = [&](const KnownRequest& request) {
      return is_free(request) && request.thread == this_thread();
    };
    KnownRequest* known = tracer.requests.find(handle, is_own);
    if (known == nullptr) known = tracer.requests.find(handle, is_free);
    if (known == nullptr) continue;
    known->claim = ++tracer.claims;
    claims.add({i, handle, known->claim});
  }
}

// MPI_Wait, MPI_Test and their kin. `is_complete(i)` is asked after `body`, of request i.
template <class Body, class IsComplete>
int completes(int count, MPI_Request* requests, Body&& body, IsComplete&& is_complete) {
  Tracer* tracer = tracer_of_program();
  if (tracer == nullptr) return body();
  const InsideOffbeat guard;
  std::optional<Claims> claims;
  if_possible([&] {
    const auto lock = tracer->lock();
    const std::size_t most = std::min<std::size_t>(tracer->requests.size(), count > 0 ? count : 0);
    if (most > 0) claim(*tracer, count, requests, claims.emplace(most));
  });
  const int code = body();
  if (!claims || claims->all().empty()) return code;
  const Nanoseconds completion = clock::now();
  if_possible([&] {
    const auto lock = tracer->lock();
    for (const auto& [index, handle, number] : claims->all()) {
      KnownRequest* known =
          tracer->requests.find(handle, [&](const KnownRequest& request) { return request.claim == number; });
      if (known == nullptr) continue;
      known->claim = 0;
      const bool is_persistent = known->prepared != nullptr;
      if (!is_complete(code, index) && (is_persistent || !tracer->is_null_request(requests[index]))) continue;
      tracer->complete(known->open, completion);
      known->open = {};
      if (!is_persistent)
        tracer->requests.erase(handle, [&](const KnownRequest& request) { return &request == known; });
    }
  });
  return code;
}

inline int start(decltype(PMPI_Start)* next, MPI_Request* request) {
  return starts(1, request, [&] { return next(request); });
}
inline int startall(decltype(PMPI_Startall)* next, int count, MPI_Request requests[]) {
  return starts(count, requests, [&] { return next(count, requests); });
}

inline int wait(decltype(PMPI_Wait)* next, MPI_Request* request, MPI_Status* status) {
  return completes(
      1, request, [&] { return next(request, status); }, [](int code, int) { return code == MPI_SUCCESS; });
}
inline int waitall(decltype(PMPI_Waitall)* next, int count, MPI_Request requests[], MPI_Status statuses[]) {
  return completes(
      count, requests, [&] { return next(count, requests, statuses); },
      [](int code, int) { return code == MPI_SUCCESS; });
}
inline int waitany(decltype(PMPI_Waitany)* next, int count, MPI_Request requests[], int* index,
                   MPI_Status* status) {
  return completes(
      count, requests, [&] { return next(count, requests, index, status); },
      [&](int code, int i) { return code == MPI_SUCCESS && *index == i; });
}
inline int waitsome(decltype(PMPI_Waitsome)* next, int count, MPI_Request requests[], int* done,
                    int indices[], MPI_Status statuses[]) {
  const auto is_listed = [&](int code, int i) {
    if (code != MPI_SUCCESS || *done == MPI_UNDEFINED) return false;
    return std::find(indices, indices + *done, i) != indices + *done;
  };
  return completes(
      count, requests, [&] { return next(count, requests, done, indices, statuses); }, is_listed);
}
inline int test(decltype(PMPI_Test)* next, MPI_Request* request, int* flag, MPI_Status* status) {
  return completes(
      1, request, [&] { return next(request, flag, status); },
      [&](int code, int) { return code == MPI_SUCCESS && *flag != 0; });
}
inline int testall(decltype(PMPI_Testall)* next, int count, MPI_Request requests[], int* flag,
                   MPI_Status statuses[]) {
  return completes(
      count, requests, [&] { return next(count, requests, flag, statuses); },
      [&](int code, int) { return code == MPI_SUCCESS && *flag != 0; });
}
inline int testany(decltype(PMPI_Testany)* next, int count, MPI_Request requests[], int* index, int* flag,
                   MPI_Status* status) {
  return completes(
      count, requests, [&] { return next(count, requests, index, flag, status); },
      [&](int code, int i) { return code == MPI_SUCCESS && *flag != 0 && *index == i; });
}
inline int testsome(decltype(PMPI_Testsome)* next, int count, MPI_Request requests[], int* done,
                    int indices[], MPI_Status statuses[]) {
  return waitsome(next, count, requests, done, indices, statuses);
}

// The program learns that a request is complete, and keeps it.
inline int request_get_status(decltype(PMPI_Request_get_status)* next, MPI_Request request, int* flag,
                              MPI_Status* status) {
  const int code = next(request, flag, status);
  Tracer* tracer = tracer_of_program();
  if (tracer == nullptr || code != MPI_SUCCESS || *flag == 0) return code;
  const auto lock = tracer->lock();
  KnownRequest* known = tracer->requests.find(abi::bits(request), any);
  if (known != nullptr) tracer->complete(std::exchange(known->open, {}), clock::now());
  return code;
}

inline int request_free(decltype(PMPI_Request_free)* next, MPI_Request* request) {
  Tracer* tracer = tracer_of_program();
  if (tracer == nullptr) return next(request);
  const InsideOffbeat guard;
  const Handle handle = abi::bits(*request);
  const int code = next(request);
  if (code == MPI_SUCCESS) {
    const auto lock = tracer->lock();
    tracer->requests.erase(handle, any);
  }
  return code;
}

// -- communicators

enum class Parent : std::uint8_t {
  none,   // all ranks do not have the same, or there is none
  first,  // the first argument
  group,  // the first argument, with the same ranks: a duplicate, which need not be usable yet
};

template <Parent parent, class Next, class... Arguments>
int creates(Next* next, Arguments... arguments) {
  if (next == nullptr) [[unlikely]]
    return MPI_ERR_UNSUPPORTED_OPERATION;
  Tracer* tracer = tracer_of_program();
  if (tracer == nullptr) return next(arguments...);
  const InsideOffbeat guard;
  const int code = next(arguments...);
  if (code != MPI_SUCCESS) return code;
  // The first argument of this type. In MPICH those behind it, such as MPI_Comm_idup's request, may have the
  // same.
  MPI_Comm* made_at = nullptr;
  const auto look = [&](const auto& argument) {
    if constexpr (std::is_same_v<std::decay_t<decltype(argument)>, MPI_Comm*>) {
      if (made_at == nullptr) made_at = argument;
    }
  };
  (look(arguments), ...);
  const MPI_Comm made = *made_at;
  if_possible([&] {
    const auto lock = tracer->lock();
    if (tracer->is_null_communicator(made)) return;
    if constexpr (parent == Parent::none) {
      tracer->add(made, MPI_COMM_NULL, false);
    } else {
      tracer->add(made, std::get<0>(std::tie(arguments...)), parent == Parent::group);
    }
  });
  return code;
}

inline int spawn(decltype(PMPI_Comm_spawn)* next, const char* command, char* arguments[], int most,
                 MPI_Info info, int root, MPI_Comm communicator, MPI_Comm* made, int codes[]) {
  const SpawnInfos infos(below().host, 1, &info, root, communicator);
  return creates<Parent::none>(next, command, arguments, most, infos.data()[0], root, communicator, made,
                               codes);
}
inline int spawn_multiple(decltype(PMPI_Comm_spawn_multiple)* next, int count, char* commands[],
                          char** arguments[], const int most[], const MPI_Info program_infos[], int root,
                          MPI_Comm communicator, MPI_Comm* made, int codes[]) {
  const SpawnInfos infos(below().host, count, program_infos, root, communicator);
  return creates<Parent::none>(next, count, commands, arguments, most, infos.data(), root, communicator, made,
                               codes);
}

// Forgotten before the call: another thread may get the handle again as soon as it is free.
template <class Next>
int frees_communicator(Next* next, MPI_Comm* communicator) {
  Tracer* tracer = tracer_of_program();
  if (tracer == nullptr) return next(communicator);
  const InsideOffbeat guard;
  {
    const auto lock = tracer->lock();
    tracer->remove(*communicator);
  }
  return next(communicator);
}

inline int type_free(decltype(PMPI_Type_free)* next, MPI_Datatype* type) {
  if (Tracer* tracer = tracer_of_program()) {
    const auto lock = tracer->lock();
    tracer->forget_type(*type);
  }
  return next(type);
}

inline int op_free(decltype(PMPI_Op_free)* next, MPI_Op* op) {
  if (Tracer* tracer = tracer_of_program()) {
    const auto lock = tracer->lock();
    tracer->forget_operation(*op);
  }
  return next(op);
}

// -- life

// A host may begin by calling the other one of the two functions.
template <class Next, class... Arguments>
int init(Next* next, Arguments... arguments) {
  if (inside_offbeat) return next(arguments...);
  int code = MPI_SUCCESS;
  {
    const InsideOffbeat guard;
    code = next(arguments...);
  }
  if (code == MPI_SUCCESS) start_tracer_or_exit();
  return code;
}

inline int finalize(decltype(PMPI_Finalize)* next) {
  if (!inside_offbeat) stop_tracer();
  return next();
}

}  // namespace offbeat::trace::wrapped
