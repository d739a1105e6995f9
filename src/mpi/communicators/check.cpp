// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicators/check.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>

#include "groups/set_up.hpp"

namespace offbeat {

CallSignature signature_of(Collective collective) {
  CallSignature mine;
  mine.collective = collective;
  mine.is_of_mpi = true;
  return mine;
}

CallSignature signature_of(const Host& host, const Types& types, Collective collective, std::int64_t count,
                           MPI_Datatype type, MPI_Op op, int root) {
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  host.Type_get_name(type, name, &length);
  int size = 0;
  if (name[0] == '\0') {
    host.Type_size(type, &size);
    std::snprintf(name, sizeof name, "a type of %d bytes", size);
  }
  const std::string_view operation = facts_of(collective).has_operation ? types.name_of(op) : "";
  CallSignature mine(collective, count, name, operation, root);
  mine.is_of_mpi = true;
  return mine;
}

// The inline slots carry the signatures as they would carry a message.
std::string find_mismatch(Board& board, const CallSignature& mine) {
  static_assert(sizeof(CallSignature) <= BoardShape::inline_bytes);
  constexpr Collective any{};  // the check comes before a call of any collective
  board.sequence.next(any, true);
  const std::uint64_t sequence = board.sequence.tag;
  for (Patience::Wait wait(board.patience); !board.is_free(board.sequence);) wait.pause();
  Board::InlineSlot& slot = board.inline_slot(sequence, board.rank);
  std::memcpy(slot.data, &mine, sizeof mine);
  slot.sequence.store(sequence, std::memory_order_release);
  board.bell().ring();

  std::string difference;
  CallSignature first = mine;
  for (int rank = 0; rank < board.size; ++rank) {
    CallSignature other = mine;
    if (rank != board.rank) {  // another rank may already use this rank's slot
      const Board::InlineSlot& theirs = board.inline_slot(sequence, rank);
      Patience::Wait wait(board.patience);
      while (theirs.sequence.load(std::memory_order_acquire) != sequence) wait.pause();
      std::memcpy(&other, theirs.data, sizeof other);
    }
    if (rank == 0) first = other;
    if (difference.empty() && !other.matches(first)) difference = mismatch_text(first, 0, other, rank);
  }
  return difference;
}

std::string find_mismatch(SetUp& set_up, const CallSignature& mine) {
  CallSignature first = mine;
  set_up.broadcast(first);
  const int differs = set_up.first_without(mine.matches(first));
  if (differs == set_up.size) return {};
  CallSignature other = mine;
  set_up.broadcast(other, differs);
  return mismatch_text(first, 0, other, differs);
}

}  // namespace offbeat
