// SPDX-License-Identifier: BSD-3-Clause
// With OFFBEAT_CHECK=1, these functions check that all ranks make the same call.
#pragma once

#include <cstdint>
#include <string>

#include "groups/call_signature.hpp"
#include "mpi/types/types.hpp"
#include "node/board.hpp"

namespace offbeat {

class SetUp;

// Returns the signature of a call of the program. The first function is for a barrier. The second is for a
// collective whose data have `type`, or another type of equal size.
[[nodiscard]] CallSignature signature_of(Collective collective);
[[nodiscard]] CallSignature signature_of(const Host& host, const Types& types, Collective collective,
                                         std::int64_t count, MPI_Datatype type, MPI_Op op, int root);

// Collective. Returns an empty text if all ranks agree. Otherwise returns one line, equal on all ranks, that
// names the first rank whose call does not match that of rank 0. The first function works on the board, among
// the ranks that share it, and so it also names late ranks. The second uses messages of the host.
[[nodiscard]] std::string find_mismatch(Board& board, const CallSignature& mine);
[[nodiscard]] std::string find_mismatch(SetUp& set_up, const CallSignature& mine);

}  // namespace offbeat
