// SPDX-License-Identifier: BSD-3-Clause
// NodeIdentity says which machine a process runs on, for comparison with other processes.
#pragma once

#include <cstdint>

namespace offbeat {

// Plain data that ranks send to each other. Processes with equal identities can share memory, as far as can
// be told without trying.
struct NodeIdentity {
  std::uint64_t host_name = 0;
  // A hash of the host name, the kernel's boot_id and the process namespace; 0 if /proc cannot be read.
  std::uint64_t kernel = 0;

  static NodeIdentity of_this_process();
};

}  // namespace offbeat
