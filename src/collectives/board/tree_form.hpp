// SPDX-License-Identifier: BSD-3-Clause
// TreeForm says, for each collective, which data the ranks of a tree (immediate_tree.hpp) pass up and down.
//
//     collective           up, for a block of ranks           down
//     barrier              nothing                            nothing
//     allreduce, reduce    their vectors, combined            the result (allreduce)
//     gather               their vectors, in rank order
//     bcast                                                   the root's vector
//     scatter                                                 the parts of the ranks below, in their places
#pragma once

#include <array>
#include <utility>

#include "base/copy.hpp"
#include "collectives/board/immediate_tree.hpp"

namespace offbeat {

// The tree has groups of 2^2 ranks. In the simulator (docs/explanation/many-cores.md), groups of 8 take up
// to 1.2 times as long for 8 bytes and 1.5 times as long for 4 KiB, and groups of 16 take twice as long.
inline constexpr int tree_bits = 2;

template <Collective collective, int bits = tree_bits>
class TreeForm {
 public:
  static constexpr bool data_go_up = !roles_of(collective).root_gives;
  static constexpr bool data_go_down = !roles_of(collective).root_takes;
  static constexpr int most_ranks = Board::most_ranks;
  static std::size_t most_bytes(int ranks) {
    if (!moves_data(collective)) return 0;
    return BoardShape::inline_bytes / (has_blocks ? static_cast<std::size_t>(ranks) : 1);
  }

  TreeForm(Board& board, const Call& call)
      : board_(board),
        call_(call),
        sequence_(board.sequence.tag),
        tree_(board.rank, board.size, facts_of(collective).has_root ? call.root : 0, bits),
        bytes_(data_go_up ? call.input.bytes() : call.output.bytes()),
        has_data_(bytes_ > 0 && (data_go_up || is_giver() ? call.input.data : call.output.data) != nullptr) {}

  [[nodiscard]] const RadixTree& tree() const { return tree_; }

  [[nodiscard]] bool has_arrived(int child) const {
    return slot(child).sequence.load(std::memory_order_acquire) == sequence_;
  }
  void combine(const RadixTree::Group& group) {
    if (!has_data_ || group.size() == 1) return;
    if constexpr (combines) {
      std::array<const void*, 1 << bits> operands;
      for (int block = 0; block < group.size(); ++block) {
        operands[static_cast<std::size_t>(block)] =
            block == group.own_block() ? partial_result_ : slot(group.rank(block)).data;
      }
      (*call_.op)(place_of_children(), operands.data(), static_cast<std::size_t>(group.size()),
                  call_.input.count);
      partial_result_ = place_of_children();
    }
    if constexpr (has_blocks) {
      put_own_block();
      for (int block = 0; block < group.size(); ++block) {
        if (block == group.own_block()) continue;
        offbeat::copy(place_of(group.begin(block)), slot(group.rank(block)).data,
                      bytes_of(group.size(block)));
      }
    }
  }
  void put_own_data() {
    Board::InlineSlot& mine = slot(board_.rank);
    if (has_data_) {
      if constexpr (combines) {
        if (partial_result_ != mine.data) copy_to_shared(mine.data, partial_result_, bytes_);
      }
      if constexpr (has_blocks) put_own_block();
    }
    mine.sequence.store(sequence_, std::memory_order_release);
  }

