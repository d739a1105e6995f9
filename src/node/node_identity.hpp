// SPDX-License-Identifier: BSD-3-Clause
// Which machine a process runs on, for comparison with other processes.
#pragma once

#include <cstdint>

namespace offbeat {

// Plain data, to be sent to others. Processes with equal identities can share memory, as far as can be told
// without trying.
struct NodeIdentity {
  std::uint64_t host_name = 0;
  // Hashes the host name, the kernel's boot_id and the process namespace; 0: /proc does not say.
  std::uint64_t kernel = 0;

  static NodeIdentity of_this_process();
};

}  // namespace offbeat
