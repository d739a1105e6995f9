// SPDX-License-Identifier: BSD-3-Clause
// The ranks of a group compare their calls on the board, so that unequal calls are an error and not a wrong
// result.
//
// Each rank writes a record of its call on a stage before the call begins, and compares it with the records
// of the others on its node afterwards, and now and then while it waits. The last eight records of a rank
// stay. That is enough for the ranks that read what it writes: it is at most two calls ahead of them in
// slots, and two in windows (collectives/board/readers.hpp), so four if calls through both take turns. From
// others it may be further away, in a tree by two calls for each level, and its record may be gone. Then the
// ranks between them find a mismatch, unless their trees differ from call to call. After empty calls a record
// may be gone, too. A board with records has no short slots, in which a rank goes further ahead.
//
// A rank whose calls are empty may overwrite a record while another rank reads it. So a writer takes the head
// of the record away first, and gives it a new one last. A reader that does not find the same head before and
// afterwards has read nothing: the call that it wanted to compare is not there yet, or no longer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "collectives/call.hpp"
#include "groups/call_arguments.hpp"
#include "node/board.hpp"
#include "node/membership.hpp"

namespace offbeat {

// What the ranks of a group compare to find out whether they make the same call.
struct CallRecord {
  std::uint64_t number = 0;  // counts the calls on a stage
  Collective collective{};
  ElementType type{};  // of a collective that combines; otherwise counts are bytes
  ReduceOp op{};
  int op_label = 0;
  int root = 0;
  std::uint64_t count = 0;
  std::uint64_t lists = 0;  // a hash of the counts that all ranks must know

  [[nodiscard]] bool fits(const CallRecord& other) const {
    return collective == other.collective && type == other.type && op == other.op &&
           op_label == other.op_label && root == other.root && count == other.count && lists == other.lists;
  }
  static constexpr int most_op_label = 127;
  [[nodiscard]] std::uint64_t root_word() const { return static_cast<std::uint64_t>(root); }
};

// Returns the record of a call in a group of this many ranks; its number is 0.
[[nodiscard]] CallRecord record_of(const CallArguments& arguments, const Call& call, int ranks);

// Writes the record of this rank's call. If the collective is alltoallv, the length of each block goes with
// it. `where` says which ranks of the group the board has; so it does in the functions below.
void write_record(Board& board, const Locality& where, const CallRecord& mine, const Call& call);

// Returns true if rank `rank` of the board has begun call `number` on this stage, or a later one.
[[nodiscard]] bool has_begun_call(const Board& board, int rank, std::uint64_t number);

// A rank whose call differs, and a line that says how.
struct CallMismatch {
  int rank;
  std::string text;
};
// Compares the records of all ranks that have begun the call with those of this rank. `call` is this rank's
// call.
[[nodiscard]] std::optional<CallMismatch> find_mismatch(const Board& board, const Locality& where,
                                                        const CallRecord& mine, const Call& call);
// Returns true if the calls of all ranks that can be compared are equal. This is quick.
[[nodiscard]] bool all_fit(const Board& board, const Locality& where, const CallRecord& mine,
                           const Call& call);

}  // namespace offbeat
