// SPDX-License-Identifier: BSD-3-Clause
// Idea: groups of four ranks combine the vector, a share by each, then groups of four groups, and so on. The
// result comes back the same way. So most bytes come from the ranks next to the reader, whose cores share its
// cache, and few from far ones. It runs on one node, on the board.
//
//     rank               0   1   2   3     4   5   6   7    ...
//     level 0, inputs    all all all all   all all all all         its own vector
//     level 1, 4 ranks   a   b   c   d     a   b   c   d           a quarter of the sum of its group
//     level 2, 16 ranks  each a sixteenth of the sum of its group
//
// A rank says in one word how far it has come, and waits for those alone whose data it needs. So while a rank
// is late, all others combine what does not need its data.
//
// Cost: a rank puts n bytes, reads n of inputs and n of results from its group of four, and n/4, n/16 ... of
// each from larger groups. If one rank is late, what follows its arrival is as long for that rank. If the
// number of ranks is no power of four, the last groups are smaller and their ranks have larger shares.
// Order: that of arrival_tree, and the same forms for short messages. So both give the same bits.
// Source: ours. By messages this is Rabenseifner's algorithm with four ranks a step. Peng et al. 2023 (YHCCL)
// and Jocksch et al. 2025 (ext_mpi) combine in shared memory by levels.
#include <algorithm>
#include <array>

#include "collectives/allreduce/allreduce.hpp"
#include "collectives/allreduce/short_allreduce.hpp"
#include "collectives/board/board_round.hpp"

namespace offbeat::allreduce_algorithms {
namespace {

constexpr int radix = 4;

// Chunks [first, last) of a round.
struct Chunks {
  std::size_t first;
  std::size_t last;
};

constexpr int width_of(int level) {
  int width = 1;
  for (; level > 0; --level) width *= radix;
  return width;
}

// Consecutive ranks, of which each has a share of the chunks.
class Group {
 public:
  // The ranks [first, last).
  Group(const BoardRound& round, int first, int last)
      : chunks_(round.chunks), first_(first), ranks_(last - first) {}

  [[nodiscard]] int first() const { return first_; }
  [[nodiscard]] int last() const { return first_ + ranks_ - 1; }
  [[nodiscard]] Chunks share_of(int rank) const {
    return {begin_of(rank - first_), begin_of(rank - first_ + 1)};
  }
  // Returns the rank in whose share a chunk is.
  [[nodiscard]] int holder_of(std::size_t chunk) const {
    return first_ + static_cast<int>(((chunk + 1) * static_cast<std::size_t>(ranks_) - 1) / chunks_);
  }

