// SPDX-License-Identifier: BSD-3-Clause
// The immediate form for many ranks: short data go up a tree, from slot to slot, and down again. The tree is
// that of RadixTree, over the ranks of the board.
//
//     up     A rank waits for its children, group by group, adds what they give to what it has, and gives
//     that
//            to its parent: in its slot.
//     down   A rank waits for its parent, and tells its children what it was told: in a line for the children
//            of each level, or, where that is too long for a line, beside the slot's number.
//
// Barrier (without data) and allreduce go both ways, to rank 0 and back. Reduce and gather only go up, bcast
// and scatter only down, with their root at the top.
//
// Cost after the last arrival: at each of log(p) / log(radix) levels a rank reads the slots of radix - 1
// others on the way up, and one line, or slot, on the way down. A line is read by at most radix - 1 ranks; a
// slot by the children of a rank, radix - 1 at each level.
// Order: within a group from left to right, a group of groups likewise. It depends neither on the root nor on
// arrival.
// Source: the tree barrier of Mellor-Crummey and Scott 1991, here with data; one sequence number takes the
// place of their senses.
//
// Slots and lines are used again as readers.hpp says. In one collective a slot serves twice, up and then
// down: a rank that is told by its parent knows that this one has read what was there.
#pragma once

#include "collectives/algorithm.hpp"
#include "collectives/board/readers.hpp"
#include "node/board_awaitables.hpp"
#include "patterns/radix_tree.hpp"

namespace offbeat {

// A form (tree_form.hpp) provides
//
//     static constexpr int most_ranks;
//     static std::size_t most_bytes(int ranks);     of Call::length
//     static constexpr bool goes_up, goes_down;     both: no rank can end before every rank has begun
//     Form(Board& board, const Call& call);         for collective number board.sequence.present
//     const RadixTree& tree() const;
//     bool has_come(int child) const;               whether what this child gives is there
//     void combine(const RadixTree::Group& group);  adds what the children of a group have given
//     void give();                                  to the parent
//     bool is_told() const;                         whether what the parent tells is there
//     void take();                                  that
//     void tell(int level);                         to the children of a group
//
// and for virtual time the bytes that each of these reads.

template <class Form>
bool run_in_tree(Board& board, const Call& call) {
  constexpr bool all_meet = Form::goes_up && Form::goes_down;
  board.sequence.next(all_meet);
  if constexpr (!all_meet) {
    const Board::Mark begun(board.sequence.present, board.rank);
    board.signs(board.rank).sequence.store(begun.word(), std::memory_order_release);
    board.bell().ring();
  }
  wait_for_readers(board, board.sequence, board.slot_readers);
  Form form(board, call);
  const RadixTree& tree = form.tree();
  note_readers(board.sequence, board.slot_readers,
               {.tree = tree, .parent = Form::goes_up, .children = Form::goes_down});
  if constexpr (Form::goes_up) {
    const auto has_come = [&form](int rank) { return form.has_come(rank); };
    for (int level = 0; level < tree.height(); ++level) {
      const RadixTree::Group group = tree.group(level);
      for (int block = 0; block < group.size(); ++block) {
        const int child = group.rank(block);
        if (block == group.mine() || has_come(child)) continue;
        Patience::Wait wait(board.patience);
        while (!has_come(child)) wait.pause(board.patience.shares_cores && board.core_is_wanted(has_come));
      }
      form.combine(group);
    }
    if (!tree.is_root()) {
      form.give();
      board.bell().ring();
    }
  }
  if constexpr (Form::goes_down) {
    if (!tree.is_root()) {
      Patience::Wait wait(board.patience);
      const auto has_come = [](int) { return false; };  // any rank may have something to do before the parent
      while (!form.is_told()) wait.pause(board.patience.shares_cores && board.core_is_wanted(has_come));
      form.take();
    }
    for (int level = tree.height() - 1; level >= 0; --level) {
      if (tree.group(level).size() == 1) continue;
      form.tell(level);
      board.bell().ring();
    }
  }
  return true;
}

template <class Form>
Task run_in_tree_in_steps(Endpoint net, Call call, const Expression&) {
  constexpr bool all_meet = Form::goes_up && Form::goes_down;
  Board& board = *net.board();
  board.sequence.next(all_meet);
  if constexpr (!all_meet)
    co_await board.announce(board.signs(board.rank).sequence, {board.sequence.present, board.rank});
  if (board.sequence.follows_apart())
    co_await wait_for_readers_in_steps(board, board.sequence, board.slot_readers);
  Form form(board, call);
  const RadixTree& tree = form.tree();
  note_readers(board.sequence, board.slot_readers,
               {.tree = tree, .parent = Form::goes_up, .children = Form::goes_down});
  if constexpr (Form::goes_up) {
    for (int level = 0; level < tree.height(); ++level) {
      const RadixTree::Group group = tree.group(level);
      for (int block = 0; block < group.size(); ++block) {
        const int child = group.rank(block);
        if (block == group.mine()) continue;
        Patience::Wait wait(board.patience);
        while (!form.has_come(child)) co_await board.pause(wait);
        co_await board.fetch(child, form.given_by(child), form.bytes_given(group, block));
      }
      form.combine(group);
    }
    if (!tree.is_root()) {
      co_await board.touch();
      form.give();
      board.bell().ring();
    }
  }
  if constexpr (Form::goes_down) {
    if (!tree.is_root()) {
      Patience::Wait wait(board.patience);
      while (!form.is_told()) co_await board.pause(wait);
      co_await board.fetch(tree.parent(), form.told(), BoardShape::line);
      co_await board.fetch(tree.parent(), form.told_in_slot(), form.bytes_told_in_slot());
      form.take();
    }
    for (int level = tree.height() - 1; level >= 0; --level) {
      if (tree.group(level).size() == 1) continue;
      co_await board.touch();
      form.tell(level);
      board.bell().ring();
    }
  }
}

template <class Form>
inline constexpr Immediate immediate_tree{.most_ranks = Form::most_ranks,
                                          .most_bytes = Form::most_bytes,
                                          .run = run_in_tree<Form>,
                                          .run_in_steps = run_in_tree_in_steps<Form>,
                                          .takes_lists = false};

}  // namespace offbeat
