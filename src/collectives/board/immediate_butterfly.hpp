// SPDX-License-Identifier: BSD-3-Clause
// Idea: the immediate form of an allreduce or a barrier on many ranks. Every rank climbs to the top of a tree
// of groups of four. At each level it reads what the other blocks of its group have, from one rank in each,
// and combines. It leaves the result for the ranks that read it at the next level: short data in a tree
// line, longer data in its slot.
//
//     rank 6 of 64     level 0   reads 4, 5, 7       has the sum of 4 to 7
//                      level 1   reads 2, 10, 14     has the sum of 0 to 15
//                      level 2   reads 22, 38, 54    has the sum of all
//
// Cost: after the last arrival there are log4(p) levels of three slots each, half as many as on the way up
// and down a tree (immediate_tree.hpp). All ranks combine all levels. Three ranks read a slot at each level;
// more read that of the last rank if the last block is short. Order: groups from left to right, as in the
// tree, so both give the same bits. Source: the dissemination barrier of Hensgen, Finkel and Manber 1988,
// here with data and in a fixed order. By messages this is recursive_multiplying(4).
//
// readers.hpp says when a slot is used again.
#pragma once

#include <algorithm>
#include <array>

#include "base/copy.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/board/groups_of_four.hpp"
#include "collectives/board/immediate.hpp"
#include "collectives/board/readers.hpp"
#include "collectives/board/tree_form.hpp"
#include "collectives/board/waits.hpp"
#include "patterns/radix_butterfly.hpp"

namespace offbeat {

// The steps of this form, written once for both drivers (waits.hpp). There are data if the collective
// combines.
template <Collective collective, int bits = tree_bits>
class ButterflyPass {
 public:
  static constexpr bool all_meet = true;
  using Operands = NoOperands;
  // A slot has room for all levels. On more than 16 ranks only short data are faster than in a tree (`offbeat
  // simulate` of rome, genoa, sapphire_rapids and grace).
  static std::size_t most_bytes(int ranks) {
    if (!combines) return 0;
    if (ranks > most_ranks_without_tree) return Board::TreeLine::most_bytes;
    const auto levels = static_cast<std::size_t>(std::max(1, RadixButterfly(0, ranks, bits).levels()));
    const std::size_t most = BoardShape::inline_bytes / levels;
    return most - most % alignof(std::max_align_t);
  }

  ButterflyPass(Board& board, const Call& call, Operands&)
      : board_(board),
        beginning_(board, board.sequence, ReadersBefore(board, board.sequence, board.slot_readers), all_meet),
        call_(call),
        sequence_(board.sequence.tag),
        butterfly_(board.rank, board.size, bits),
        levels_(butterfly_.levels()),
        bytes_(combines ? call.input.bytes() : 0) {}

  template <class Waits>
  [[nodiscard]] bool advance(Waits& waits) {
    return resumable_sections_.run(
        [&] { return beginning_.advance(waits); },
        [&] { note_readers(board_.sequence, board_.slot_readers, {.butterfly_bits = bits}); },
        [&] { return put_own_data(waits); }, [&] { return climb(waits); });
  }
  [[nodiscard]] static bool has_served() { return true; }

 private:
  static constexpr bool combines = facts_of(collective).has_operation;

