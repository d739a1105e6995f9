// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/check.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "mpi/set_up.hpp"

namespace offbeat {

CallSignature::CallSignature(const Host&, const Types&, Collective collective) : collective(collective) {}

CallSignature::CallSignature(const Host& host, const Types& types, Collective collective, std::int64_t count,
                             MPI_Datatype type, MPI_Op op, int root)
    : collective(collective), count(count), root(root) {
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  host.Type_get_name(type, name, &length);
  if (name[0] != '\0') {
    std::snprintf(this->type, sizeof this->type, "%.39s", name);
  } else {
    int size = 0;
    host.Type_size(type, &size);
    std::snprintf(this->type, sizeof this->type, "a type of %d bytes", size);
  }
  if (facts(collective).has_operation) std::snprintf(this->op, sizeof this->op, "%s", types.name_of(op));
}

CallSignature::CallSignature(Collective collective, std::int64_t count, std::string_view type,
                             std::string_view op, int root)
    : collective(collective), count(count), root(root) {
  type.copy(this->type, sizeof this->type - 1);
  op.copy(this->op, sizeof this->op - 1);
}

bool CallSignature::operator==(const CallSignature& other) const {
  return collective == other.collective && count == other.count && root == other.root &&
         std::strcmp(type, other.type) == 0 && std::strcmp(op, other.op) == 0;
}

std::string CallSignature::text() const {
  if (type[0] == '\0') return "nothing";
  std::string text = std::to_string(count) + " x " + type;
  if (op[0] != '\0') text += std::string(", ") + op;
  if (facts(collective).has_root) text += ", root " + std::to_string(root);
  return text;
}

namespace {

std::string function_of(const CallSignature& call) {
  return "MPI_" + std::string(facts(call.collective).function);
}

std::string mismatch(const CallSignature& first, int rank, const CallSignature& other) {
  const bool is_one_function = first.collective == other.collective;
  const auto call = [&](const CallSignature& each) {
    return is_one_function ? each.text() : function_of(each) + " of " + each.text();
  };
  return "mismatched " + (is_one_function ? function_of(first) : "collectives") + ": rank 0 has " +
         call(first) + "; rank " + std::to_string(rank) + " has " + call(other);
}

}  // namespace

// The inline slots carry the signatures, as they would carry a message.
std::string find_mismatch(Board& board, const CallSignature& mine) {
  static_assert(sizeof(CallSignature) <= BoardShape::inline_bytes);
  board.sequence.next(true);
  const std::uint64_t sequence = board.sequence.present;
  for (Patience::Wait wait(board.patience); !board.is_free(board.sequence);) wait.pause();
  Board::InlineSlot& slot = board.inline_slot(sequence, board.rank);
  std::memcpy(slot.data, &mine, sizeof mine);
  slot.sequence.store(sequence, std::memory_order_release);
  board.bell().ring();

  std::string difference;
  CallSignature first = mine;
  for (int rank = 0; rank < board.size; ++rank) {
    CallSignature other = mine;
    if (rank != board.rank) {  // the own slot may be another's already
      const Board::InlineSlot& theirs = board.inline_slot(sequence, rank);
      Patience::Wait wait(board.patience);
      while (theirs.sequence.load(std::memory_order_acquire) != sequence) wait.pause();
      std::memcpy(&other, theirs.data, sizeof other);
    }
    if (rank == 0) {
      first = other;
    } else if (difference.empty() && !(other == first)) {
      difference = mismatch(first, rank, other);
    }
  }
  return difference;
}

std::string find_mismatch(SetUp& set_up, const CallSignature& mine) {
  CallSignature first = mine;
  set_up.broadcast(first);
  const int differs = set_up.first_without(first == mine);
  if (differs == set_up.size) return {};
  CallSignature other = mine;
  set_up.broadcast(other, differs);
  return mismatch(first, differs, other);
}

}  // namespace offbeat
