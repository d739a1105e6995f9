// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

namespace offbeat {

// Starts a detached thread that takes none of the program's signals. It must make no call of MPI, whose
// thread level may not allow that. `cpus`: where it may run; empty: where the caller may. False: errno is
// EINVAL where this process may run on none of these CPUs; or the system has no thread left.
// May throw std::bad_alloc.
bool start_background_thread(void* (*body)(void*), void* argument = nullptr,
                             const std::vector<int>& cpus = {});

}  // namespace offbeat
