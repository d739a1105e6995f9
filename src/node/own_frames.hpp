// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/types.h>

#include <string>

namespace offbeat {

// Returns the frames of a thread of this process, as question.hpp describes them, or an empty text. Call it
// from one thread at a time, which is not that one.
[[nodiscard]] std::string frames_of(pid_t thread);

}  // namespace offbeat
