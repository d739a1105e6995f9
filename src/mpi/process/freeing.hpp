// SPDX-License-Identifier: BSD-3-Clause
// These functions know the communicators that this thread is freeing. While the host frees one, it calls the
// program's attribute functions, which may call anything. offbeat must not serve those calls with an entry
// that is about to go.
#pragma once

#include "mpi/host/host.hpp"

namespace offbeat {

class Communicator;

// Calls `host_call`, which frees the communicator `handle`, and returns its code. If leave_to_freeing_call()
// got an entry meanwhile, `entry_to_destroy` becomes that entry.
int call_while_freeing(MPI_Comm handle, HostFunction<int(MPI_Comm*)> host_call, MPI_Comm* argument,
                       Communicator*& entry_to_destroy);

// Returns true if a call that frees this communicator is in progress on this thread.
[[nodiscard]] bool is_being_freed(MPI_Comm handle);

// Hands the entry of a communicator to the call on this thread that frees it. Returns false if there is none.
[[nodiscard]] bool leave_to_freeing_call(MPI_Comm handle, Communicator* entry);

}  // namespace offbeat
