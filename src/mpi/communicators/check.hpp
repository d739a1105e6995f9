// SPDX-License-Identifier: BSD-3-Clause
// With OFFBEAT_CHECK=1, these functions check that all ranks make the same call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mpi/types/types.hpp"
#include "node/board.hpp"

namespace offbeat {

class SetUp;

// A call's properties that must be equal on all ranks. It holds the names of types and operations, because
// their handles differ between ranks.
struct CallSignature {
  Collective collective;
  std::int64_t count = 0;
  char type[40] = {};
  char op[16] = {};  // empty if the collective has no operation
  int root = 0;
  // Only for collectives whose blocks may differ in length, with lengths that are equal on all ranks: a hash
  // of all lengths, and the first lengths as text.
  std::uint64_t blocks = 0;
  char block_text[64] = {};
  // The bytes that this rank gives itself and takes from itself, if they differ; otherwise -1.
  std::int64_t bytes_to_itself = -1;
  std::int64_t bytes_from_itself = -1;

  // The first constructor is for a barrier. The second is for a collective whose data have `type`, or another
  // type of equal size.
  CallSignature(const Host& host, const Types& types, Collective collective);
  CallSignature(const Host& host, const Types& types, Collective collective, std::int64_t count,
                MPI_Datatype type, MPI_Op op, int root);
  // Makes the signature of a call through the C interface, which has its own types.
  CallSignature(Collective collective, std::int64_t count, std::string_view type, std::string_view op,
                int root);
  void add_block(std::int64_t length);
  void set_own_block_bytes(std::int64_t given_bytes, std::int64_t taken_bytes);
  // Returns true if this call matches `first`, the call of rank 0.
  [[nodiscard]] bool matches(const CallSignature& first) const;
  [[nodiscard]] std::string text() const;
};

// Collective. Returns an empty text if all ranks agree. Otherwise returns one line, equal on all ranks, that
// names the first rank whose call does not match that of rank 0. The first function works on the board, among
// the ranks that share it, and so it also names late ranks. The second uses messages of the host.
[[nodiscard]] std::string find_mismatch(Board& board, const CallSignature& mine);
[[nodiscard]] std::string find_mismatch(SetUp& set_up, const CallSignature& mine);

}  // namespace offbeat