  template <class Waits>
  bool put_own_data(Waits& waits) {
    if (!waits.touch()) return false;
    if (has_data()) copy_to_shared(place(board_.rank, 0), call_.input.data, bytes_);
    announce(0);
    return true;
  }
  template <class Waits>
  bool climb(Waits& waits) {
    for (; level_ < levels_; ++level_, block_ = 0) {
      const RadixButterfly::Group group = butterfly_.group(level_);
      for (; block_ < group.size(); ++block_, reading_sections_ = {}) {
        if (block_ != group.own_block() && !read(waits, group.source(block_))) return false;
      }
      if (!waits.touch()) return false;
      combine(group);
      if (level_ + 1 < levels_) announce(level_ + 1);
    }
    return true;
  }
  // Waits for what a rank has at this level.
  template <class Waits>
  bool read(Waits& waits, int source) {
    const auto has_arrived = [this](int rank) {
      return number(rank, level_).load(std::memory_order_acquire) == sequence_;
    };
    const std::size_t bytes_beside = is_beside_number(level_) ? bytes_ : 0;
    const auto line = [&] {
      return Reading{&number(source, level_), Board::InlineSlot::bytes_with(bytes_beside)};
    };
    const auto data = [&] { return Reading{place(source, level_), bytes_ - bytes_beside}; };
    return reading_sections_.run(
        [&] { return waits.until([&] { return has_arrived(source); }, has_arrived); },
        [&] { return waits.charge_fetch(source, line); }, [&] { return waits.charge_fetch(source, data); });
  }
  void combine(const RadixButterfly::Group& group) {
    if (!has_data()) return;
    std::array<const void*, 1 << bits> operands;
    for (int block = 0; block < group.size(); ++block) {
      const bool is_input = level_ == 0 && block == group.own_block();
      const int source = block == group.own_block() ? board_.rank : group.source(block);
      operands[static_cast<std::size_t>(block)] =
          is_input ? static_cast<const void*>(call_.input.data) : place(source, level_);
    }
    std::byte* const sum = level_ + 1 < levels_ ? place(board_.rank, level_ + 1) : call_.output.data;
    if (group.size() == 1) {
      offbeat::copy(sum, static_cast<const std::byte*>(operands[0]), bytes_);
    } else {
      (*call_.op)(sum, operands.data(), static_cast<std::size_t>(group.size()), call_.input.count);
    }
  }
  // Shows that this rank has its data of a level.
  void announce(int level) {
    number(board_.rank, level).store(sequence_, std::memory_order_release);
    board_.bell().ring();
  }

  [[nodiscard]] bool has_data() const {
    return combines && bytes_ > 0 && call_.input.data != nullptr && call_.output.data != nullptr;
  }
  [[nodiscard]] bool fits_line() const { return bytes_ <= Board::TreeLine::most_bytes; }
  [[nodiscard]] bool is_beside_number(int level) const { return fits_line() || level == 0; }
  // The number that shows the data of a level, and where these are.
  [[nodiscard]] Board::Word& number(int rank, int level) const {
    if (!fits_line() && level == 0) return board_.inline_slot(sequence_, rank).sequence;
    return board_.tree_line(sequence_, rank, level).sequence;
  }
  [[nodiscard]] std::byte* place(int rank, int level) const {
    if (fits_line()) return board_.tree_line(sequence_, rank, level).data;
    return board_.inline_slot(sequence_, rank).data + static_cast<std::size_t>(level) * aligned(bytes_);
  }

  Board& board_;
  ResumableSections resumable_sections_;
  RoundBeginning<ReadersBefore> beginning_;
  const Call& call_;
  const std::uint64_t sequence_;
  const RadixButterfly butterfly_;
  const int levels_;
  const std::size_t bytes_;
  int level_ = 0;
  int block_ = 0;
  ResumableSections reading_sections_;
};

// If ranks share cores, a call takes as long as the cores need to change from rank to rank, and a butterfly
// changes once a level. So there up to 16 ranks look at the slots of all others (`Form` of immediate.hpp),
// and more go up and down a tree, in the same order of operands.
template <Collective collective, class Form>
class ButterflyOrNot {
 public:
  static bool run(Board& board, const Call& call) {
    return choose(board, call, [&]<class Text>() { return run_spinning<Text>(board, call); });
  }
  static Task run_in_steps(Endpoint net, Call call, const Expression& self) {
    return choose(*net.board(), call,
                  [&]<class Text>() { return offbeat::run_in_steps<Text>(net, call, self); });
  }

 private:
  template <class Run>
  static auto choose(const Board& board, const Call& call, Run&& run) {
    if (board.concurrent_ranks >= board.size) return run.template operator()<ButterflyPass<collective>>();
    if (board.size <= most_ranks_without_tree && call.length(board.size) <= Form::most_bytes(board.size))
      return run.template operator()<WaitForAllSlots<Form>>();
    return run.template operator()<TreePass<TreeForm<collective>>>();
  }
};

template <Collective collective, class Form, const Immediate* for_longer = nullptr>
inline constexpr Immediate immediate_butterfly{.most_ranks = Board::most_ranks,
                                               .most_bytes = ButterflyPass<collective>::most_bytes,
                                               .run = ButterflyOrNot<collective, Form>::run,
                                               .run_in_steps = ButterflyOrNot<collective, Form>::run_in_steps,
                                               .for_longer = for_longer};

}  // namespace offbeat
