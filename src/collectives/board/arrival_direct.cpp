// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/board/arrival_direct.hpp"

#include <array>
#include <cstdint>
#include <utility>

#include "base/copy.hpp"
#include "collectives/board/board_rounds.hpp"
#include "collectives/board/relayed_bcast.hpp"
#include "node/board_awaitables.hpp"

namespace offbeat::direct {

std::size_t Exchange::longest() const {
  switch (call_.collective) {
    case Collective::allgatherv:
    case Collective::gatherv:
      return call_.output_blocks.longest(ranks_);
    case Collective::reduce_scatter:
    case Collective::alltoallv:
    case Collective::scatterv:
      return call_.input_blocks.longest(ranks_);
    case Collective::alltoall:
    case Collective::reduce_scatter_block:
      return call_.input.count / static_cast<std::size_t>(ranks_);
    case Collective::gather:
    case Collective::allgather:
      return call_.input.count;
    default:
      return call_.output.count;
  }
}

namespace {

// Elements [first, first + most) of a vector, as far as it goes.
template <class AnyVector>
AnyVector part(const AnyVector& vector, std::size_t first, std::size_t most) {
  const std::size_t begin = std::min(first, vector.count);
  return vector.slice(begin, std::min(most, vector.count - begin));
}

// Elements [first, first + most) of every gift.
class Round {
 public:
  Round(const Endpoint& net, const Exchange& exchange, std::size_t first, std::size_t most)
      : net(net),
        exchange(exchange),
        board(*net.board()),
        number(board.round.present),
        first(first),
        most(most),
        pieces(exchange.pieces()),
        width(exchange.call().output.width) {
    // Short ones let takers begin early; long ones are announced less often.
    const std::size_t spread = total() * width / 4;
    const std::size_t bytes =
        std::clamp<std::size_t>(spread, BoardShape::smallest_chunk, std::size_t{64} << 10);
    chunk_ = (bytes + width - 1) / width;
    swapped_ = exchange.is_mutual() && pieces == net.size - 1 && (number >> 1 & 1) != 0;
  }

  // The elements in a window.
  [[nodiscard]] std::size_t total() const { return static_cast<std::size_t>(pieces) * most; }
  // Where `giver` puts its piece for `taker`. A core writes fastest where it has read last, and in some
  // exchanges two ranks read from each other what they write: there they swap places every other time.
  [[nodiscard]] Vector place(int giver, int taker) const {
    if (swapped_) std::swap(giver, taker);
    const Vector window{board.window(number, giver), total(), width};
    return window.slice(begin_of(giver, taker), most);
  }
  // Of the piece for `taker` among those of `giver`.
  [[nodiscard]] std::size_t begin_of(int giver, int taker) const {
    return exchange.piece_of(giver, taker) * most;
  }
  [[nodiscard]] int taker(int piece) const { return (net.rank + 1 + piece) % net.size; }

  [[nodiscard]] std::size_t chunk() const { return chunk_; }
  [[nodiscard]] std::size_t chunk_of(std::size_t element) const { return element / chunk_; }
  // From `element` to the end of its chunk.
  [[nodiscard]] std::size_t rest_of_chunk(std::size_t element) const { return chunk_ - element % chunk_; }
  [[nodiscard]] Board::Word& word(int giver, std::size_t chunk) const {
    return board.step(number, chunk).word(giver);
  }
  [[nodiscard]] bool is_there(int giver, std::size_t element) const {
    const Board::Word& word = this->word(giver, chunk_of(element));
    return Board::Mark(word.load(std::memory_order_acquire)).round == number;
  }

  const Endpoint& net;
  const Exchange& exchange;
  Board& board;
  const std::uint64_t number;
  const std::size_t first;
  const std::size_t most;
  const int pieces;
  const std::size_t width;
  bool past_cache = false;

