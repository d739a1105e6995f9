// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/board/arrival_direct/pieces.hpp"

#include <array>

#include "node/board_awaitables.hpp"

namespace offbeat::direct {

Task put_pieces(const WindowRound& round) {
  for (int piece = 0; piece < round.pieces; ++piece)
    round.net.prefetch(round.window_place(round.net.rank, round.taker(piece)),
                       clipped_slice(round.exchanged.block_to(round.taker(piece)), round.first_in_block,
                                     round.most_elements));
  std::size_t announced = 0;  // number of chunks
  for (int piece = 0; piece < round.pieces; ++piece) {
    const ConstVector given_block = clipped_slice(round.exchanged.block_to(round.taker(piece)),
                                                  round.first_in_block, round.most_elements);
    const std::size_t begin = static_cast<std::size_t>(piece) * round.most_elements;
    const Vector place = round.window_place(round.net.rank, round.taker(piece));
    for (std::size_t done = 0; done < given_block.count;) {
      const std::size_t length = std::min(given_block.count - done, round.rest_of_chunk(begin + done));
      co_await round.net.put(place.slice(done, length), given_block.slice(done, length));
      done += length;
      for (; (announced + 1) * round.chunk() <= begin + done; ++announced)
        co_await round.board.announce(round.chunk_word(round.net.rank, announced),
                                      {round.tag, round.net.rank});
    }
  }
  for (; announced * round.chunk() < round.window_elements(); ++announced)
    co_await round.board.announce(round.chunk_word(round.net.rank, announced), {round.tag, round.net.rank});
}

namespace {

// A giver's piece that is not all taken yet.
struct Piece {
  int giver;
  std::size_t count;
  std::size_t done;   // elements that were taken
  std::size_t begin;  // in the giver's window, in elements
};

// Takes the pieces of all givers that have arrived, chunk by chunk.
Task take_pieces(const WindowRound& round) {
  const int ranks = round.net.size;
  const Scratch memory(true, static_cast<std::size_t>(ranks), sizeof(Piece));
  auto* const pieces = reinterpret_cast<Piece*>(memory.vector().data);
  int left = 0;
  for (int k = 1; k < ranks; ++k) {
    const int giver = (round.net.rank + k) % ranks;
    if (!round.exchanged.gives(giver)) continue;
    const std::size_t count =
        clipped_slice(round.exchanged.place_of_block_from(giver), round.first_in_block, round.most_elements)
            .count;
    if (count > 0) pieces[left++] = {giver, count, 0, round.begin_of(giver, round.net.rank)};
  }
  const auto is_there = [&](const Piece& piece) {
    return round.has_put(piece.giver, piece.begin + piece.done);
  };
  const auto any_is_there = [&] { return std::any_of(pieces, pieces + left, is_there); };
  while (left > 0) {
    Patience::Wait wait(round.board.patience);
    while (!any_is_there()) co_await round.board.pause(wait, any_is_there);
    int kept = 0;
    for (int k = 0; k < left; ++k) {
      Piece piece = pieces[k];
      const int giver = piece.giver;
      while (piece.done < piece.count && is_there(piece)) {
        const std::size_t length =
            std::min(piece.count - piece.done, round.rest_of_chunk(piece.begin + piece.done));
        const ConstVector chunk = round.window_place(giver, round.net.rank).slice(piece.done, length);
        co_await round.board.charge_fetch(giver, nullptr, sizeof(Board::Word));
        co_await round.board.charge_fetch(giver, chunk.data, chunk.bytes());
        const Vector receipt = clipped_slice(round.exchanged.place_of_block_from(giver), round.first_in_block,
                                             round.most_elements);
        Computation copy = round.net.copy(receipt.slice(piece.done, length), chunk);
        copy.past_cache = round.past_cache;
        copy.source_is_stable = round.has_put(giver, round.window_elements() - 1);
        co_await copy;
        piece.done += length;
      }
      if (piece.done < piece.count) pieces[kept++] = piece;
    }
    left = kept;
  }
}

// Combines the pieces of this rank's block in rank order.
Task combine(const WindowRound& round) {
  const int ranks = round.net.size;
  const Call& call = round.exchanged.call();
  const ConstVector mine =
      clipped_slice(round.exchanged.block_to(round.net.rank), round.first_in_block, round.most_elements);
  const Vector result = clipped_slice(call.output, round.first_in_block, round.most_elements);
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
          const auto is_there = [&] { return round.has_put(giver, chunk * round.chunk()); };
          while (!is_there()) co_await round.board.pause(wait, is_there);
        }
        const ConstVector theirs = round.window_place(giver, round.net.rank).slice(done, length);
        co_await round.board.charge_fetch(giver, nullptr, sizeof(Board::Word));
        co_await round.board.charge_fetch(giver, theirs.data, theirs.bytes());
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

}  // namespace

Task take_or_combine_pieces(const WindowRound& round) {
  return facts_of(round.exchanged.call().collective).has_operation ? combine(round) : take_pieces(round);
}

}  // namespace offbeat::direct