  [[nodiscard]] bool has_parent_data() const {
    return line_above().sequence.load(std::memory_order_acquire) == sequence_;
  }
  void take_result() {
    if (!has_data_) return;
    const std::byte* source = fits_line() ? line_above().data : slot(tree_.parent()).data;
    if constexpr (is_scatter) {
      if (tree_.height() > 0) {
        const std::size_t begin = bytes_of(tree_.begin());
        copy_to_shared(slot(board_.rank).data + begin, source + begin, bytes_of(tree_.size()));
      }
      offbeat::copy(call_.output.data, source + bytes_of(board_.rank), bytes_);
    } else if constexpr (moves_data(collective)) {
      offbeat::copy(call_.output.data, source, bytes_down());
    }
  }
  void pass_down(int level) {
    Board::TreeLine& line = board_.tree_line(sequence_, board_.rank, level);
    if (has_data_) {
      if constexpr (is_scatter) {
        if (tree_.is_root() && !std::exchange(result_is_in_slot_, true)) {
          copy_to_shared(slot(board_.rank).data, call_.input.data, bytes_down());
          // In place, the root's own part is already there. If the output has no memory, the root does not
          // want its part (Call).
          std::byte* own = call_.output.data;
          const std::byte* part = call_.input.data + bytes_of(board_.rank);
          if (own != nullptr && own != part) offbeat::copy(own, part, bytes_);
        }
      } else if (fits_line()) {
        offbeat::copy(line.data, call_.output.data, bytes_down());
      } else if (!std::exchange(result_is_in_slot_, true)) {
        copy_to_shared(slot(board_.rank).data, call_.output.data, bytes_down());
      }
    }
    line.sequence.store(sequence_, std::memory_order_release);
  }

  // The following functions are for virtual time.
  [[nodiscard]] const void* slot_of_child(int child) const { return &slot(child); }
  [[nodiscard]] std::size_t bytes_given(const RadixTree::Group& group, int block) const {
    return Board::InlineSlot::bytes_with(has_blocks ? bytes_of(group.size(block)) : bytes_);
  }
  [[nodiscard]] const void* parent_line() const { return &line_above(); }
  [[nodiscard]] const void* parent_slot() const { return slot(tree_.parent()).data; }
  [[nodiscard]] std::size_t bytes_in_parent_slot() const {
    if (fits_line()) return 0;
    return is_scatter ? bytes_of(tree_.size()) : bytes_down();
  }

 private:
  static constexpr bool combines = facts_of(collective).has_operation;
  static constexpr bool is_scatter = collective == Collective::scatter;
  static constexpr bool has_blocks = is_scatter || collective == Collective::gather;

  // Returns true on the root of a scatter.
  [[nodiscard]] bool is_giver() const { return is_scatter && tree_.is_root(); }
  [[nodiscard]] Board::InlineSlot& slot(int rank) const { return board_.inline_slot(sequence_, rank); }
  [[nodiscard]] Board::TreeLine& line_above() const {
    return board_.tree_line(sequence_, tree_.parent(), tree_.height());
  }
  // Returns how many bytes the blocks of `ranks` ranks have together.
  [[nodiscard]] std::size_t bytes_of(int ranks) const { return static_cast<std::size_t>(ranks) * bytes_; }
  [[nodiscard]] std::size_t bytes_down() const { return has_blocks ? bytes_of(board_.size) : bytes_; }
  [[nodiscard]] bool fits_line() const { return !is_scatter && bytes_down() <= Board::TreeLine::most_bytes; }

  // Returns where this rank puts the data of the ranks below it: the root into its output, any other rank
  // into its slot.
  [[nodiscard]] std::byte* place_of_children() const {
    return tree_.is_root() ? call_.output.data : slot(board_.rank).data;
  }
  [[nodiscard]] std::byte* place_of(int rank) const {
    return place_of_children() + bytes_of(rank - tree_.begin());
  }
  void put_own_block() {
    std::byte* own = place_of(board_.rank);
    if (own != call_.input.data) offbeat::copy(own, call_.input.data, bytes_);
  }

  Board& board_;
  const Call& call_;
  const std::uint64_t sequence_;
  const RadixTree tree_;
  const std::size_t bytes_;  // the length of the vector, or of one rank's block
  const bool has_data_;
  const void* partial_result_ = call_.input.data;
  bool result_is_in_slot_ = false;  // true if the data that go down are in this rank's slot
};

// The immediate form for more ranks than InSlots serves.
template <Collective collective>
inline constexpr const Immediate* form_for_many_ranks = &immediate_tree<TreeForm<collective>>;

}  // namespace offbeat
