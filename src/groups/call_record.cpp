// SPDX-License-Identifier: BSD-3-Clause
#include "groups/call_record.hpp"

#include <algorithm>
#include <span>

#include "base/hash.hpp"
#include "groups/call_signature.hpp"

namespace offbeat {
namespace {

// The head of a record in one word: the low 32 bits of the number, and what kind of call it is. It is 0 while
// the record is written.
struct Head {
  std::uint64_t word;

  explicit Head(std::uint64_t word) : word(word) {}
  explicit Head(const CallRecord& of)
      : word(of.number << 32 | static_cast<std::uint64_t>(of.collective) << 24 |
             static_cast<std::uint64_t>(of.type) << 16 | static_cast<std::uint64_t>(of.op) << 8 |
             static_cast<std::uint64_t>(of.op_label) << 1 | 1) {}
  // Returns how many calls later than `number` this one is.
  [[nodiscard]] std::int32_t since(std::uint64_t number) const {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(word >> 32) -
                                     static_cast<std::uint32_t>(number));
  }
};

// The words of a record belong to its head: a writer takes the head away before it changes any of them. So
// what a reader has read is of one call if the head is `head` before and afterwards.
bool has_head(const Board::Record& record, std::uint64_t head) {
  return record.head.load(std::memory_order_acquire) == head;
}
bool still_has_head(const Board::Record& record, std::uint64_t head) {
  std::atomic_thread_fence(std::memory_order_acquire);
  return record.head.load(std::memory_order_relaxed) == head;
}

// A record as another rank reads it.
struct StoredRecord {
  CallRecord call;
  std::uint64_t given;  // the bytes for the rank that reads, in an alltoallv
};

// Reads the record of a call. Returns nothing if the rank has not begun it, is writing a record in this
// place, or has overwritten the record.
std::optional<StoredRecord> read_record(const Board& board, int rank, std::uint64_t number) {
  const Board::Record& from = board.record(rank, number);
  const Head head(from.head.load(std::memory_order_acquire));
  if (head.word == 0 || head.since(number) != 0) return {};
  const StoredRecord found{
      .call = {.number = number,
               .collective = static_cast<Collective>(head.word >> 24 & 0xff),
               .type = static_cast<ElementType>(head.word >> 16 & 0xff),
               .op = static_cast<ReduceOp>(head.word >> 8 & 0xff),
               .op_label = static_cast<int>(head.word >> 1 & CallRecord::most_op_label),
               .root = static_cast<int>(from.root.load(std::memory_order_relaxed)),
               .count = from.count.load(std::memory_order_relaxed),
               .lists = from.lists.load(std::memory_order_relaxed)},
      .given = board.alltoallv_length(number, rank, board.rank).load(std::memory_order_relaxed)};
  if (!still_has_head(from, head.word)) return {};
  return found;
}

int named(const Locality& where, int member) {
  return where.ranks_of_own_node()[static_cast<std::size_t>(member)];
}

// These return how much this rank gives to another rank of its node, and takes from it, in an alltoallv.
std::uint64_t given_to(const Call& call, const Locality& where, int taker) {
  return call.input_blocks.block_of(call.input, named(where, taker), where.membership.ranks()).bytes();
}
std::uint64_t taken_from(const Call& call, const Locality& where, int giver) {
  return call.output_blocks.block_of(call.output, named(where, giver), where.membership.ranks()).bytes();
}

std::uint64_t hash_of(std::span<const std::size_t> counts) {
  const std::uint64_t hash =
      fnv1a({reinterpret_cast<const char*>(counts.data()), counts.size_bytes()}, fnv1a("lists"));
  return hash == 0 ? 1 : hash;
}

std::string bytes_text(std::uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

CallSignature signature_of(const CallRecord& record) {
  const bool combines = facts_of(record.collective).has_operation;
  std::string op(combines ? name_of(record.op) : "");
  if (record.op_label != 0) op += " " + std::to_string(record.op_label);
  CallSignature signature(record.collective, static_cast<std::int64_t>(record.count),
                          combines ? name_of(record.type) : "", op, record.root);
  signature.blocks = record.lists;
  return signature;
}

}  // namespace

CallRecord record_of(const CallArguments& arguments, const Call& call, int ranks) {
  CallRecord record{.collective = call.collective, .root = call.root};
  if (!moves_data(call.collective)) return record;
  if (call.op != nullptr) {
    record.type = arguments.type;
    record.op = arguments.op;
    record.op_label = arguments.op_label;
    record.count = call.input.count;
    // Ranks that give nothing know the length by their output.
    if (call.collective != Collective::reduce_scatter && call.collective != Collective::reduce_scatter_block)
      record.count = call.output.count;
  } else if (call.collective != Collective::alltoallv) {
    record.count = call.length(ranks);
    if (call.collective == Collective::gather || call.collective == Collective::allgather ||
        call.collective == Collective::alltoall || call.collective == Collective::scatter)
      record.count = arguments.count * width_of(arguments.type);
  }
  if (call.collective == Collective::allgatherv)
    record.lists = hash_of({call.output_blocks.counts, static_cast<std::size_t>(ranks)});
  if (call.collective == Collective::reduce_scatter)
    record.lists = hash_of({call.input_blocks.counts, static_cast<std::size_t>(ranks)});
  return record;
}

void write_record(Board& board, const Locality& where, const CallRecord& mine, const Call& call) {
  Board::Record& to = board.record(board.rank, mine.number);
  to.head.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  to.root.store(mine.root_word(), std::memory_order_relaxed);
  to.count.store(mine.count, std::memory_order_relaxed);
  to.lists.store(mine.lists, std::memory_order_relaxed);
  if (mine.collective == Collective::alltoallv) {
    for (int taker = 0; taker < board.size; ++taker) {
      board.alltoallv_length(mine.number, board.rank, taker)
          .store(given_to(call, where, taker), std::memory_order_relaxed);
    }
  }
  to.head.store(Head(mine).word, std::memory_order_release);
}

bool has_begun_call(const Board& board, int rank, std::uint64_t number) {
  for (std::uint64_t k = 0; k < BoardShape::records_of_rank; ++k) {
    const Head head(board.record(rank, number + k).head.load(std::memory_order_acquire));
    if (head.word != 0 && head.since(number) >= 0) return true;
  }
  return false;
}

bool all_fit(const Board& board, const Locality& where, const CallRecord& mine, const Call& call) {
  const std::uint64_t head = Head(mine).word;
  for (int rank = 0; rank < board.size; ++rank) {
    if (rank == board.rank) continue;
    const Board::Record& theirs = board.record(rank, mine.number);
    const bool fits =
        has_head(theirs, head) && theirs.root.load(std::memory_order_relaxed) == mine.root_word() &&
        theirs.count.load(std::memory_order_relaxed) == mine.count &&
        theirs.lists.load(std::memory_order_relaxed) == mine.lists &&
        (mine.collective != Collective::alltoallv ||
         board.alltoallv_length(mine.number, rank, board.rank).load(std::memory_order_relaxed) ==
             taken_from(call, where, rank)) &&
        still_has_head(theirs, head);
    // If the record is not there yet, or no longer there, earlier ones count: after an empty call this rank
    // may be ahead, and have met the others in their call before.
    if (!fits) return !find_mismatch(board, where, mine, call);
  }
  return true;
}

// Looks at earlier calls, too, as far as there are records: a rank may have made an empty call and be ahead.
std::optional<CallMismatch> find_mismatch(const Board& board, const Locality& where, const CallRecord& mine,
                                          const Call& call) {
  const int me = named(where, board.rank);
  for (int rank = 0; rank < board.size; ++rank) {
    if (rank == board.rank) continue;
    const int other = named(where, rank);
    const std::uint64_t earlier = std::min<std::uint64_t>(mine.number - 1, BoardShape::records_of_rank - 1);
    for (std::uint64_t number = mine.number - earlier; number <= mine.number; ++number) {
      const auto theirs = read_record(board, rank, number);
      const auto own = number == mine.number ? StoredRecord{mine, 0} : read_record(board, board.rank, number);
      if (!theirs || !own) continue;
      if (!theirs->call.fits(own->call)) {
        const CallSignature mine_then = signature_of(own->call);
        const CallSignature theirs_then = signature_of(theirs->call);
        return CallMismatch{other, me < other ? mismatch_text(mine_then, me, theirs_then, other)
                                              : mismatch_text(theirs_then, other, mine_then, me)};
      }
      if (number != mine.number || mine.collective != Collective::alltoallv) continue;
      const std::uint64_t given = theirs->given;
      const std::uint64_t taken = taken_from(call, where, rank);
      if (given != taken)
        return CallMismatch{other, "mismatched alltoallv: rank " + std::to_string(other) + " has " +
                                       bytes_text(given) + " for rank " + std::to_string(me) +
                                       ", which takes " + bytes_text(taken)};
    }
  }
  return {};
}

}  // namespace offbeat
