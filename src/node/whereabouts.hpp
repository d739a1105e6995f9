// SPDX-License-Identifier: BSD-3-Clause
// Finds out where the program of another rank of this node is: its function, file and line.
//
// The rank itself answers. A thread of its own sleeps on a word beside the rank's counters until somebody
// asks. It then sends its own process a signal that the program does not use. The handler runs in the thread
// that computes, collects the addresses of its frames, and lets Python write its own frames, if it is there.
// Whoever asked looks up names and lines. So nobody needs ptrace, and no process gets a signal from another.
//
// The thread is there from the start, because a question comes when the rank computes and nothing else of it
// would notice. It makes Python 3.12 and later warn in os.fork(), as any other thread does; OFFBEAT_STALL_S=0
// leaves it out.
//
// A signal ends some system calls early, such as a sleep. So a thread in a system call gets one only if
// Python has made the call, which repeats it. Otherwise the thread that answers copies its stack
// (blocked_stack.hpp).
#pragma once

#include <string>
#include <vector>

#include "node/counters_of_job.hpp"

namespace offbeat {

// Lets other processes ask where this thread of this process is. Only the first call counts. It needs
// counters that others can read.
void answer_where_this_thread_is();
// Ends that. Call it before the process may end.
void stop_answering() noexcept;

// Asks a process, and waits at most a second. Returns a text such as "solve() at solver.c:212", or an empty
// one if the process does not answer.
[[nodiscard]] std::string ask_where(const MappedCounters& other);
// Asks a process, and returns its frames, the innermost first. There are none if it does not answer.
[[nodiscard]] std::vector<std::string> ask_for_stack(const MappedCounters& other);

}  // namespace offbeat
