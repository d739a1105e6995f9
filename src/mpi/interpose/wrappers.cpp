// SPDX-License-Identifier: BSD-3-Clause
// The functions that the preload puts before the host MPI's.
//
// Both MPI_X and PMPI_X are exported. MPI_X is what programs call; a tool that stands behind us gets it first
// (tools.hpp). PMPI_X is what tools call, and Open MPI's Fortran bindings, with Fortran's sentinels already
// turned into C's: so one C function serves every language. A call from inside offbeat, or from inside the
// host while offbeat calls it, goes straight through.
//
// The functions that call the host, a tool or an error handler hold nothing that has to be destroyed, because
// such a call may not return: programs install error handlers that throw, or that jump.
#include "mpi/interpose/allreduce.hpp"

namespace offbeat::wrapped {
namespace {

int raise(const Host& host, MPI_Comm communicator, int code) {
  host.Comm_call_errhandler(communicator, code);
  return code;
}

[[gnu::noinline]] int allreduce(const void* input, void* output, int count, MPI_Datatype type, MPI_Op op,
                                MPI_Comm communicator) {
  Runtime& process = runtime();
  if (!inside_offbeat) [[likely]] {
    const Outcome outcome = serve(process, {input, output, count, type, op, communicator});
    if (outcome.kind == Outcome::Kind::served) [[likely]]
      return MPI_SUCCESS;
    if (outcome.kind == Outcome::Kind::failed) return raise(process.host, communicator, outcome.code);
  }
  return process.host.Allreduce(input, output, count, type, op, communicator);
}

#if OFFBEAT_LARGE_COUNT
[[gnu::noinline]] int allreduce_c(const void* input, void* output, MPI_Count count, MPI_Datatype type,
                                  MPI_Op op, MPI_Comm communicator) {
  Runtime& process = runtime();
  if (!inside_offbeat) [[likely]] {
    const Outcome outcome = serve(process, {input, output, count, type, op, communicator});
    if (outcome.kind == Outcome::Kind::served) [[likely]]
      return MPI_SUCCESS;
    if (outcome.kind == Outcome::Kind::failed) return raise(process.host, communicator, outcome.code);
  }
  const Host& host = process.host;
  if (host.Allreduce_c) return host.Allreduce_c(input, output, count, type, op, communicator);
  // A program that found the symbol here, on a host older than MPI 4.
  if (count == static_cast<int>(count))
    return host.Allreduce(input, output, static_cast<int>(count), type, op, communicator);
  return raise(host, communicator, MPI_ERR_COUNT);
}
#endif

template <class Next>
int finalize(const Next& next) {
  if (!inside_offbeat) {
    const InsideOffbeat guard;
    runtime().finalize();
  }
  return next();
}

// MPI_COMM_WORLD and MPI_COMM_SELF cannot be freed: the host says so, and all goes on.
template <class Next>
int free_communicator(MPI_Comm* communicator, const Next& next) {
  if (inside_offbeat || communicator == nullptr || *communicator == MPI_COMM_NULL ||
      *communicator == MPI_COMM_WORLD || *communicator == MPI_COMM_SELF) {
    return next(communicator);
  }
  return runtime().free_communicator(*communicator, next, communicator);
}

// The next function in line for a call of MPI_X.
template <class Function>
const Function& tool_or(const Function& tool, const Function& host) {
  return tool && !inside_offbeat ? tool : host;
}

}  // namespace
}  // namespace offbeat::wrapped

namespace wrapped = offbeat::wrapped;
using offbeat::inside_offbeat;
using offbeat::runtime;

extern "C" {

int PMPI_Allreduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                   MPI_Comm comm) {
  return wrapped::allreduce(sendbuf, recvbuf, count, datatype, op, comm);
}
int MPI_Allreduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                  MPI_Comm comm) {
  if (const auto& tool = runtime().tools.Allreduce; tool && !inside_offbeat) [[unlikely]]
    return tool(sendbuf, recvbuf, count, datatype, op, comm);
  return wrapped::allreduce(sendbuf, recvbuf, count, datatype, op, comm);
}

#if OFFBEAT_LARGE_COUNT
int PMPI_Allreduce_c(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                     MPI_Comm comm) {
  return wrapped::allreduce_c(sendbuf, recvbuf, count, datatype, op, comm);
}
int MPI_Allreduce_c(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                    MPI_Comm comm) {
  if (const auto& tool = runtime().tools.Allreduce_c; tool && !inside_offbeat) [[unlikely]]
    return tool(sendbuf, recvbuf, count, datatype, op, comm);
  return wrapped::allreduce_c(sendbuf, recvbuf, count, datatype, op, comm);
}
#endif

int PMPI_Init(int* argc, char*** argv) { return runtime().host.Init(argc, argv); }
int MPI_Init(int* argc, char*** argv) {
  return wrapped::tool_or(runtime().tools.Init, runtime().host.Init)(argc, argv);
}

int PMPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return runtime().host.Init_thread(argc, argv, required, provided);
}
int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return wrapped::tool_or(runtime().tools.Init_thread, runtime().host.Init_thread)(argc, argv, required,
                                                                                   provided);
}

int PMPI_Finalize() { return wrapped::finalize(runtime().host.Finalize); }
int MPI_Finalize() {
  return wrapped::finalize(wrapped::tool_or(runtime().tools.Finalize, runtime().host.Finalize));
}

int PMPI_Comm_free(MPI_Comm* comm) { return wrapped::free_communicator(comm, runtime().host.Comm_free); }
int MPI_Comm_free(MPI_Comm* comm) {
  return wrapped::free_communicator(comm,
                                    wrapped::tool_or(runtime().tools.Comm_free, runtime().host.Comm_free));
}

int PMPI_Comm_disconnect(MPI_Comm* comm) {
  return wrapped::free_communicator(comm, runtime().host.Comm_disconnect);
}
int MPI_Comm_disconnect(MPI_Comm* comm) {
  return wrapped::free_communicator(
      comm, wrapped::tool_or(runtime().tools.Comm_disconnect, runtime().host.Comm_disconnect));
}

}  // extern "C"
