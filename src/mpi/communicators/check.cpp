// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicators/check.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>

#include "base/hash.hpp"
#include "groups/set_up.hpp"

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
  if (facts_of(collective).has_operation) std::snprintf(this->op, sizeof this->op, "%s", types.name_of(op));
}

CallSignature::CallSignature(Collective collective, std::int64_t count, std::string_view type,
                             std::string_view op, int root)
    : collective(collective), count(count), root(root) {
  type.copy(this->type, sizeof this->type - 1);
  op.copy(this->op, sizeof this->op - 1);
}

void CallSignature::add_block(std::int64_t length) {
  const std::string text = std::to_string(length);
  blocks = fnv1a(text + ',', blocks);
  const std::size_t used = std::strlen(block_text);
  constexpr std::string_view more = ", ...";
  const std::string next = (used == 0 ? "" : ", ") + text;
  if (used + next.size() + more.size() < sizeof block_text) {
    std::strcat(block_text, next.c_str());
  } else if (!std::string_view(block_text).ends_with("...")) {
    std::strcat(block_text, more.data());
  }
}

void CallSignature::set_own_block_bytes(std::int64_t given_bytes, std::int64_t taken_bytes) {
  if (given_bytes == taken_bytes) return;
  bytes_to_itself = given_bytes;
  bytes_from_itself = taken_bytes;
}

bool CallSignature::matches(const CallSignature& first) const {
  return bytes_to_itself == bytes_from_itself && collective == first.collective && count == first.count &&
         root == first.root && blocks == first.blocks && std::strcmp(type, first.type) == 0 &&
         std::strcmp(op, first.op) == 0;
}

std::string CallSignature::text() const {
  if (type[0] == '\0') return "nothing";
  std::string text = std::to_string(count) + " x " + type;
  if (op[0] != '\0') text += std::string(", ") + op;
  if (block_text[0] != '\0') text += std::string(", blocks of ") + block_text;
  if (facts_of(collective).has_root) text += ", root " + std::to_string(root);
  return text;
}

namespace {

std::string function_of(const CallSignature& call) {
  return "MPI_" + std::string(facts_of(call.collective).function);
}

std::string mismatch(const CallSignature& first, int rank, const CallSignature& other) {
  if (other.bytes_to_itself != other.bytes_from_itself) {
    return "mismatched " + function_of(other) + ": rank " + std::to_string(rank) + " gives itself " +
           std::to_string(other.bytes_to_itself) + " bytes and takes " +
           std::to_string(other.bytes_from_itself);
  }
  const bool is_one_function = first.collective == other.collective;
  const auto call = [&](const CallSignature& each) {
    return is_one_function ? each.text() : function_of(each) + " of " + each.text();
  };
  return "mismatched " + (is_one_function ? function_of(first) : "collectives") + ": rank 0 has " +
         call(first) + "; rank " + std::to_string(rank) + " has " + call(other);
}

}  // namespace

// The inline slots carry the signatures as they would carry a message.
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
    if (rank != board.rank) {  // another rank may already use this rank's slot
      const Board::InlineSlot& theirs = board.inline_slot(sequence, rank);
      Patience::Wait wait(board.patience);
      while (theirs.sequence.load(std::memory_order_acquire) != sequence) wait.pause();
      std::memcpy(&other, theirs.data, sizeof other);
    }
    if (rank == 0) first = other;
    if (difference.empty() && !other.matches(first)) difference = mismatch(first, rank, other);
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
  return mismatch(first, differs, other);
}

}  // namespace offbeat
