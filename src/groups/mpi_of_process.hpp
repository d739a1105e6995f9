// SPDX-License-Identifier: BSD-3-Clause
// What the C interface needs from the MPI of a process, in a header without mpi.h. The preload libraries have
// these functions in mpi/process/mpi_of_process.cpp. liboffbeat.so has them in capi/without_mpi.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "groups/call_arguments.hpp"
#include "groups/request.hpp"

namespace offbeat {
struct Expression;
struct Observer;
class GroupObserver;
class Network;
}  // namespace offbeat

namespace offbeat::mpi_of_process {

[[nodiscard]] std::string_view family();

// Chooses the algorithm of a collective. Throws ExpressionError. Every function here throws UsageError if
// there is no MPI, or if the collective is unknown.
void select(std::string_view collective, std::string_view expression);

// Returns the text of the expression that this thread's last collective ran, or null if the host served the
// call. The text lives as long as the process.
[[nodiscard]] const char* last_algorithm();
// Records what this thread's last collective, a call in a group, ran.
void note_algorithm(const Expression* ran);

// Tells `observer` about all later calls on communicators through the C interface. It must live as long as
// the process.
void observe(const Observer& observer);

// Returns what sees the calls in groups, or null. Under MPI the tracer has the trace files.
[[nodiscard]] GroupObserver* observer_of_groups();

// Returns the network of the host MPI, which connects the nodes of a group, or null without MPI. Throws
// std::bad_alloc.
[[nodiscard]] std::unique_ptr<Network> mpi_network();

struct Counts {
  std::uint64_t intercepted;
  std::uint64_t served;
};
[[nodiscard]] Counts count(std::string_view collective);

// The arguments of a call on a communicator. The functions below throw UsageError for a collective that
// offbeat does not serve, or that takes lists.
struct Arguments : CallArguments {
  int communicator = 0;  // a Fortran handle
};

// Runs a collective over the communicator. GPU memory is copied to host memory and back. Throws
// CommunicationError, also if MPI is not running or the communicator cannot be served.
void run(const Arguments& arguments);

// Begins a collective without waiting for it. The communicator may be freed before the request is complete.
// The functions of the request throw CommunicationError, also after MPI_Finalize.
[[nodiscard]] std::unique_ptr<Request> begin(const Arguments& arguments);

}  // namespace offbeat::mpi_of_process
