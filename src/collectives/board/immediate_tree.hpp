// SPDX-License-Identifier: BSD-3-Clause
// Idea: the immediate form for many ranks. Short data go up a tree, from slot to slot, and down again. The
// tree is a RadixTree over the ranks of the board.
//
//     up     A rank waits for its children, one group after the other. It adds their data to its own, and
//            gives the result to its parent in its slot.
//     down   A rank waits for its parent and passes the parent's data on to its children. Short data go
//            through a tree line for the children of each level, longer data through the slot.
//
// Barrier (without data) and allreduce go both ways, to rank 0 and back. Reduce and gather only go up, bcast
// and scatter only down, with their root at the top.
//
// Cost: after the last arrival there are log(p) / log(radix) levels. At each level a rank reads radix - 1
// slots on the way up, and one line or slot on the way down. At most radix - 1 ranks read a line; the
// children of a rank, radix - 1 at each level, read its slot.
// Order: from left to right within a group, and groups of groups likewise. It depends neither on the root nor
// on arrival.
// Source: the tree barrier of Mellor-Crummey and Scott 1991, here with data; one sequence number replaces
// their senses. immediate_butterfly.hpp takes half as many steps for short allreduces.
//
// readers.hpp says when slots and lines are used again. In one collective a slot serves twice, up and then
// down: when the parent passes data down to a rank, it has read what was in that rank's slot.
#pragma once

#include "collectives/algorithm.hpp"
#include "collectives/board/readers.hpp"
#include "collectives/board/waits.hpp"
#include "patterns/radix_tree.hpp"

namespace offbeat {

// A form (tree_form.hpp) provides:
//
//     static constexpr int most_ranks;
//     static std::size_t most_bytes(int ranks);     upper bound on Call::length
//     static constexpr bool data_go_up;             if both go, no rank can end before
//     static constexpr bool data_go_down;           every rank has begun
//     Form(Board& board, const Call& call);         for collective number board.sequence.present
//     const RadixTree& tree() const;
//     bool has_arrived(int child) const;            true if the data that this child gives are there
//     void combine(const RadixTree::Group& group);  adds what the children of a group have given
//     void put_own_data();                          gives this rank's data to the parent
//     bool has_parent_data() const;                 true if the parent's data for this rank are there
//     void take_result();                           takes the parent's data
//     void pass_down(int level);                    passes data down to the children of a group
//
// For virtual time it also provides the addresses and the number of bytes that these functions read:
//
//     const void* slot_of_child(int child) const;   the slot from which combine() reads a child's data
//     std::size_t bytes_given(const RadixTree::Group& group, int block) const;
//                                                   the bytes there, for the child at `block` of its group
//     const void* parent_line() const;              the line that has_parent_data() reads
//     const void* parent_slot() const;              the parent's slot, from which take_result() may read
//     std::size_t bytes_in_parent_slot() const;     0: the data are in the line

// The steps of this form, written once for both drivers (waits.hpp).
template <class Form>
class TreePass {
 public:
  static constexpr bool all_meet = Form::data_go_up && Form::data_go_down;
  using Operands = NoOperands;

  TreePass(Board& board, const Call& call, Operands&)
      : board_(board),
        beginning_(board, board.sequence, ReadersBefore(board, board.sequence, board.slot_readers), all_meet),
        form_(board, call),
        level_(Form::data_go_up ? 0 : form_.tree().height()) {}

  template <class Waits>
  [[nodiscard]] bool advance(Waits& waits) {
    const bool gives = Form::data_go_up && !form_.tree().is_root();
    const bool takes = Form::data_go_down && !form_.tree().is_root();
    return resumable_sections_.run([&] { return beginning_.advance(waits); },
                                   [&] { note_readers(board_.sequence, board_.slot_readers, readers()); },
                                   [&] { return !Form::data_go_up || combine_upwards(waits); },
                                   [&] { return !gives || put_own_data(waits); },
                                   [&] { return !takes || take_from_parent(waits); },
                                   [&] { return !Form::data_go_down || pass_down(waits); });
  }
  [[nodiscard]] static bool has_served() { return true; }

 private:
  [[nodiscard]] Board::Readers readers() const {
    return {.tree = form_.tree(), .parent = Form::data_go_up, .children = Form::data_go_down};
  }
  template <class Waits>
  bool combine_upwards(Waits& waits) {
    const auto has_arrived = [this](int rank) { return form_.has_arrived(rank); };
    for (; level_ < form_.tree().height(); ++level_, block_ = 0) {
      const RadixTree::Group group = form_.tree().group(level_);
      for (; block_ < group.size(); ++block_) {
        if (block_ == group.own_block()) continue;
        const int child = group.rank(block_);
        const auto given = [&] {
          return Reading{form_.slot_of_child(child), form_.bytes_given(group, block_)};
        };
        if (!waits.until([&] { return has_arrived(child); }, has_arrived)) return false;
        if (!waits.charge_fetch(child, given)) return false;
      }
      form_.combine(group);
    }
    return true;
  }
  template <class Waits>
  bool put_own_data(Waits& waits) {
    if (!waits.touch()) return false;
    form_.put_own_data();
    board_.bell().ring();
    return true;
  }
  template <class Waits>
  bool take_from_parent(Waits& waits) {
    const int parent = form_.tree().parent();
    const auto nobody = [](int) { return false; };  // any rank may have work to do before the parent has
    const auto in_line = [this] { return Reading{form_.parent_line(), BoardShape::line}; };
    const auto in_slot = [this] { return Reading{form_.parent_slot(), form_.bytes_in_parent_slot()}; };
    return parent_sections_.run(
        [&] { return waits.until([this] { return form_.has_parent_data(); }, nobody); },
        [&] { return waits.charge_fetch(parent, in_line); },
        [&] { return waits.charge_fetch(parent, in_slot); }, [&] { form_.take_result(); });
  }
  template <class Waits>
  bool pass_down(Waits& waits) {
    for (; level_ > 0; --level_) {
      if (form_.tree().group(level_ - 1).size() == 1) continue;
      if (!waits.touch()) return false;
      form_.pass_down(level_ - 1);
      board_.bell().ring();
    }
    return true;
  }

  Board& board_;
  ResumableSections resumable_sections_;
  RoundBeginning<ReadersBefore> beginning_;
  Form form_;
  int level_;  // the next level on the way up; the number of levels left on the way down
  int block_ = 0;
  ResumableSections parent_sections_;
};

template <class Form>
inline constexpr Immediate immediate_tree{.most_ranks = Form::most_ranks,
                                          .most_bytes = Form::most_bytes,
                                          .run = run_spinning<TreePass<Form>>,
                                          .run_in_steps = run_in_steps<TreePass<Form>>,
                                          .takes_lists = false};

}  // namespace offbeat
