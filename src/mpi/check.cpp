// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/check.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

namespace offbeat {

CallSignature::CallSignature(const Host& host, const Types& types, std::int64_t count, MPI_Datatype type, MPI_Op op)
    : count(count) {
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  if (type != MPI_DATATYPE_NULL) host.Type_get_name(type, name, &length);
  int size = 0;
  if (name[0] == '\0' && type != MPI_DATATYPE_NULL) host.Type_size(type, &size);
  if (name[0] != '\0') {
    std::snprintf(this->type, sizeof this->type, "%.39s", name);
  } else {
    std::snprintf(this->type, sizeof this->type, "a type of %d bytes", size);
  }
  std::snprintf(this->op, sizeof this->op, "%s", types.name_of(op));
}

bool CallSignature::operator==(const CallSignature& other) const {
  return count == other.count && std::strcmp(type, other.type) == 0 && std::strcmp(op, other.op) == 0;
}

std::string CallSignature::text() const { return std::to_string(count) + " x " + type + ", " + op; }

// The inline slots carry the signatures, as they would carry a message.
std::string find_mismatch(Board& board, const CallSignature& mine) {
  static_assert(sizeof(CallSignature) <= BoardShape::inline_bytes);
  const std::uint64_t sequence = ++board.sequence;
  Board::InlineSlot& slot = board.inline_slot(sequence, board.rank);
  std::memcpy(slot.data, &mine, sizeof mine);
  slot.sequence.store(sequence, std::memory_order_release);

  std::string difference;
  CallSignature first = mine;
  for (int rank = 0; rank < board.size; ++rank) {
    const Board::InlineSlot& theirs = board.inline_slot(sequence, rank);
    Patience::Wait wait(board.patience);
    while (theirs.sequence.load(std::memory_order_acquire) != sequence) wait.pause();
    CallSignature other = mine;
    std::memcpy(&other, theirs.data, sizeof other);
    if (rank == 0) {
      first = other;
    } else if (difference.empty() && !(other == first)) {
      difference = "mismatched MPI_Allreduce: rank 0 of this node has " + first.text() + "; rank " +
                   std::to_string(rank) + " has " + other.text();
    }
  }
  return difference;
}

}  // namespace offbeat
