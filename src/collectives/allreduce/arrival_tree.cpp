// SPDX-License-Identifier: BSD-3-Clause
// Arrival tree: a reduction tree fixed by rank, with the work floating. For ranks on one node, through the board.
//
// The message goes in chunks. For each chunk a rank climbs from its own leaf: where the neighbouring group of ranks is not
// ready it leaves its partial result on the board and goes on with the next chunk; where it is, it combines the two and
// climbs on. So whoever comes second does the work, and the last arrival finds every other group combined. The
// two halves of the tree are combined by every rank for itself, straight into its output: this costs no
// more than copying the result.
//
//                 (0 1 2 3)           by every rank
//            (0 1)         (2 3)      by the second of each pair to get there, chunk by chunk
//           0     1       2     3
//
// Cost of the last arrival: about n bytes for each of log2(p) levels, at memory speed; balanced: 3n.
// Order: the tree, whoever comes first: the bits never depend on arrival. Powers of two: that of recursive_doubling.
// Source: ours; the idea of arrival order from Alizadeh et al. 2022.
#include <algorithm>
#include <bit>

#include "collectives/allreduce/allreduce.hpp"
#include "transport/node/board.hpp"

namespace offbeat::allreduce_algorithms {
namespace {

// Large enough that a chunk costs more than its flags, small enough that several operands stay in a first-level cache.
constexpr std::size_t best_chunk_bytes = 16 * 1024;

// One round: at most what fits in a window.
class Round {
 public:
  Round(Endpoint net, Board& board, Allreduce args, std::size_t chunk)
      : net_(net),
        board_(board),
        args_(args),
        chunk_(chunk),
        chunks_((args.input.count + chunk - 1) / chunk),
        number_(++board.round),
        left_ranks_(static_cast<int>(std::bit_ceil(static_cast<unsigned>(net.size)) / 2)) {}

  Task run() {
    // Ranks of one half begin at different chunks, so that each comes second about equally often.
    const int side = net_.rank < left_ranks_ ? 0 : 1;
    const int position = net_.rank - side * left_ranks_;
    const int ranks = side == 0 ? left_ranks_ : net_.size - left_ranks_;
    const std::size_t first = chunks_ * static_cast<std::size_t>(position) / static_cast<std::size_t>(ranks);
    for (std::size_t k = 0; k < chunks_; ++k) {
      co_await contribute((first + k) % chunks_);
      while (collected_ < chunks_ && is_complete(collected_)) co_await collect(collected_++);
    }
    Patience::Wait wait(board_.patience);
    while (collected_ < chunks_) {
      if (is_complete(collected_)) {
        co_await collect(collected_++);
      } else {
        co_await board_.pause(wait);
      }
    }
  }

 private:
  template <class AnyVector>
  [[nodiscard]] AnyVector of(const AnyVector& vector, std::size_t chunk) const {
    return vector.slice(chunk * chunk_, std::min(chunk_, args_.input.count - chunk * chunk_));
  }
  [[nodiscard]] Vector on_board(int owner, std::size_t chunk) const {
    const Vector all{board_.window(number_, owner), args_.input.count, args_.input.width};
    return of(all, chunk);
  }

  Task contribute(std::size_t chunk) {
    const Board::Step step = board_.step(number_, chunk);
    const Vector mine = on_board(net_.rank, chunk);
    ConstVector partial = of(args_.input, chunk);
    int group = net_.rank;  // of 2^level ranks
    for (int level = 0; (1 << level) < left_ranks_; ++level, group /= 2) {
      const int neighbour = (group ^ 1) << level;  // its first rank
      if (neighbour >= net_.size) continue;
      const int split = (group | 1) << level;
      Board::Mark first(step.meeting(split).load(std::memory_order_acquire));
      if (first.round != number_) {
        if (partial.data != mine.data) co_await net_.copy(mine, partial);
        partial = mine;
        first = co_await board_.exchange(step.meeting(split), {number_, net_.rank});
        if (first.round != number_) co_return;  // the neighbour comes second and combines
      }
      co_await net_.reduce_by_rank(*args_.op, mine, neighbour, partial, on_board(first.holder, chunk));
      partial = mine;
    }
    if (partial.data != mine.data) co_await net_.copy(mine, partial);
    co_await board_.announce(step.complete(net_.rank < left_ranks_ ? 0 : 1),
                             {number_, net_.rank});
  }

  [[nodiscard]] bool is_complete(std::size_t chunk) const {
    const Board::Step step = board_.step(number_, chunk);
    const auto is_now = [&](int side) {
      return Board::Mark(step.complete(side).load(std::memory_order_acquire)).round == number_;
    };
    return is_now(0) && is_now(1);
  }

  [[nodiscard]] Computation collect(std::size_t chunk) const {
    const Board::Step step = board_.step(number_, chunk);
    const auto half = [&](int side) {
      return on_board(Board::Mark(step.complete(side).load(std::memory_order_relaxed)).holder, chunk);
    };
    return net_.reduce(*args_.op, of(args_.output, chunk), half(0), half(1));
  }

  Endpoint net_;
  Board& board_;
  Allreduce args_;
  std::size_t chunk_;   // elements
  std::size_t chunks_;
  std::uint64_t number_;
  int left_ranks_;
  std::size_t collected_ = 0;
};

Task run(Endpoint net, Allreduce args, const Expression&) {
  Board& board = *net.board();
  const std::size_t width = args.input.width;
  const std::size_t window = board.shape().window_bytes / width;  // elements
  // Several chunks for each rank, so that the work spreads; but no more than the board has steps for.
  const std::size_t spread = args.input.bytes() / (2 * static_cast<std::size_t>(net.size));
  const std::size_t chunk_bytes = std::clamp(spread, BoardShape::smallest_chunk, best_chunk_bytes);
  const std::size_t chunk = std::max<std::size_t>(1, (chunk_bytes + width - 1) / width);
  for (std::size_t first = 0; first < args.input.count; first += window) {
    const std::size_t length = std::min(window, args.input.count - first);
    Round round(net, board, {args.input.slice(first, length), args.output.slice(first, length), args.op}, chunk);
    co_await round.run();
  }
}

}  // namespace

const Algorithm arrival_tree{
    .name = "arrival_tree",
    .summary = "a tree fixed by rank, its work done by who arrives second; ranks on one node, any size",
    .cost = "n bytes at memory speed for each of log2(p) levels after the last arrival",
    .needs = "all ranks on one node; cannot be a part of another algorithm",
    .source = "offbeat",
    .on_board = true,
    .run = run,
};

}  // namespace offbeat::allreduce_algorithms
