// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/board/arrival_direct/channels.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "node/board_awaitables.hpp"

namespace offbeat::direct {
namespace {

// A channel leads from one giver to one taker. It is a part of a window, which its chunks fill again and
// again. The two ranks need no other rank, so a late rank delays only what it gives and takes itself.
class WindowChannel {
 public:
  // Sends a block of `count` elements. In `round`, a piece is the whole channel.
  WindowChannel(const WindowRound& round, int giver, int taker, std::size_t count)
      : round_(round),
        owner_(round.exchanged.window_owner(giver, taker)),
        piece_(round.exchanged.piece_of(giver, taker)),
        place_(round.window_place(giver, taker)),
        length_(round.exchanged.count_in_window(count)) {
    const std::size_t spread = static_cast<std::size_t>(round.pieces) * length_ * round.width / 4;
    const std::size_t bytes =
        std::clamp<std::size_t>(spread, BoardShape::smallest_chunk, std::size_t{64} << 10);
    chunk_ = std::min((bytes + round.width - 1) / round.width, round.most_elements);
    chunks_in_flight_ = round.most_elements / chunk_;
  }

  [[nodiscard]] std::size_t chunks() const { return (length_ + chunk_ - 1) / chunk_; }
  [[nodiscard]] bool reuses_window() const { return chunks() > chunks_in_flight_; }
  [[nodiscard]] Vector window_place(std::size_t chunk) const {
    return clipped_slice(place_, chunk % chunks_in_flight_ * chunk_, size_of(chunk));
  }
  template <class AnyVector>
  [[nodiscard]] AnyVector chunk_of(const AnyVector& block, std::size_t chunk) const {
    return clipped_slice(block, chunk * chunk_, chunk_);
  }
  // The giver counts in put_count() the chunks that it has put on the board. The taker counts in
  // taken_count() the chunks that it has read.
  [[nodiscard]] Board::Word& put_count() const { return round_.board.step(round_.tag, piece_).word(owner_); }
  [[nodiscard]] Board::Word& taken_count() const {
    const auto pieces = static_cast<std::size_t>(round_.pieces);
    if (pieces == 1) return round_.board.relay_word(round_.tag, owner_, 0);
    return round_.board.step(round_.tag, pieces + piece_).word(owner_);
  }
  // Returns the count in a word. At least `known` is known already, because a word has only the last 16 bits
  // of the count.
  [[nodiscard]] std::size_t count(const Board::Word& word, std::size_t known) const {
    const Board::Mark mark(word.load(std::memory_order_acquire));
    if (mark.round != round_.tag) return known;
    return known + static_cast<std::uint16_t>(static_cast<std::size_t>(mark.holder) - known);
  }
  [[nodiscard]] Board::Mark mark(std::size_t count) const {
    return {round_.tag, static_cast<std::uint16_t>(count)};
  }
  [[nodiscard]] std::size_t chunks_in_flight() const { return chunks_in_flight_; }

