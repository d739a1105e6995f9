// SPDX-License-Identifier: BSD-3-Clause
// How long a message between nodes may be before the host sends it in a worse way.
#pragma once

#include <cstddef>

#include "mpi/host/host.hpp"

namespace offbeat {

// An MPI-3 count is an int.
constexpr std::size_t longest_message = std::size_t{1} << 30;

// In bytes. Open MPI over TCP asks the receiver before it sends more than `btl_tcp_eager_limit`, 64 KiB by
// default. The answer waits in the same queue as what the receiver itself sends, so where two ranks exchange
// long messages, first one of them sends and then the other: 16 MiB take 2.4 s on eight nodes with 200
// Mbit/s, and 1.3 s in shorter messages. Any other host and network: `longest_message`.
[[nodiscard]] std::size_t longest_message_between_nodes(const Host& host);

}  // namespace offbeat