 private:
  std::size_t chunk_;
  bool swapped_;
};

Task give(const Round& round) {
  std::size_t announced = 0;  // chunks
  for (int piece = 0; piece < round.pieces; ++piece) {
    const ConstVector gift = part(round.exchange.gift(round.taker(piece)), round.first, round.most);
    const std::size_t begin = static_cast<std::size_t>(piece) * round.most;
    const Vector place = round.place(round.net.rank, round.taker(piece));
    for (std::size_t done = 0; done < gift.count;) {
      const std::size_t length = std::min(gift.count - done, round.rest_of_chunk(begin + done));
      co_await round.net.put(place.slice(done, length), gift.slice(done, length));
      done += length;
      for (; (announced + 1) * round.chunk() <= begin + done; ++announced)
        co_await round.board.announce(round.word(round.net.rank, announced), {round.number, round.net.rank});
    }
  }
  for (; announced * round.chunk() < round.total(); ++announced)
    co_await round.board.announce(round.word(round.net.rank, announced), {round.number, round.net.rank});
}

// From whoever is there, chunk by chunk.
Task take(const Round& round) {
  const int ranks = round.net.size;
  const Scratch memory(true, static_cast<std::size_t>(ranks), sizeof(std::size_t));
  auto* taken = reinterpret_cast<std::size_t*>(memory.vector().data);  // elements of each giver's piece
  std::fill_n(taken, ranks, 0);
  for (bool is_over = false; !is_over;) {
    Patience::Wait wait(round.board.patience);
    for (bool got_further = false; !got_further && !is_over;) {
      is_over = true;
      for (int k = 1; k < ranks; ++k) {
        const int giver = (round.net.rank + k) % ranks;
        if (!round.exchange.gives(giver)) continue;
        std::size_t& done = taken[giver];
        const Vector receipt = part(round.exchange.receipt(giver), round.first, round.most);
        const std::size_t begin = round.begin_of(giver, round.net.rank);
        while (done < receipt.count && round.is_there(giver, begin + done)) {
          const std::size_t length = std::min(receipt.count - done, round.rest_of_chunk(begin + done));
          const ConstVector piece = round.place(giver, round.net.rank).slice(done, length);
          co_await round.board.fetch(giver, piece.data, BoardShape::line + piece.bytes());
          Computation copy = round.net.copy(receipt.slice(done, length), piece);
          copy.past_cache = round.past_cache;
          copy.at_rest = round.is_there(giver, round.total() - 1);
          co_await copy;
          done += length;
          got_further = true;
        }
        is_over = is_over && done == receipt.count;
      }
      if (!got_further && !is_over) co_await round.board.pause(wait);
    }
  }
}

// The pieces of this rank's block, in rank order.
Task combine(const Round& round) {
  const int ranks = round.net.size;
  const Call& call = round.exchange.call();
  const ConstVector mine = part(round.exchange.gift(round.net.rank), round.first, round.most);
  const Vector result = part(call.output, round.first, round.most);
  for (std::size_t done = 0; done < result.count;) {
    const std::size_t length = std::min(result.count - done, round.chunk());
    const Vector piece = result.slice(done, length);
    std::array<const void*, Computation::most_operands> operands{};
    std::size_t count = 0;
    for (int giver = 0; giver < ranks; ++giver) {
      if (giver == round.net.rank) {
        operands[count++] = mine.slice(done, length).data;
      } else {
        const std::size_t begin = round.begin_of(giver, round.net.rank) + done;
        for (std::size_t chunk = round.chunk_of(begin); chunk <= round.chunk_of(begin + length - 1);
             ++chunk) {
          Patience::Wait wait(round.board.patience);
          while (!round.is_there(giver, chunk * round.chunk())) co_await round.board.pause(wait);
        }
        const ConstVector theirs = round.place(giver, round.net.rank).slice(done, length);
        co_await round.board.fetch(giver, theirs.data, BoardShape::line + theirs.bytes());
        operands[count++] = theirs.data;
      }
      if (count < Computation::most_operands && giver + 1 < ranks) continue;
      co_await round.net.reduce(*call.op, piece, operands, count);
      operands = {piece.data};
      count = 1;
    }
    done += length;
  }
}

// From one giver to one taker: a part of a window, which its chunks fill again and again. The two need nobody
// else, so a late rank holds up only what it gives and takes itself.
class Channel {
 public:
  // For so many elements, in a round of which a piece is the whole channel. Both ranks know how many.
  Channel(const Round& round, int giver, int taker, std::size_t length)
      : round_(round),
        giver_(giver),
        piece_(round.exchange.piece_of(giver, taker)),
        place_(round.place(giver, taker)),
        length_(length) {
    const std::size_t spread = static_cast<std::size_t>(round.pieces) * length * round.width / 4;
    const std::size_t bytes =
        std::clamp<std::size_t>(spread, BoardShape::smallest_chunk, std::size_t{64} << 10);
    chunk_ = std::min((bytes + round.width - 1) / round.width, round.most);
    depth_ = round.most / chunk_;
  }
  [[nodiscard]] static bool fit(const Board& board, int pieces) {
    return 2 * static_cast<std::size_t>(pieces) <= board.shape().most_chunks();
  }