 private:
  [[nodiscard]] std::size_t size_of(std::size_t chunk) const {
    return std::min(chunk_, length_ - chunk * chunk_);
  }
  const WindowRound& round_;
  const int owner_;  // of the window
  const std::size_t piece_;
  const Vector place_;
  const std::size_t length_;
  std::size_t chunk_;
  std::size_t chunks_in_flight_;  // how many chunks the channel holds
};

}  // namespace

// Each piece needs two words: for the chunks that were put, and for those that were taken.
bool board_has_channels(const Board& board, int pieces) {
  return pieces == 1 || 2 * static_cast<std::size_t>(pieces) <= board.shape().most_chunks();
}

Task run_through_channels(const WindowRound& round, const ListsAtRoot* lists) {
  const BlockExchange& exchanged = round.exchanged;
  Board& board = round.board;
  const int ranks = round.net.size;
  const auto places = static_cast<std::size_t>(ranks);
  const Scratch memory(true, 4 * places, sizeof(std::size_t));
  auto* given = reinterpret_cast<std::size_t*>(memory.vector().data);  // chunks given to each rank
  std::size_t* taken = given + places;                                 // chunks taken from each rank
  std::size_t* known = taken + places;                                 // chunks that each rank has taken
  std::size_t* lengths = known + places;  // elements in the block of each rank, if there are lists
  std::fill_n(given, 3 * places, 0);
  constexpr std::size_t unknown = std::numeric_limits<std::size_t>::max();
  std::fill_n(lengths, places, unknown);
  bool has_own = exchanged.keeps_own_block() && lists == nullptr;
  for (bool is_over = false; !is_over;) {
    Patience::Wait wait(board.patience);
    for (bool got_further = false; !got_further && !is_over;) {
      is_over = true;
      for (int k = 1; k < ranks && exchanged.gives_others(); ++k) {
        const int taker = (round.net.rank + k) % ranks;
        if (!exchanged.takes(taker)) continue;
        const auto to = static_cast<std::size_t>(taker);
        const ConstVector given_block = exchanged.block_to(taker);
        const WindowChannel channel(round, round.net.rank, taker, given_block.count);
        while (given[to] < channel.chunks()) {
          if (given[to] - known[to] == channel.chunks_in_flight())
            known[to] = channel.count(channel.taken_count(), known[to]);
          if (given[to] - known[to] == channel.chunks_in_flight()) break;
          round.net.prefetch(channel.window_place(given[to]), channel.chunk_of(given_block, given[to]));
          if (given[to] + 1 < channel.chunks() && given[to] + 1 - known[to] < channel.chunks_in_flight())
            round.net.prefetch(channel.window_place(given[to] + 1),
                               channel.chunk_of(given_block, given[to] + 1));
          co_await round.net.put(channel.window_place(given[to]), channel.chunk_of(given_block, given[to]));
          ++given[to];
          co_await board.announce(channel.put_count(), channel.mark(given[to]));
          got_further = true;
        }
        is_over = is_over && given[to] == channel.chunks();
      }
      if (is_over) board.announce_contribution();
      // This rank copies its own block now, because others may not have arrived yet.
      if (std::exchange(has_own, false)) {
        Computation own =
            round.net.copy(exchanged.place_of_block_from(round.net.rank), exchanged.block_to(round.net.rank));
        own.past_cache = round.past_cache;
        own.source_is_stable = true;
        co_await own;
      }
      for (int k = 1; k < ranks && exchanged.takes(round.net.rank); ++k) {
        const int giver = (round.net.rank + k) % ranks;
        if (!exchanged.gives(giver)) continue;
        const auto from = static_cast<std::size_t>(giver);
        Vector receipt = exchanged.place_of_block_from(giver);
        if (lists != nullptr && lengths[from] == unknown) {
          if (!lists->has_arrived(giver)) {
            is_over = false;
            continue;
          }
          const Reading reading = lists->reading_of(giver);
          co_await board.charge_fetch(giver, reading.data, reading.bytes);
          lengths[from] = lists->take_from(giver) / round.width;
          got_further = true;
        }
        receipt = clipped_slice(receipt, 0, lengths[from]);
        const WindowChannel channel(round, giver, round.net.rank, receipt.count);
        std::size_t there = channel.count(channel.put_count(), taken[from]);
        // In place, a chunk of the input must be sent before a received chunk takes its place. One of the two
        // directions may have fewer chunks.
        if (exchanged.every_rank_gives_and_takes() && receipt.data == exchanged.block_to(giver).data) {
          const WindowChannel back(round, round.net.rank, giver, exchanged.block_to(giver).count);
          if (given[from] < back.chunks()) there = std::min(there, given[from]);
        }
        for (; taken[from] < there; ++taken[from]) {
          const ConstVector piece = channel.window_place(taken[from]);
          co_await board.charge_fetch(giver, nullptr, sizeof(Board::Word));
          co_await board.charge_fetch(giver, piece.data, piece.bytes());
          Computation copy = round.net.copy(channel.chunk_of(receipt, taken[from]), piece);
          copy.past_cache = round.past_cache;
          copy.source_is_stable = there == channel.chunks();
          copy.source_changes = channel.reuses_window();
          co_await copy;
          if (channel.reuses_window())
            co_await board.announce(channel.taken_count(), channel.mark(taken[from] + 1));
          got_further = true;
        }
        is_over = is_over && taken[from] == channel.chunks();
      }
      if (!got_further && !is_over) co_await board.pause(wait);
    }
  }
}

}  // namespace offbeat::direct
