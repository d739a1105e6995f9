// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

namespace offbeat {

// Starts a detached thread that takes none of the program's signals. The thread must not call MPI, because
// the thread level may forbid that. It runs on the CPUs in `cpus`, or wherever the caller may run if that is
// empty. Returns false if the thread cannot be started; errno is EINVAL if this process may run on none of
// the CPUs. May throw std::bad_alloc.
bool start_background_thread(void* (*body)(void*), void* argument = nullptr,
                             const std::vector<int>& cpus = {});

}  // namespace offbeat
