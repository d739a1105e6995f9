// SPDX-License-Identifier: BSD-3-Clause
// BoardRound is one round of a message on the board, for algorithms that combine. A message is cut into
// rounds that fit the windows, and a round into chunks.
#pragma once

#include <algorithm>
#include <optional>

#include "base/copy.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/board/round_beginning.hpp"
#include "node/board_awaitables.hpp"

namespace offbeat {

class BoardRound {
 public:
  // Describes the present round of a message that fits a window. `chunk` is a number of elements.
  BoardRound(const Endpoint& net, const Call& call, std::size_t chunk, bool past_cache)
      : net(net),
        board(*net.board()),
        call(call),
        chunks((call.input.count + chunk - 1) / chunk),
        tag(board.round.tag),
        past_cache(past_cache),
        chunk_(chunk) {}

  template <class AnyVector>
  [[nodiscard]] AnyVector chunk_of(const AnyVector& vector, std::size_t chunk) const {
    return vector.slice(chunk * chunk_, std::min(chunk_, call.input.count - chunk * chunk_));
  }
  // Returns the chunks [first, last).
  template <class AnyVector>
  [[nodiscard]] AnyVector chunk_of(const AnyVector& vector, std::size_t first, std::size_t last) const {
    const std::size_t begin = std::min(first * chunk_, call.input.count);
    return vector.slice(begin, std::min(last * chunk_, call.input.count) - begin);
  }
  [[nodiscard]] Vector chunk_on_board(int owner, std::size_t chunk) const {
    return chunk_of(window(owner), chunk);
  }
  [[nodiscard]] Vector chunks_on_board(int owner, std::size_t first, std::size_t last) const {
    return chunk_of(window(owner), first, last);
  }
  // Returns `length` elements from element `first` of the round on.
  [[nodiscard]] Vector on_board(int owner, std::size_t first, std::size_t length) const {
    return window(owner).slice(first, length);
  }
  [[nodiscard]] Board::Step step(std::size_t chunk) const { return board.step(tag, chunk); }
  // These functions return the words of a step. result() is marked when the node's result of the chunk is
  // there. In a hierarchy, global_result_word() is marked when the result of all nodes is there. There is one
  // node_phase_word() for each rank, and each node phase gives them its own meaning.
  [[nodiscard]] static Board::Word& result(const Board::Step& step) { return step.word(0); }
  [[nodiscard]] static Board::Word& global_result_word(const Board::Step& step) { return step.word(1); }
  [[nodiscard]] static Board::Word& node_phase_word(const Board::Step& step, int index) {
    return step.word(2 + index);
  }
  [[nodiscard]] bool is_marked(const Board::Word& word) const {
    return Board::Mark(word.load(std::memory_order_acquire)).round == tag;
  }
  // Returns the rank whose window has the data. Only valid if the word is_marked().
  [[nodiscard]] int holder(const Board::Word& word) const {
    return Board::Mark(word.load(std::memory_order_relaxed)).holder;
  }
  [[nodiscard]] std::size_t chunk_length() const { return chunk_; }
  // Returns the chunk at which a rank begins. Each rank begins at a different one, so that each has an equal
  // share of the work.
  [[nodiscard]] std::size_t first_chunk(int rank) const {
    return chunks * static_cast<std::size_t>(rank) / static_cast<std::size_t>(net.size);
  }
  [[nodiscard]] std::size_t first_chunk() const { return first_chunk(net.rank); }
  // Begins to copy an input on a device into this rank's window. The rank needs chunk `first` first.
  void prefetch_input(std::size_t first) const { prefetch(call.input, board.round.present, first, false); }
  // Begins to copy the input of the next round of the message. Call it when every rank has begun this round:
  // no rank reads that window any more.
  void prefetch_next_input() const {
    const std::size_t chunks_of_next = (input_of_next_round.count + chunk_ - 1) / chunk_;
    const auto size = static_cast<std::size_t>(net.size);
    prefetch(input_of_next_round, board.round.present + 1,
             chunks_of_next * static_cast<std::size_t>(net.rank) / size, true);
  }
  // Returns true if `rank` has begun this round. Only valid in a round in which not all ranks meet.
  [[nodiscard]] bool has_begun(int rank) const {
    return Board::Mark(board.signs(rank).round.load(std::memory_order_acquire)).round >= board.round.present;
  }
  // Returns the mark that announces a partial result in the window of `holder`.
  [[nodiscard]] Board::Mark mark(int holder) const { return {tag, holder}; }
  [[nodiscard]] Board::Mark mark() const { return mark(net.rank); }

  // Returns true if the node's result of a chunk is on the board. collect_chunk() copies it to the output.
  [[nodiscard]] const Board::Word& result_of(std::size_t chunk) const { return result(step(chunk)); }
  [[nodiscard]] bool has_result(std::size_t chunk) const { return is_marked(result_of(chunk)); }
  [[nodiscard]] Board::Fetch charge_fetch_of_result_word(std::size_t chunk) const {
    return board.charge_fetch(holder(result_of(chunk)), &result_of(chunk), sizeof(Board::Word));
  }
  [[nodiscard]] Board::Fetch charge_fetch_of_result(std::size_t chunk) const {
    const Vector data = chunk_on_board(holder(result_of(chunk)), chunk);
    return board.charge_fetch(holder(result_of(chunk)), data.data, data.bytes());
  }
  [[nodiscard]] Computation collect_chunk(std::size_t chunk) const {
    Computation copy =
        net.copy(chunk_of(call.output, chunk), chunk_on_board(holder(result(step(chunk))), chunk));
    copy.past_cache = past_cache;
    return copy;
  }

