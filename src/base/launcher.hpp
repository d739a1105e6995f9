// SPDX-License-Identifier: BSD-3-Clause
// Reads what the program that started this process, the launcher, says about it in the environment.
#pragma once

#include <string>
#include <string_view>

namespace offbeat {

// Returns the rank that the launcher gave this process, or 0 if it gave none. It is known before MPI_Init,
// and only messages for people use it. A job that is started by a rank of another job inherits the variables
// of that job's launcher. So the variables of the launcher that belongs to `family` come first.
[[nodiscard]] int launcher_rank(std::string_view family = "openmpi");

// Returns the name that the launcher gave this process's job, or "" if it gave none. No other job that runs
// at the same time has that name.
[[nodiscard]] std::string launcher_job(std::string_view family = "openmpi");

// Returns true if a launcher has started this process, and said so by a rank or a name of its job.
[[nodiscard]] bool has_launcher();

// Returns the host at which the ranks of torch.distributed meet (MASTER_ADDR), or "" if it is unknown.
[[nodiscard]] std::string meeting_host();

// Returns how many ranks the launcher put on this node, or 1 if it did not say.
[[nodiscard]] int launcher_ranks_on_node();

}  // namespace offbeat
