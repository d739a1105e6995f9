// SPDX-License-Identifier: BSD-3-Clause
// MPI_Comm_spawn and MPI_Comm_spawn_multiple of Open MPI; see spawn_infos.hpp.
#include "mpi/runtime.hpp"
#include "mpi/spawn_infos.hpp"

namespace offbeat::wrapped {
namespace {

template <class Signature>
Signature* behind(const char* name) {
  return reinterpret_cast<Signature*>(runtime().host.behind(name));
}

int spawn(decltype(PMPI_Comm_spawn)* next, const char* command, char** arguments, int most, MPI_Info info,
          int root, MPI_Comm communicator, MPI_Comm* made, int* codes) {
  const SpawnInfos infos(runtime().host, 1, &info, root, communicator);
  return next(command, arguments, most, infos.data()[0], root, communicator, made, codes);
}

int spawn_multiple(decltype(PMPI_Comm_spawn_multiple)* next, int count, char** commands, char*** arguments,
                   const int* most, const MPI_Info* program_infos, int root, MPI_Comm communicator,
                   MPI_Comm* made, int* codes) {
  const SpawnInfos infos(runtime().host, count, program_infos, root, communicator);
  return next(count, commands, arguments, most, infos.data(), root, communicator, made, codes);
}

}  // namespace
}  // namespace offbeat::wrapped

extern "C" {

int MPI_Comm_spawn(const char* command, char* argv[], int maxprocs, MPI_Info info, int root, MPI_Comm comm,
                   MPI_Comm* intercomm, int array_of_errcodes[]) {
  return offbeat::wrapped::spawn(offbeat::wrapped::behind<decltype(PMPI_Comm_spawn)>("MPI_Comm_spawn"),
                                 command, argv, maxprocs, info, root, comm, intercomm, array_of_errcodes);
}

int PMPI_Comm_spawn(const char* command, char* argv[], int maxprocs, MPI_Info info, int root, MPI_Comm comm,
                    MPI_Comm* intercomm, int array_of_errcodes[]) {
  return offbeat::wrapped::spawn(offbeat::wrapped::behind<decltype(PMPI_Comm_spawn)>("PMPI_Comm_spawn"),
                                 command, argv, maxprocs, info, root, comm, intercomm, array_of_errcodes);
}

int MPI_Comm_spawn_multiple(int count, char* array_of_commands[], char** array_of_argv[],
                            const int array_of_maxprocs[], const MPI_Info array_of_info[], int root,
                            MPI_Comm comm, MPI_Comm* intercomm, int array_of_errcodes[]) {
  return offbeat::wrapped::spawn_multiple(
      offbeat::wrapped::behind<decltype(PMPI_Comm_spawn_multiple)>("MPI_Comm_spawn_multiple"), count,
      array_of_commands, array_of_argv, array_of_maxprocs, array_of_info, root, comm, intercomm,
      array_of_errcodes);
}

int PMPI_Comm_spawn_multiple(int count, char* array_of_commands[], char** array_of_argv[],
                             const int array_of_maxprocs[], const MPI_Info array_of_info[], int root,
                             MPI_Comm comm, MPI_Comm* intercomm, int array_of_errcodes[]) {
  return offbeat::wrapped::spawn_multiple(
      offbeat::wrapped::behind<decltype(PMPI_Comm_spawn_multiple)>("PMPI_Comm_spawn_multiple"), count,
      array_of_commands, array_of_argv, array_of_maxprocs, array_of_info, root, comm, intercomm,
      array_of_errcodes);
}

}  // extern "C"
