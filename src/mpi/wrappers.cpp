// SPDX-License-Identifier: BSD-3-Clause
// What the preload puts before the host MPI.
//
// Both MPI_X and PMPI_X are exported: Open MPI's Fortran bindings call PMPI_X of C, with Fortran's sentinels
// already turned into C's, so that one C function serves every language. A call from inside offbeat, or from
// inside the host while offbeat calls it, goes straight through.
#include "mpi/allreduce.hpp"

namespace offbeat::wrapped {
namespace {

int allreduce(const void* input, void* output, int count, MPI_Datatype type, MPI_Op op,
              MPI_Comm communicator) {
  const auto native = [&] { return runtime().host.Allreduce(input, output, count, type, op, communicator); };
  if (inside_offbeat) return native();
  return intercepted_allreduce(input, output, count, type, op, communicator, native);
}

#if OFFBEAT_LARGE_COUNT
int allreduce_c(const void* input, void* output, MPI_Count count, MPI_Datatype type, MPI_Op op,
                MPI_Comm communicator) {
  const auto native = [&] {
    const Host& host = runtime().host;
    if (host.Allreduce_c) return host.Allreduce_c(input, output, count, type, op, communicator);
    // A program that found the symbol here, on a host older than MPI 4.
    if (count == static_cast<int>(count)) {
      return host.Allreduce(input, output, static_cast<int>(count), type, op, communicator);
    }
    host.Comm_call_errhandler(communicator, MPI_ERR_COUNT);
    return static_cast<int>(MPI_ERR_COUNT);
  };
  if (inside_offbeat) return native();
  return intercepted_allreduce(input, output, count, type, op, communicator, native);
}
#endif

int init(int* argc, char*** argv) { return runtime().host.Init(argc, argv); }

int init_thread(int* argc, char*** argv, int required, int* provided) {
  return runtime().host.Init_thread(argc, argv, required, provided);
}

int finalize() {
  Runtime& process = runtime();
  if (!inside_offbeat) {
    const InsideOffbeat guard;
    process.finalize();
  }
  return process.host.Finalize();
}

void forget(MPI_Comm* communicator) {
  if (inside_offbeat || communicator == nullptr) return;
  const InsideOffbeat guard;
  runtime().forget(*communicator);
}

int comm_free(MPI_Comm* communicator) {
  forget(communicator);
  return runtime().host.Comm_free(communicator);
}

int comm_disconnect(MPI_Comm* communicator) {
  forget(communicator);
  return runtime().host.Comm_disconnect(communicator);
}

}  // namespace
}  // namespace offbeat::wrapped

// One function with two names: so the compiler makes one piece of all that is on the way to the board.
extern "C" {

int MPI_Allreduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                  MPI_Comm comm) {
  return offbeat::wrapped::allreduce(sendbuf, recvbuf, count, datatype, op, comm);
}
[[gnu::alias("MPI_Allreduce")]] int PMPI_Allreduce(const void* sendbuf, void* recvbuf, int count,
                                                   MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);

#if OFFBEAT_LARGE_COUNT
int MPI_Allreduce_c(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                    MPI_Comm comm) {
  return offbeat::wrapped::allreduce_c(sendbuf, recvbuf, count, datatype, op, comm);
}
[[gnu::alias("MPI_Allreduce_c")]] int PMPI_Allreduce_c(const void* sendbuf, void* recvbuf, MPI_Count count,
                                                       MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);
#endif

int MPI_Init(int* argc, char*** argv) { return offbeat::wrapped::init(argc, argv); }
[[gnu::alias("MPI_Init")]] int PMPI_Init(int* argc, char*** argv);

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return offbeat::wrapped::init_thread(argc, argv, required, provided);
}
[[gnu::alias("MPI_Init_thread")]] int PMPI_Init_thread(int* argc, char*** argv, int required, int* provided);

int MPI_Finalize() { return offbeat::wrapped::finalize(); }
[[gnu::alias("MPI_Finalize")]] int PMPI_Finalize();

int MPI_Comm_free(MPI_Comm* comm) { return offbeat::wrapped::comm_free(comm); }
[[gnu::alias("MPI_Comm_free")]] int PMPI_Comm_free(MPI_Comm* comm);

int MPI_Comm_disconnect(MPI_Comm* comm) { return offbeat::wrapped::comm_disconnect(comm); }
[[gnu::alias("MPI_Comm_disconnect")]] int PMPI_Comm_disconnect(MPI_Comm* comm);

}  // extern "C"
