// SPDX-License-Identifier: BSD-3-Clause
// OFFBEAT_CHECK=1: do all ranks make the same call?
#pragma once

#include <cstdint>
#include <string>

#include "mpi/types.hpp"
#include "node/board.hpp"

namespace offbeat {

class SetUp;

// The facts about a call that must be equal on all ranks. Types and operations by name: handles differ.
struct CallSignature {
  Collective collective;
  std::int64_t count = 0;
  char type[40] = {};
  char op[16] = {};

  CallSignature(const Host& host, const Types& types, Collective collective, std::int64_t count = 0,
                MPI_Datatype type = MPI_DATATYPE_NULL, MPI_Op op = MPI_OP_NULL);
  [[nodiscard]] bool operator==(const CallSignature&) const;
  [[nodiscard]] std::string text() const;
};

// Collective. Empty if all ranks agree; else one line, the same on all ranks, that names the first rank that
// differs from rank 0. Over the board where all ranks are on it: who is late is then named. By messages of
// the host otherwise.
[[nodiscard]] std::string find_mismatch(Board& board, const CallSignature& mine);
[[nodiscard]] std::string find_mismatch(SetUp& set_up, const CallSignature& mine);

}  // namespace offbeat
