// SPDX-License-Identifier: BSD-3-Clause
// How long a message between nodes may be before the host sends it in a slower way.
#pragma once

#include <cstddef>

#include "mpi/host/host.hpp"

namespace offbeat {

// The longest message that offbeat sends, in bytes. A count in MPI-3 is an int.
constexpr std::size_t longest_message = std::size_t{1} << 30;

// Returns the length in bytes. Open MPI over TCP asks the receiver before it sends more than
// `btl_tcp_eager_limit`, 64 KiB by default. The answer waits in the same queue as what the receiver itself
// sends. So if two ranks exchange long messages, one of them sends first and then the other. On eight nodes
// with 200 Mbit/s, 16 MiB take 2.4 s in one message, and 1.3 s in shorter ones. For any other host or network
// this is `longest_message`.
[[nodiscard]] std::size_t longest_message_between_nodes(const Host& host);

}  // namespace offbeat
