// SPDX-License-Identifier: BSD-3-Clause
// The frames of another thread of this process that is blocked in a system call. No signal interrupts it: its
// stack is copied, and followed by the tables for exceptions that every library has.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <vector>

namespace offbeat {

// Returns addresses in the functions on the stack, the innermost first. `counter` and `pointer` are the
// thread's program counter and stack pointer. Only these two registers are known, so the list ends at a frame
// that needs another one, and may have only one element. Where the tables are not understood, it is empty.
[[nodiscard]] std::vector<std::uintptr_t> frames_of_blocked(pthread_t thread, std::uintptr_t counter,
                                                            std::uintptr_t pointer);

}  // namespace offbeat