  Endpoint net;
  Board& board;
  Call call;
  std::size_t chunks;
  std::uint64_t tag;
  std::size_t begin = 0;              // the first element of the round in the message
  bool past_cache;                    // the output is too long to stay in the cache
  ConstVector input_of_next_round{};  // of the next round; empty if this is the last one

 private:
  [[nodiscard]] Vector window(int owner) const {
    return {board.window(tag, owner), call.input.count, call.input.width};
  }
  void prefetch(const ConstVector& input, std::uint64_t round, std::size_t first_chunk, bool for_next) const {
    const std::size_t first = std::min(first_chunk * chunk_, input.count);
    const Vector window{board.window(round, net.rank), input.count, input.width};
    net.prefetch(window.slice(first, input.count - first), input.slice(first, input.count - first), for_next);
    net.prefetch(window.slice(0, first), input.slice(0, first), for_next);
  }
  std::size_t chunk_;
};

// The chunks of a round whose results this rank has not collected yet.
class UncollectedResults {
 public:
  explicit UncollectedResults(const BoardRound& round)
      : round_(round),
        memory_(true, round.chunks, sizeof(bool)),
        next_(round.first_chunk()),
        uncollected_(round.chunks) {
    std::fill_n(is_collected(), round.chunks, false);
  }
  [[nodiscard]] bool empty() const { return uncollected_ == 0; }
  // Moves to a chunk that is ready. Returns false if there is none.
  [[nodiscard]] bool find_ready() {
    for (std::size_t k = 0; k < round_.chunks; ++k, step()) {
      if (!is_collected()[next_] && round_.has_result(next_)) return true;
    }
    return false;
  }
  // These take the time to see the word that announces the chunk that find_ready() found, and then the time
  // to fetch the chunk; in virtual time only.
  [[nodiscard]] Board::Fetch charge_fetch_of_word() const {
    return round_.charge_fetch_of_result_word(next_);
  }
  [[nodiscard]] Board::Fetch charge_fetch() const { return round_.charge_fetch_of_result(next_); }
  // Copies the chunk that find_ready() found to the output.
  [[nodiscard]] Computation copy_found_chunk() {
    const std::size_t chunk = next_;
    mark_collected(chunk);
    return round_.collect_chunk(chunk);
  }
  void mark_collected(std::size_t chunk) {
    is_collected()[chunk] = true;
    if (--uncollected_ > 0) {
      while (is_collected()[next_]) step();
    }
  }

 private:
  [[nodiscard]] bool* is_collected() const { return reinterpret_cast<bool*>(memory_.vector().data); }
  void step() { next_ = next_ + 1 < round_.chunks ? next_ + 1 : 0; }

  const BoardRound& round_;
  Scratch memory_;
  std::size_t next_;
  std::size_t uncollected_;
};

// The round of a rank that only contributes its data, and the round of one that also collects the result.
[[nodiscard]] Task contribute_only(const BoardRound& round, NodePhase contribute);
[[nodiscard]] Task contribute_and_collect(const BoardRound& round, NodePhase contribute);
// Runs a node phase, or an algorithm that has one, among ranks that are all on one node.
[[nodiscard]] Task run_on_one_node(Endpoint net, Call call, NodePhase contribute);
[[nodiscard]] Task run_on_one_node(Endpoint net, Call call, const Expression& self);

// Returns the bytes of a chunk if `at_once` ranks share the work. Each of them gets two chunks, so that the
// work spreads. Longer chunks are no faster, and they let other ranks wait longer for the last one.
[[nodiscard]] inline std::size_t chunk_bytes_among(const Call& call, int at_once) {
  constexpr std::size_t longest_chunk = 64 * 1024;
  const std::size_t spread = call.input.bytes() / (2 * static_cast<std::size_t>(at_once));
  return std::clamp(spread, BoardShape::smallest_chunk, longest_chunk);
}

// Runs one(round) -> Task for each round of a message among `net`, the ranks of this node. A round may have
// at most shape().most_chunks() chunks of `chunk_bytes`. `all_meet`: no rank leaves a round before all have
// begun it; by default as the collective has it.
template <class One>
Task run_in_rounds(Endpoint net, Call call, std::size_t chunk_bytes, One one,
                   std::optional<bool> all_meet = std::nullopt) {
  Board& board = *net.board();
  const std::size_t width = call.input.width;
  const std::size_t window = board.shape().window_bytes / width;
  const std::size_t chunk = std::max<std::size_t>(1, (chunk_bytes + width - 1) / width);
  // If the inputs and outputs of all ranks take half of the cache, little of what is written now would be
  // found there later. An in-place result is in the cache already.
  const bool past_cache =
      call.input.data != call.output.data &&
      4 * static_cast<std::size_t>(net.size) * call.input.bytes() >= last_level_cache_bytes();
  for (std::size_t first = 0; first < call.input.count; first += window) {
    const std::size_t length = std::min(window, call.input.count - first);
    co_await net.end_round();
    board.round.next(call.collective, all_meet.value_or(synchronising_collectives.contain(call.collective)));
    if (!board.may_begin(board.round)) co_await begin_round(board, AllRanks(board, board.round));
    BoardRound round(
        net, call.with_input_and_output(call.input.slice(first, length), call.output.slice(first, length)),
        chunk, past_cache);
    round.begin = first;
    const std::size_t next = first + length;
    round.input_of_next_round = call.input.slice(next, std::min(window, call.input.count - next));
    round.prefetch_input(round.first_chunk());
    co_await one(round);
  }
}

}  // namespace offbeat