 private:
  [[nodiscard]] std::size_t begin_of(int index) const {
    return chunks_ * static_cast<std::size_t>(index) / static_cast<std::size_t>(ranks_);
  }
  std::size_t chunks_;
  int first_;
  int ranks_;
};

// The groups that combine are those of the tree of arrival_tree: 4^level ranks, and fewer at the end.
Group combining_group(const BoardRound& round, int rank, int level) {
  const int width = width_of(level);
  const int first = rank / width * width;
  return {round, first, std::min(first + width, round.net.size)};
}
int combining_levels(int ranks) {
  int level = 0;
  while (width_of(level) < ranks) ++level;
  return level;
}

// The groups that pass the result on have nearly equal sizes, at least 4^level, because a rank that is alone
// would have to read from all others.
int passing_groups(int ranks, int level) { return std::max(1, ranks / width_of(level)); }
Group passing_group(const BoardRound& round, int rank, int level) {
  const int ranks = round.net.size;
  const int groups = passing_groups(ranks, level);
  const int group = ((rank + 1) * groups - 1) / ranks;
  return {round, ranks * group / groups, ranks * (group + 1) / groups};
}
int passing_levels(int ranks) {
  int level = 0;
  while (passing_groups(ranks, level) > 1) ++level;
  return level;
}

// How far a rank has come: 1 when its input is there, then 1 more for each level on which it has combined its
// share, and for each on which it has the result of its share.
Board::Word& progress_word(const BoardRound& round, int rank) {
  return BoardRound::node_phase_word(round.step(0), rank);
}
Task announce(const BoardRound& round, int progress) {
  co_await round.board.announce(progress_word(round, round.net.rank), round.mark(progress));
}
Task wait_for(const BoardRound& round, int rank, int progress) {
  if (rank == round.net.rank) co_return;
  const Board::Word& word = progress_word(round, rank);
  const auto has_come = [&] {
    const Board::Mark mark(word.load(std::memory_order_acquire));
    return mark.round == round.tag && mark.holder >= progress;
  };
  Patience::Wait wait(round.board.patience);
  while (!has_come()) co_await round.board.pause(wait, has_come);
  co_await round.board.charge_fetch(rank, &word, sizeof word);
}

// Puts the input, but for what this rank combines first.
Task put_input(const BoardRound& round) {
  const auto put = [&](std::size_t first, std::size_t last) {
    return round.net.put(round.chunks_on_board(round.net.rank, first, last),
                         round.chunk_of(round.call.input, first, last));
  };
  const Chunks mine = combining_group(round, round.net.rank, 1).share_of(round.net.rank);
  co_await put(mine.last, round.chunks);
  co_await put(0, mine.first);
  co_await announce(round, 1);
}

// Combines chunks that each part of a group has with one rank, in the order of the tree: the first two parts,
// the other two, and both.
Task combine(const BoardRound& round, Chunks chunks, int level, const std::array<int, radix>& holders,
             int parts) {
  const int me = round.net.rank;
  const Vector sum = round.chunks_on_board(me, chunks.first, chunks.last);
  std::array<ConstVector, radix> operands;
  bool sum_is_in_second_pair = false;
  for (int part = 0; part < parts; ++part) {
    const auto index = static_cast<std::size_t>(part);
    const int holder = holders[index];
    co_await wait_for(round, holder, level);
    operands[index] = level == 1 && holder == me
                          ? round.chunk_of(round.call.input, chunks.first, chunks.last)
                          : ConstVector(round.chunks_on_board(holder, chunks.first, chunks.last));
    co_await round.board.charge_fetch(holder, operands[index].data, operands[index].bytes());
    sum_is_in_second_pair = sum_is_in_second_pair || (holder == me && part >= 2);
  }
  const Reduction& op = *round.call.op;
  if (parts == 1) {
    if (holders[0] != me || level == 1) co_await round.net.put(sum, operands[0]);
  } else if (parts < radix) {
    Computation all = round.net.reduce(op, sum, operands[0], operands[1]);
    if (parts == 3) all.add(operands[2].data, false);
    all.to_shared = true;
    co_await all;
  } else {
    // The pair goes first that may lie where the sum is written.
    const std::size_t pair = sum_is_in_second_pair ? 2 : 0;
    co_await round.net.reduce(op, sum, operands[pair], operands[pair + 1]);
    Computation all = round.net.reduce(op, sum, operands[2 - pair], operands[3 - pair]);
    all.add(sum.data, pair == 0);
    co_await all;
  }
}

// Combines this rank's share of its group of a level.
Task combine_share(const BoardRound& round, int level) {
  const int rank = round.net.rank;
  const int width = width_of(level - 1);  // of the parts
  const int first_rank = rank / (width * radix) * width * radix;
  const Chunks mine = combining_group(round, rank, level).share_of(rank);
  std::array<int, radix> holders{};
  for (Chunks piece{mine.first, 0}; piece.first < mine.last; piece.first = piece.last) {
    piece.last = mine.last;
    int parts = 0;
    for (int first = first_rank; parts < radix && first < round.net.size; first += width, ++parts) {
      const Group part = combining_group(round, first, level - 1);
      const int holder = part.holder_of(piece.first);
      holders[static_cast<std::size_t>(parts)] = holder;
      piece.last = std::min(piece.last, part.share_of(holder).last);
    }
    co_await combine(round, piece, level, holders, parts);
  }
  co_await announce(round, 1 + level);
}

// Returns true if this rank has the first of these chunks in its window, from a level above. Shortens them to
// those for which the answer is the same.
bool is_in_window(const BoardRound& round, Chunks& chunks, int level) {
  const int rank = round.net.rank;
  for (int above = level + 1; above <= passing_levels(round.net.size); ++above) {
    const Chunks share = passing_group(round, rank, above).share_of(rank);
    if (chunks.first >= share.last || chunks.last <= share.first) continue;
    const bool is_there = chunks.first >= share.first;
    chunks.last = is_there ? std::min(chunks.last, share.last) : share.first;
    if (is_there) return true;
  }
  return false;
}

// Copies results from the ranks that have them on the level above: a share into the window, for others, or
// all chunks to the output.
Task take_results(const BoardRound& round, Chunks chunks, int level, int progress) {
  const int rank = round.net.rank;
  const Group group = passing_group(round, rank, level + 1);
  for (Chunks piece = chunks; piece.first < chunks.last; piece.first = piece.last) {
    int holder = group.holder_of(piece.first);
    piece.last = std::min(chunks.last, group.share_of(holder).last);
    if (is_in_window(round, piece, level)) {
      if (level > 0) continue;
      holder = rank;
    }
    co_await wait_for(round, holder, progress);
    const ConstVector theirs = round.chunks_on_board(holder, piece.first, piece.last);
    co_await round.board.charge_fetch(holder, theirs.data, theirs.bytes());
    if (level > 0) {
      co_await round.net.put(round.chunks_on_board(rank, piece.first, piece.last), theirs);
    } else {
      Computation copy = round.net.copy(round.chunk_of(round.call.output, piece.first, piece.last), theirs);
      copy.past_cache = round.past_cache;
      co_await copy;
    }
  }
}

// Returns true if this rank passes results on at a level. In a reduce only those do from whom the root takes
// its results, directly or through levels below.
bool passes_on(const BoardRound& round, int level) {
  if (round.call.collective != Collective::reduce) return true;
  int first = round.call.root;
  int last = round.call.root;
  for (int below = 1; below <= level; ++below) {
    first = passing_group(round, first, below).first();
    last = passing_group(round, last, below).last();
  }
  return first <= round.net.rank && round.net.rank <= last;
}

// Leaves each rank with the result of its share in its window.
Task combine_all_shares(const BoardRound& round) {
  co_await put_input(round);
  for (int level = 1; level <= combining_levels(round.net.size); ++level)
    co_await combine_share(round, level);
}

Task run_round(const BoardRound& round) {
  const int rank = round.net.rank;
  const int ranks = round.net.size;
  co_await combine_all_shares(round);
  int progress = 1 + combining_levels(ranks);
  for (int level = passing_levels(ranks) - 1; level > 0; --level, ++progress) {
    if (!passes_on(round, level)) continue;
    const Chunks mine = passing_group(round, rank, level).share_of(rank);
    co_await take_results(round, mine, level, progress);
    co_await announce(round, progress + 1);
  }
  round.board.announce_contribution();
  if (!passes_on(round, 0)) co_return;
  round.prefetch_next_input();
  // Each rank begins with another holder.
  const std::size_t first = passing_group(round, rank, 1).share_of(rank).first;
  co_await take_results(round, {first, round.chunks}, 0, progress);
  co_await take_results(round, {0, first}, 0, progress);
}

// The node's part of a hierarchy: the results stay where they were combined.
Task combine_for_hierarchy(const BoardRound& round) {
  co_await combine_all_shares(round);
  const int rank = round.net.rank;
  const Chunks mine = combining_group(round, rank, combining_levels(round.net.size)).share_of(rank);
  for (std::size_t chunk = mine.first; chunk < mine.last; ++chunk)
    co_await round.board.announce(BoardRound::result(round.step(chunk)), round.mark());
}

// Copies a part of a round to `output` from the ranks that have combined it.
Task take_part(const BoardRound& round, std::size_t begin, Vector output) {
  const int levels = combining_levels(round.net.size);
  const Group all = combining_group(round, round.net.rank, levels);
  for (std::size_t done = 0, length = 0; done < output.count; done += length) {
    const int holder = all.holder_of((begin + done) / round.chunk_length());
    const std::size_t end = all.share_of(holder).last * round.chunk_length();
    length = std::min(end - begin, output.count) - done;
    co_await wait_for(round, holder, 1 + levels);
    const ConstVector theirs = round.on_board(holder, begin + done, length);
    co_await round.board.charge_fetch(holder, theirs.data, theirs.bytes());
    co_await round.net.copy(output.slice(done, length), theirs);
  }
}

// A round of a reduce_scatter. A rank that gets nothing of it waits, too: whoever has combined a share has
// seen the inputs of all, so no rank leaves before all have begun.
Task scatter_round(const BoardRound& round, const BlockList& pieces, int number, Vector output) {
  co_await combine_all_shares(round);
  round.board.announce_contribution();
  const std::size_t end = round.begin + round.call.input.count;
  bool has_taken = false;
  std::size_t place = 0;
  for (int k = 0; k < number; ++k) {
    const std::size_t count = pieces.counts[k];
    const auto begin = static_cast<std::size_t>(pieces.begins[k]);
    const std::size_t from = std::clamp(begin, round.begin, end);
    const std::size_t to = std::clamp(begin + count, from, end);
    if (from < to) {
      co_await take_part(round, from - round.begin, output.slice(place + from - begin, to - from));
      has_taken = true;
    }
    place += count;
  }
  const int levels = combining_levels(round.net.size);
  if (!has_taken)
    co_await wait_for(round, combining_group(round, round.net.rank, levels).holder_of(0), 1 + levels);
  round.prefetch_next_input();
}

// If ranks share cores, few of them run at once, and the tree moves fewer bytes.
bool has_a_core_for_each_rank(const Board& board) { return board.concurrent_ranks >= board.size; }

Task contribute(const BoardRound& round, UncollectedResults* results) {
  return has_a_core_for_each_rank(round.board) ? combine_for_hierarchy(round)
                                               : arrival_tree.node_phase(round, results);
}

Task run(Endpoint net, Call call, const Expression&) {
  return has_a_core_for_each_rank(*net.board()) ? run_by_shares(net, call)
                                                : run_on_one_node(net, call, arrival_tree.node_phase);
}

}  // namespace

Task run_by_shares(Endpoint net, Call call) { return run_in_rounds(net, call, BoardShape::line, run_round); }

Task scatter_by_shares(Endpoint net, Call call, const BlockList& pieces, int number) {
  const Vector output = call.output;
  const auto one_round = [&pieces, number, output](const BoardRound& round) {
    return scatter_round(round, pieces, number, output);
  };
  return run_in_rounds(net, call, BoardShape::line, one_round, true);  // all meet, also if blocks are empty
}

const Algorithm arrival_shares{
    .name = "arrival_shares",
    .summary = "groups of ranks combine a share each, level by level; ranks on one node, any size",
    .cost = "3n at memory speed after the last arrival, most of it near",
    .serves = {Collective::allreduce},
    .needs = {.board = OnBoard::one_node},
    .source = "offbeat",
    .order = tree_order,
    .node_phase = contribute,
    .immediate = short_allreduce,
    .run = run,
};

}  // namespace offbeat::allreduce_algorithms
