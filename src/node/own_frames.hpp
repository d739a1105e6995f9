// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <string>

namespace offbeat {

// A thread, as the system and the C library know it.
struct ThreadNames {
  pid_t number = 0;
  pthread_t handle{};
  bool is_of_python = false;  // Python knows it
};

// Returns the names of this thread.
[[nodiscard]] ThreadNames this_thread();

// Returns the frames of a thread of this process, as question.hpp describes them, or an empty text. Call it
// from one thread at a time, which is not that one.
[[nodiscard]] std::string frames_of(const ThreadNames& thread);

}  // namespace offbeat