  [[nodiscard]] std::size_t chunks() const { return (length_ + chunk_ - 1) / chunk_; }
  [[nodiscard]] bool is_filled_again() const { return chunks() > depth_; }
  [[nodiscard]] Vector place(std::size_t chunk) const {
    return part(place_, chunk % depth_ * chunk_, size_of(chunk));
  }
  template <class AnyVector>
  [[nodiscard]] AnyVector of(const AnyVector& block, std::size_t chunk) const {
    return part(block, chunk * chunk_, chunk_);
  }
  // How many chunks have been put, and taken.
  [[nodiscard]] Board::Word& put() const { return round_.board.step(round_.number, piece_).word(giver_); }
  [[nodiscard]] Board::Word& taken() const {
    const auto pieces = static_cast<std::size_t>(round_.pieces);
    return round_.board.step(round_.number, pieces + piece_).word(giver_);
  }
  // The number in a word, of which at least so many are known.
  [[nodiscard]] std::size_t count(const Board::Word& word, std::size_t known) const {
    const Board::Mark mark(word.load(std::memory_order_acquire));
    if (mark.round != round_.number) return known;
    return known + static_cast<std::uint16_t>(static_cast<std::size_t>(mark.holder) - known);
  }
  [[nodiscard]] Board::Mark mark(std::size_t count) const {
    return {round_.number, static_cast<std::uint16_t>(count)};
  }
  [[nodiscard]] std::size_t depth() const { return depth_; }

