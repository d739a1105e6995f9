// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace offbeat {

// Starts a detached thread that takes none of the program's signals. It must make no call of MPI, whose
// thread level may not allow that. False: the system has no thread left.
bool start_background_thread(void* (*body)(void*), void* argument = nullptr);

}  // namespace offbeat
