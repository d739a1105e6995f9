// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/board/arrival_direct/lists_at_root.hpp"

#include <string>

#include "base/error.hpp"

namespace offbeat::direct {

void throw_truncation(Collective collective, int giver, int taker, std::uint64_t given, std::uint64_t taken) {
  throw TruncationError("mismatched " + std::string(name_of(collective)) + ": rank " + std::to_string(giver) +
                        " of the communicator gives " + std::to_string(given) + " bytes to rank " +
                        std::to_string(taker) + ", which has room for " + std::to_string(taken));
}

}  // namespace offbeat::direct