 private:
  [[nodiscard]] std::size_t size_of(std::size_t chunk) const {
    return std::min(chunk_, length_ - chunk * chunk_);
  }
  const Round& round_;
  const int giver_;
  const std::size_t piece_;
  const Vector place_;
  const std::size_t length_;
  std::size_t chunk_;
  std::size_t depth_;  // chunks
};

// Everything that one rank gives and takes in channels, as fast as each of the others lets it.
Task through_channels(const Round& round) {
  const Exchange& exchange = round.exchange;
  Board& board = round.board;
  const int ranks = round.net.size;
  const auto places = static_cast<std::size_t>(ranks);
  const Scratch memory(true, 3 * places, sizeof(std::size_t));
  auto* given = reinterpret_cast<std::size_t*>(memory.vector().data);  // chunks, to each rank
  std::size_t* taken = given + places;                                 // from each rank
  std::size_t* known = taken + places;                                 // to be taken by each rank
  std::fill_n(given, 3 * places, 0);
  bool has_own = exchange.gives_itself();
  for (bool is_over = false; !is_over;) {
    Patience::Wait wait(board.patience);
    for (bool got_further = false; !got_further && !is_over;) {
      is_over = true;
      for (int k = 1; k < ranks && exchange.gives_others(); ++k) {
        const int taker = (round.net.rank + k) % ranks;
        if (!exchange.takes(taker)) continue;
        const auto to = static_cast<std::size_t>(taker);
        const ConstVector gift = exchange.gift(taker);
        const Channel channel(round, round.net.rank, taker, gift.count);
        while (given[to] < channel.chunks()) {
          if (given[to] - known[to] == channel.depth()) known[to] = channel.count(channel.taken(), known[to]);
          if (given[to] - known[to] == channel.depth()) break;
          co_await round.net.put(channel.place(given[to]), channel.of(gift, given[to]));
          ++given[to];
          co_await board.announce(channel.put(), channel.mark(given[to]));
          got_further = true;
        }
        is_over = is_over && given[to] == channel.chunks();
      }
      if (is_over) board.contributed(round.number);
      // While others have not arrived yet.
      if (std::exchange(has_own, false)) {
        Computation own = round.net.copy(exchange.receipt(round.net.rank), exchange.gift(round.net.rank));
        own.past_cache = round.past_cache;
        own.at_rest = true;
        co_await own;
      }
      for (int k = 1; k < ranks && exchange.takes(round.net.rank); ++k) {
        const int giver = (round.net.rank + k) % ranks;
        if (!exchange.gives(giver)) continue;
        const auto from = static_cast<std::size_t>(giver);
        const Vector receipt = exchange.receipt(giver);
        const Channel channel(round, giver, round.net.rank, receipt.count);
        std::size_t there = channel.count(channel.put(), taken[from]);
        // In place a chunk goes before its place is taken. (One way there may be less to go.)
        if (exchange.is_mutual() && receipt.data == exchange.gift(giver).data) {
          const Channel back(round, round.net.rank, giver, exchange.gift(giver).count);
          if (given[from] < back.chunks()) there = std::min(there, given[from]);
        }
        for (; taken[from] < there; ++taken[from]) {
          const ConstVector piece = channel.place(taken[from]);
          co_await board.fetch(giver, piece.data, BoardShape::line + piece.bytes());
          Computation copy = round.net.copy(channel.of(receipt, taken[from]), piece);
          copy.past_cache = round.past_cache;
          copy.at_rest = there == channel.chunks();
          co_await copy;
          if (channel.is_filled_again())
            co_await board.announce(channel.taken(), channel.mark(taken[from] + 1));
          got_further = true;
        }
        is_over = is_over && taken[from] == channel.chunks();
      }
      if (!got_further && !is_over) co_await board.pause(wait);
    }
  }
}

// Of an alltoallv: with them come the lengths of all.
Task slots_have_come(Board& board, const Call& call) {
  const SmallLists lists(board, call);
  for (int rank = 0; rank < board.size; ++rank) {
    Patience::Wait wait(board.patience);
    while (!lists.has_come(rank)) co_await board.pause(wait);
  }
}

Task take_or_combine(const Round& round) {
  return facts(round.exchange.call().collective).has_operation ? combine(round) : take(round);
}

}  // namespace

// If there are several pieces, each may begin anywhere in a page.
std::size_t lease(const Call& call, int rank, int ranks) {
  if (call.collective == Collective::bcast && ranks > few_ranks) return call.output.bytes();
  const Exchange exchange(call, rank, ranks);
  if (!exchange.gives_others()) return 0;
  const std::size_t piece = exchange.longest_here() * call.output.width;
  const auto pieces = static_cast<std::size_t>(exchange.pieces());
  return pieces == 1 || piece == 0 ? piece : pieces * (piece + BoardShape::smallest_chunk);
}

Task run(Endpoint net, Call call, const Expression& self) {
  if (call.collective == Collective::bcast && net.size > few_ranks) {
    co_await relayed_bcast(net, call, self);
    co_return;
  }
  Board& board = *net.board();
  const Exchange exchange(call, net.rank, net.size);
  const std::size_t window = board.shape().window_bytes / call.output.width;
  const std::size_t share = window / static_cast<std::size_t>(exchange.pieces());
  // What is read and written by all ranks takes half of the cache: little of a result would be found there
  // later.
  const bool past_cache = 2 * exchange.bytes_of_all() >= last_level_cache_bytes();
  if (exchange.has_channels() && Channel::fit(board, exchange.pieces())) {
    board.round.next(meetings.contain(call.collective));
    if (!board.may_begin(board.round)) co_await begin_round(board, AllRanks(board, board.round));
    Round round(net, exchange, 0, share);
    round.past_cache = past_cache;
    co_await through_channels(round);
    if (call.collective == Collective::alltoallv) co_await slots_have_come(board, call);
    co_return;
  }
  if (call.collective == Collective::alltoallv) co_await slots_have_come(board, call);
  const std::size_t longest = call.collective == Collective::alltoallv
                                  ? SmallLists::longest_of_all(board, exchange)
                                  : exchange.longest();
  for (std::size_t first = 0; first < longest; first += share) {
    board.round.next(meetings.contain(call.collective));
    if (!board.may_begin(board.round)) co_await begin_round(board, AllRanks(board, board.round));
    Round round(net, exchange, first, std::min(share, longest - first));
    round.past_cache = past_cache;
    if (exchange.gives_others()) co_await give(round);
    board.contributed(round.number);
    // While others have not arrived yet.
    if (first == 0 && exchange.gives_itself()) {
      Computation own = net.copy(exchange.receipt(net.rank), exchange.gift(net.rank));
      own.past_cache = past_cache;
      own.at_rest = true;
      co_await own;
    }
    if (exchange.takes(net.rank)) co_await take_or_combine(round);
  }
}

}  // namespace offbeat::direct
